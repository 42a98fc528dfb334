"""weftd of this tier has fewer threads: its start and its end then cost less processor time.
A test that wants all of them takes `all_threads`, before its weftd.
"""

import os

import pytest

os.environ["WEFT_THREADS"] = "256"


@pytest.fixture
def all_threads(monkeypatch):
    monkeypatch.delenv("WEFT_THREADS")
