"""What integration/test_schemathesis.py adds to schemathesis: loaded by it
(SCHEMATHESIS_HOOKS), in its own Python.
"""

import schemathesis
from schemathesis.generation import GenerationMode


@schemathesis.check
def form_is_accepted(ctx, response, case):
    """What the schemas allow may be refused for what it means (a disk that
    there is not), which has a code; never for its form.  But no schema says
    what weftd's JSON can be (no NUL, no number beyond 64 bits, not too deep) and
    civetweb's headers."""
    mode = case.meta.generation.mode if case.meta else None
    if mode != GenerationMode.POSITIVE or response.status_code < 400:
        return
    problem = response.json()
    if problem["detail"].startswith(("the body is no JSON",
                                     "the body is nested",
                                     "the HTTP server refused it")):
        return
    assert "code" in problem, f"refused for its form: {problem['detail']}"
