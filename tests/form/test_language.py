"""Plain language: each text is understood at the first reading.

Topology: none; manual pages, documents, the API, messages in the code, and comments; of tests
       the comments and docstrings.
Pass:  no file has a riddling pattern; the patterns find our own old sentences, not the
       plain ones beside them, and almost nothing in the manual of nbdkit.
Fail:  language.py FILE shows each place and what to write instead.
"""

import gzip
import pathlib
import sys

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).parent))
import language  # noqa: E402


def test_no_riddles():
    assert len(language.files()) > 500
    found = {name: language.riddles(language.SOURCE / name, name)
             for name in language.files()}
    assert not any(found.values()), "\n".join(
        f"{name}:{line}: {pattern}: {words}"
        for name, places in found.items() for line, pattern, _, words in places)


# Sentences that this project had, and what says the same.
PAIRS = [
    ("A sector that one host was answered for is what all others read from then on.",
     "Once a write is acknowledged to one host, all hosts read the new data."),
    ("Of who wrote and has ended, each member that is heard has confirmed the end.",
     "Every reachable member has confirmed that the ended writer's session is over."),
    ("What may cost something shows that first and wants a name typed.",
     "Destructive commands show their effect first and ask for confirmation."),
    ("-r has no place beside service=yes", "-r cannot be combined with service=yes."),
    ("What was replaced comes back.", "A replaced member comes back."),
    ("So it is with the disks of hosts.", "The same holds for the disks of hosts."),
    ("Nor is a new process let in.", "A new process is refused, too."),
    ("Nobody who does not log in reads it.", "Only users who are logged in read it."),
    ("The service is told by name when who serves goes.",
     "If the serving node fails, its name is in the status."),
    ("They ask again, for nobody has answered.", "Hosts retry because no answer came."),
]


@pytest.mark.parametrize("before, after", PAIRS)
def test_pairs(tmp_path, before, after):
    for words, some in ((before, True), (after, False)):
        for name, form in (("page.7", ".Dd x\n.Pp\n%s\n.Pp\n"), ("page.md", "# Head\n\n%s\n"),
                           ("page.c", '/* page.c: it is. */\nprintf ("%s");\n'),
                           ("page.sh", "#!/bin/sh\necho '%s'\n")):
            page = tmp_path / name
            page.write_text(form % words)
            assert bool(language.riddles(page)) == some, f"{name}: {words}"


def test_others(tmp_path):
    """nbdkit's pages (none if the system has none): at most 1 in 10,000 words."""
    words = found = 0
    for page in pathlib.Path("/usr/share/man").glob("man[1-8]/nbd*.gz"):
        path = tmp_path / page.stem
        path.write_bytes(gzip.decompress(page.read_bytes()))
        words += len(path.read_text(errors="replace").split())
        found += len(language.riddles(path))
    assert found <= words / 10000
