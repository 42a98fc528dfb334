"""What integration/test_schemathesis.py adds to schemathesis: loaded by it
(SCHEMATHESIS_HOOKS), in its own Python.
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


@schemathesis.check
def form_is_accepted(ctx, response, case):
    """What the schemas allow may be refused for what it means (a disk that
    there is not), which has a code; never for its form.  But no schema says
    what weftd's JSON can be (no NUL, no number beyond 64 bits, not too deep),
    civetweb's headers, which text is an IP address, and what two fields say of each
    other."""
    mode = case.meta.generation.mode if case.meta else None
    if mode != GenerationMode.POSITIVE or response.status_code < 400:
        return
    problem = response.json()
    # An element of a list is named first.
    said = re.sub(r"^allow\[\d+\]: ", "", problem["detail"])
    if said.endswith("stands twice in field allow") or \
            said.startswith(("the body is no JSON", "the body is nested",
                             "the HTTP server refused it",
                             "field addresses: an element is no IP",
                             "field failover is of use with")):
        return
    assert "code" in problem, f"refused for its form: {problem['detail']}"
