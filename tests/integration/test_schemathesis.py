"""schemathesis against a real weftd: requests made from docs/API/openapi.json,
good and bad ones, and every answer held against it.

Once with the same seed, so that a change of ours shows as such; once with a new
one, which is printed.  It comes from PyPI (tests/requirements.txt), into the
build tree's `venv`, by scripts/test.
"""

import pathlib
import random
import re

import pytest

from apicaller import ATTACH, FILE, api, disks, make_array, weftd
from wefttest import BUILD, SOURCE, run

# No unsupported_method: civetweb itself refuses methods that it does not know
# (TRACE) with 400; test_openapi.py tries those that it does.
CHECKS = ["form_is_accepted", "not_a_server_error", "status_code_conformance",
          "content_type_conformance", "response_headers_conformance",
          "response_schema_conformance", "negative_data_rejection",
          "allow_header_conformance"]
STREAM = r"/events$"
# They go last, to a weftd of their own: one that says to have seen more than
# weftd has makes it take no more changes.
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


def test_the_same_every_time(served, api):
    count = schemathesis(served, *OTHERS, "--phases", "examples,coverage",
                         "--seed", "1")
    assert count > 500
    assert api.get("/api/v1/status")["arrays"][0]["name"] == "a"


def test_at_random(served, api, seed):
    count = schemathesis(served, *OTHERS, "--phases", "fuzzing", "-n", "6",
                         "--seed", str(seed))
    assert count > 150
    api.get("/api/v1/status")


def test_heartbeats(weftd, api, seed):
    """What a disk without a layout says of its place is not looked at;
    test_openapi_input.py tries each field that is."""
    checks = [c for c in CHECKS if c != "negative_data_rejection"]
    count = schemathesis(weftd, "--include-path-regex", HEARTBEAT, "--phases",
                         "coverage,fuzzing", "-n", "20", "--seed", str(seed),
                         checks=checks)
    assert count > 100
    api.get("/api/v1/status")
