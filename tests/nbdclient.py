"""libnbd, as most tests use it."""

import contextlib

import nbd
import pytest


def connected(uri):
    h = nbd.NBD()
    h.connect_uri(uri)
    return h


@contextlib.contextmanager
def refuses(errno_name):
    """The calls in this block fail with this error."""
    with pytest.raises(nbd.Error) as e:
        yield
    assert e.value.errno == errno_name, e.value


def flush(handle):
    """The client's error; "": none."""
    try:
        handle.flush()
    except nbd.Error as e:
        return e.errno
    return ""
