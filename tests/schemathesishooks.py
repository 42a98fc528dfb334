"""Hooks of integration/test_schemathesis.py for schemathesis, which loads them
(SCHEMATHESIS_HOOKS) in its own Python.
"""

import re

import schemathesis
from schemathesis.generation import GenerationMode


@schemathesis.hook
def before_call(ctx, case, kwargs):
    """A heartbeat does not wait, has seen no later weftd (or weftd takes no more
    changes), and if it is a good one it comes from the one process that serves
    the disk: of another one weftd would first see whether that is silent.  No schema
    says that bad ranges stand in their order, so a good one has one at most.
    Nobody is shut out who serves what others are asked for."""
    if case.method == "DELETE" and case.operation.path.endswith("/certificate"):
        case.path_parameters = {"name": "nobody"}
    if not case.operation.path.endswith("/heartbeat") or \
            not isinstance(case.body, dict):
        return
    for name in ("wait_ms", "generation"):
        if name in case.body:
            case.body[name] = 0
    if case.meta and case.meta.generation.mode == GenerationMode.POSITIVE:
        case.body["instance"] = "cafe"
        bad = case.body.get("bad")
        if isinstance(bad, dict) and isinstance(bad.get("ranges"), list):
            del bad["ranges"][1:]


def too_many_bytes(said, case):
    """Is this about a text which has more bytes than weftd takes, though not more
    characters, which a schema counts?"""
    m = re.match(r"field (\S+) must be text of at most (\d+) bytes", said)
    text = m and isinstance(case.body, dict) and case.body.get(m.group(1))
    return isinstance(text, str) and \
        len(text) <= int(m.group(2)) < len(text.encode(errors="surrogatepass"))


@schemathesis.check
def form_is_accepted(ctx, response, case):
    """A request that the schemas allow may be refused for its meaning (a missing disk), which
    has a code; never for its form.  The schemas can't express some rules: weftd's JSON (no
    NUL, no number beyond 64 bits, bounded depth), the bytes of a text, civetweb's headers, IP
    addresses, and relations of two fields."""
    mode = case.meta.generation.mode if case.meta else None
    if mode != GenerationMode.POSITIVE or response.status_code < 400:
        return
    problem = response.json()
    # An element of a list is named first.
    said = re.sub(r"^allow\[\d+\]: ", "", problem["detail"])
    if too_many_bytes(said, case):
        return
    if said.endswith("stands twice in field allow") or \
            said.startswith(("the body is no JSON", "the body is nested",
                             "the HTTP server refused it",
                             "field addresses: an element is no IP",
                             "field failover belongs to mode",
                             "field segment_bytes belongs to a pool")):
        return
    assert "code" in problem, f"refused for its form: {problem['detail']}"
