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


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(item, call):
    """A test that fails tells what its pages show and complain about."""
    del call
    report = (yield).get_result()
    pages = item.funcargs.get("page") if report.when == "call" else None
    if report.failed and pages:
        report.sections.append(("pages", pages.tell()))
