"""A Chromium for each module of browser tests, the whole product for those that go end to end, and the gallery.

Not one for the whole session: Playwright's loop counts as running for as long as it is open, and other modules' tests
need loops of their own.
"""

import socket
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
import uvicorn
from playwright.sync_api import Browser, BrowserContext, sync_playwright

from tests.browser.gallery_app import create_app
from tests.browser.gallery_site import Site, Tab, open_tab
from tests.browser.gallery_state import Gallery
from tests.browser.people import FLAGS, WIDE, Visitor, chromium
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


# The gallery.


@pytest.fixture(scope="module")
def served() -> Iterator[Site]:
    app = create_app()
    listening = socket.create_server(("127.0.0.1", 0))
    server = uvicorn.Server(uvicorn.Config(app, log_config=None, timeout_graceful_shutdown=1))
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listening]})
    thread.start()
    yield Site(f"http://127.0.0.1:{listening.getsockname()[1]}", app)
    server.should_exit = True
    thread.join(timeout=10)
    listening.close()


@pytest.fixture
def site(served: Site) -> Site:
    served.app.state.gallery = Gallery()
    return served


@pytest.fixture
def context(chrome: Browser) -> Iterator[BrowserContext]:
    made = chrome.new_context(viewport=WIDE, timezone_id="UTC", reduced_motion="reduce")
    yield made
    made.close()


@pytest.fixture
def tab(context: BrowserContext, site: Site) -> Iterator[Tab]:
    """An empty chat; nothing may be complained about while it is used."""
    opened = open_tab(context, site, "/chats/empty")
    yield opened
    assert opened.complaints == []
