"""Ends of sessions: each way in which the cluster engine ends one has a test.

Topology: none; the calls of cluster_session_end and cluster_session_end_cut in core/cluster.
Pass:  each call is in the table below, with a test that expects its reason, or that its end
       leaves copies that another session resynchronizes.
Fail:  the call without an entry: give it a scene, best in tests/unit/test-cluster-unequal.c.
"""

import os
import pathlib
import re

SOURCE = pathlib.Path(os.environ["WEFT_SRCDIR"])
UNEQUAL = "test-cluster-unequal.c"
# (file, how the reason begins, or the variable with it): test, and what stands there.
ENDS = {
    ("cluster-session.c", "by"): (UNEQUAL, "[EVICTED]"),  # and [DETACHED]
    ("cluster-fence.c", "by"): (UNEQUAL, "[FENCED]"),
    ("cluster-node.c", "by"): (UNEQUAL, "[SHUT_OUT]"),
    ("cluster-node.c", "an administrator, who shut the"): ("test-cluster-node.c", "shut_out"),
    ("cluster-access-order.c", "words"): (UNEQUAL, "[DENIED]"),
    ("cluster-attach.c", "node %s, process"): (UNEQUAL, "[TAKEN_OVER]"),  # and [ENDED]
    ("cluster-session-end.c", "weftd: it was silent, and others"): (UNEQUAL, "[SILENT]"),
    ("cluster-session-end.c", "weftd: it was silent, and readers"): (UNEQUAL, "readers_go_on"),
    ("cluster-session-end.c", "weftd: it has lost a member"):
        ("test-cluster-part.c", "test_apart ()"),
    ("cluster-session-end.c", "weftd: it does not say which"):
        ("test-cluster-lease.c", "test_equal_later ("),
    ("cluster-session-end.c", "by"): ("test-cluster-overdue.c", "WORD_GIVEN"),
    ("cluster-session-end.c", "weftd, as its node has no right"): ("test-cluster-allow.c", "others have shortened"),
    ("cluster-lessee.c", "weftd: it says that it has what"): ("test-cluster-lease.c", "declares the range of another"),
    ("cluster-lessee.c", "its node knows that its process"):
        ("test-cluster-lease.c", "test_ended ("),
    ("cluster-restore.c", "weftd was restored from"): (UNEQUAL, "take_over"),
    # Sessions that only read, and arrays that are gone, leave nothing to resynchronize.
    ("cluster-session-end.c", "it only read, and was"): (UNEQUAL, "READER_DROP_MS"),
    ("cluster-attach.c", "its process has attached"): ("test-cluster-attach.c", "test_reader_silent ("),
    ("cluster-array.c", "array %s was deleted"): ("test-cluster-acts.c", "cluster_array_delete"),
}
CALLS = re.compile(r"\bcluster_session_end(?:_cut)?\s*\(\s*c,\s*(?:s|old|other),\s*"
                   r"(?:\"([^\"]*)\"|(\w+)\s*\))")


def calls(path):
    text = re.sub(r"/\*.*?\*/", " ", path.read_text(), flags=re.S)
    return [(path.name, (said or variable)) for said, variable in CALLS.findall(text)
            if (said or variable) != "it was %s%s"]


def entry(call):
    return [key for key in ENDS if key[0] == call[0] and call[1].startswith(key[1])]


def all_calls():
    return [call for path in sorted((SOURCE / "core/cluster").rglob("*.c"))
            for call in calls(path)]


def test_each_end_has_a_test():
    found = all_calls()
    assert len(found) >= len(ENDS)
    assert [call for call in found if len(entry(call)) != 1] == []
    assert {key for call in found for key in entry(call)} == set(ENDS)
    for name, words in ENDS.values():
        assert words in (SOURCE / "tests/unit" / name).read_text(), (name, words)


def test_no_call_is_missed():
    """Each text "cluster_session_end" with a session is a call that is read above."""
    count = 0
    for path in sorted((SOURCE / "core/cluster").rglob("*.c")):
        text = re.sub(r"/\*.*?\*/", " ", path.read_text(), flags=re.S)
        count += len(re.findall(r"\bcluster_session_end(?:_cut)?\s*\(\s*c,\s*\w+,", text))
    assert count == len(all_calls()) + 1  # the one of cluster_session_end_cut
