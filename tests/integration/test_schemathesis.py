"""schemathesis against a real weftd: requests made from docs/API/openapi.json,
good and bad ones, and every answer held against it.

Requests at random in one run, and values at their bounds in another; test_openapi_input.py
has what is the same every time.  It comes from PyPI (tests/requirements.txt), into the
build tree's `venv`, by scripts/test.
"""

import pathlib
import random
import re

import pytest

from apicaller import ATTACH, FILE, api, disks, make_array, weftd
from wefttest import BUILD, SOURCE, picked, run

# No unsupported_method: civetweb itself refuses methods that it does not know
# (TRACE) with 400; test_openapi.py tries those that it does.
CHECKS = ["form_is_accepted", "not_a_server_error", "status_code_conformance",
          "content_type_conformance", "response_headers_conformance",
          "response_schema_conformance", "negative_data_rejection",
          "allow_header_conformance"]
STREAM = r"/events$"
# Heartbeats go last, to a weftd of their own: a heartbeat that claims to know newer epochs
# than weftd makes weftd refuse further changes.
HEARTBEAT = r"/heartbeat$"
pytestmark = [pytest.mark.long(100), pytest.mark.timeout(600)]


OTHERS = ["--exclude-path-regex", f"{STREAM}|{HEARTBEAT}"]
# To fence a node is answered when members have confirmed, or after 20 s.
ANSWER_S = 30


def schemathesis(weftd, *words, checks=CHECKS, seconds=500):
    program = pathlib.Path(BUILD) / "venv/bin/schemathesis"
    assert program.exists(), "scripts/test makes it: see tests/requirements.txt"
    p = run(program, "run", FILE, "-u", weftd.url, "--checks", ",".join(checks),
            "--no-color", "--warnings", "off", "--continue-on-failure",
            "--output-sanitize", "false",
            "--request-timeout", str(ANSWER_S), *words,
            timeout=seconds, check=False, cwd=weftd.dir,
            env={"SCHEMATHESIS_HOOKS": "schemathesishooks",
                 "PYTHONPATH": str(SOURCE / "tests"),
                 "PYTHONDONTWRITEBYTECODE": "1", "NO_PROXY": "*"})
    assert p.returncode == 0, p.stdout[-20000:] + p.stderr
    [count] = re.findall(r"(\d+) generated", p.stdout)
    return int(count)


@pytest.fixture
def served(weftd, api, disks):
    """A weftd with something to speak of."""
    make_array(api, disks[:3])
    api.call("POST", "/api/v1/arrays/a/sessions", ATTACH, expect=201)
    return weftd


@pytest.mark.parametrize("phases,least,words", picked([
    ("examples,coverage", 500, []), ("fuzzing", 150, ["-n", "6"])]))
def test_requests(served, api, seed, phases, least, words):
    count = schemathesis(served, *OTHERS, "--phases", phases, *words, "--seed", str(seed))
    assert count > least
    api.get("/api/v1/status")


def test_heartbeats(weftd, api, seed):
    """weftd does not check the place of a disk without a layout; test_openapi_input.py tries
    each field that it checks."""
    checks = [c for c in CHECKS if c != "negative_data_rejection"]
    count = schemathesis(weftd, "--include-path-regex", HEARTBEAT, "--phases",
                         "coverage,fuzzing", "-n", "20", "--seed", str(seed),
                         checks=checks)
    assert count > 100
    api.get("/api/v1/status")
