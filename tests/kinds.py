"""A pytest plug-in that marks tests by what they need, so that `make check` can leave the slow kinds out.

A test that asks for a database, directly or through another fixture, is `postgres`; one that asks for the browser is
`browser`.
"""

import pytest

#: A fixture, and the mark of the tests that depend on it.
MARKS = {"database_server": "postgres", "chrome": "browser"}


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Before -m chooses."""
    for item in items:
        needs = getattr(item, "fixturenames", ())
        for fixture, mark in MARKS.items():
            if fixture in needs and item.get_closest_marker(mark) is None:
                item.add_marker(mark)
