"""nbdkit's own calls are taken over only where nbdkit would abort (plugin/nbdkit-replies.c).

Topology: none; nbdkit loads the plugin and says what it is.
Cause: the nbdkit at hand; and an nbdkit that has what 1.34 brought.
Pass: before 1.34 the guards are put in place, but not where that function is, as
      in a plugin that was built beside an older nbdkit; from 1.34 on the plugin
      has no guards at all.
"""

import os
import pathlib

from nbdkitproc import nbdkit_is_old
from wefttest import BUILD, run

PLUGIN = pathlib.Path(BUILD) / "plugin/.libs/nbdkit-weft-plugin.so"
TAKEN_OVER = "our guards stand before nbdkit's calls"
NOT_NEEDED = "this nbdkit does without our guards"


def what_it_says(**env):
    return run("nbdkit", "-v", "weft", "--dump-plugin", env=env).stderr


def test_guards():
    said = what_it_says()
    old = nbdkit_is_old()
    assert (TAKEN_OVER in said) == old
    assert NOT_NEEDED not in said
    assert (TAKEN_OVER.encode() in PLUGIN.read_bytes()) == old


def test_built_beside_an_older_nbdkit(tmp_path):
    source, newer = tmp_path / "newer.c", tmp_path / "newer.so"
    source.write_text("void nbdkit_disconnect (int force) {}\n")
    run("cc", "-shared", "-fPIC", "-o", newer, source)
    preload = f"{newer}:{os.environ.get('LD_PRELOAD', '')}"
    said = what_it_says(LD_PRELOAD=preload)
    assert TAKEN_OVER not in said
    assert (NOT_NEEDED in said) == nbdkit_is_old()
