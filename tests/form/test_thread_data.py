"""Thread-local variables of the plugin are allocated together with each thread.

Topology: none; the plugin as built.
Cause: at a thread's first use of such a variable, glibc allocates those of a module that was
       loaded later, and aborts the process if there is no memory.
Pass:  the plugin's are in the static block of each thread (-ftls-model=initial-exec), and take
       less than the 512 bytes that glibc keeps there for modules that are loaded later
       (glibc.rtld.optional_static_tls): else the plugin might not be loaded.
"""

import os
import pathlib
import re
import subprocess

PLUGIN = pathlib.Path(os.environ["WEFT_BUILDDIR"]) / "plugin/.libs/nbdkit-weft-plugin.so"


def readelf(option):
    return subprocess.run(["readelf", option, PLUGIN], capture_output=True, text=True,
                          check=True).stdout


def test_thread_local_variables():
    assert re.search(r"\(FLAGS\) .*\bSTATIC_TLS\b", readelf("-dW"))
    [size] = re.findall(r"^ +TLS +(?:0x\w+ +){4}0x(\w+)", readelf("-lW"), re.MULTILINE)
    assert int(size, 16) <= 512
