"""A Chromium for each module of browser tests, and the whole product for those that go end to end.

Not one for the whole session: Playwright's loop counts as running for as long as it is open, and other modules' tests
need loops of their own.
"""

from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, sync_playwright

from tests.browser.people import FLAGS, Visitor, chromium
from tests.fakes.model_server import ModelServer, serve_in_thread
from tests.webapp.product import Product, running_product


@pytest.fixture(scope="module")
def chrome() -> Iterator[Browser]:
    with sync_playwright() as started:
        opened = started.chromium.launch(executable_path=chromium(), args=FLAGS)
        yield opened
        opened.close()


@pytest.fixture
def model() -> Iterator[ModelServer]:
    """A model that plays what the test tells it."""
    with serve_in_thread() as server:
        yield server


@pytest.fixture
def product(database_url: str, tmp_path: Path, model: ModelServer) -> Iterator[Product]:
    """The product, with the scripted model."""
    with running_product(database_url, tmp_path, model.base_url) as running:
        yield running


@pytest.fixture
def rehearsal(database_url: str, tmp_path: Path) -> Iterator[Product]:
    """The product as it is on a first run, with the rehearsal model."""
    with running_product(database_url, tmp_path) as running:
        yield running


@pytest.fixture
def visitors(chrome: Browser) -> Iterator[list[Visitor]]:
    """Browsers of the people of a test. At the end none of their pages may have complained about anything."""
    opened: list[Visitor] = []
    yield opened
    complaints = [said for visitor in opened for said in visitor.complaints]
    for visitor in opened:
        visitor.context.close()
    assert complaints == []
