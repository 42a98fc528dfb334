"""Chromiums for all tests, and the pages of each."""

import pytest

from webpage import Pages


@pytest.fixture(scope="session")
def pages():
    p = Pages()
    yield p
    p.quit()


@pytest.fixture
def page(pages):
    yield pages
    pages.end()
