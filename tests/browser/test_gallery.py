"""What only a browser can show of the pages: that they read well to everyone, and that their scripts keep their word.

Runs against the gallery: the real templates, styles and scripts, over scripted turns.
"""

import os
import shutil
import socket
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field

import pytest
import uvicorn
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Browser, BrowserContext, Page, Playwright, expect, sync_playwright

from tests.browser.gallery_app import PANELS, TURNS, Gallery, create_app

pytestmark = pytest.mark.browser

FLAGS = (
    "--no-sandbox --disable-gpu --disable-quic --no-first-run --disable-background-networking "
    "--disable-component-update --disable-sync"
).split()
PAGES = (
    "/chats",
    "/memory",
    "/gallery/error",
    "/chats/elsewhere",
    *(f"/chats/{name}" for name in TURNS),
    *(f"/gallery/memory/{name}" for name in PANELS),
)
WIDE = {"width": 1440, "height": 900}
NARROW = {"width": 320, "height": 640}


def chromium() -> str:
    found = os.environ.get("CHROMIUM") or next(filter(None, map(shutil.which, ("chromium", "chromium-browser"))), None)
    if found is None:
        pytest.skip("no Chromium here")
    return found


@pytest.fixture(scope="module")
def playwright() -> Iterator[Playwright]:
    with sync_playwright() as started:
        yield started


@pytest.fixture(scope="module")
def browser(playwright: Playwright) -> Iterator[Browser]:
    opened = playwright.chromium.launch(executable_path=chromium(), args=FLAGS)
    yield opened
    opened.close()


@dataclass
class Site:
    """The gallery, served on loopback, and what has been done to it."""

    address: str
    app: object

    @property
    def gallery(self) -> Gallery:
        return self.app.state.gallery  # type: ignore[attr-defined,no-any-return]


@pytest.fixture(scope="module")
def served() -> Iterator[Site]:
    app = create_app()
    listening = socket.create_server(("127.0.0.1", 0))
    server = uvicorn.Server(uvicorn.Config(app, log_level="critical", timeout_graceful_shutdown=1))
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listening]})
    thread.start()
    yield Site(f"http://127.0.0.1:{listening.getsockname()[1]}", app)
    server.should_exit = True
    thread.join(timeout=10)
    listening.close()


@pytest.fixture
def site(served: Site) -> Site:
    served.app.state.gallery = Gallery()  # type: ignore[attr-defined]
    return served


@dataclass
class Tab:
    """A page, and every complaint the browser made about it."""

    page: Page
    complaints: list[str] = field(default_factory=list)

    def forgive(self, *about: str) -> None:
        """What the browser must report by itself: a refused or a lost request."""
        self.complaints[:] = [said for said in self.complaints if not any(word in said for word in about)]


def open_tab(context: BrowserContext, site: Site, path: str) -> Tab:
    tab = Tab(context.new_page())
    tab.page.set_default_timeout(5000)
    tab.page.on("console", lambda said: said.type in ("error", "warning") and tab.complaints.append(said.text))
    tab.page.on("pageerror", lambda error: tab.complaints.append(str(error)))
    tab.page.goto(site.address + path)
    return tab


@pytest.fixture
def context(browser: Browser) -> Iterator[BrowserContext]:
    made = browser.new_context(viewport=WIDE, timezone_id="UTC", reduced_motion="reduce")  # type: ignore[arg-type]
    yield made
    made.close()


@pytest.fixture
def tab(context: BrowserContext, site: Site) -> Iterator[Tab]:
    """An empty chat; nothing may be complained about while it is used."""
    opened = open_tab(context, site, "/chats/empty")
    yield opened
    assert opened.complaints == []


def send(page: Page, words: str) -> None:
    page.get_by_role("textbox", name="Message").fill(words)
    page.get_by_role("button", name="Send").click()


def last_answer(page: Page) -> object:
    return page.locator(".answer").last


# Everyone can read every page.


@pytest.mark.parametrize("path", PAGES)
def test_a_page_has_no_fault_that_axe_knows(path: str, browser: Browser, site: Site) -> None:
    """Wide and light, narrow and dark: no violation, no complaint, and nothing to scroll sideways at 320 px."""
    for viewport, scheme in ((WIDE, "light"), (NARROW, "dark")):
        context = browser.new_context(viewport=viewport, color_scheme=scheme, reduced_motion="reduce")  # type: ignore[arg-type]
        tab = open_tab(context, site, path)
        tab.forgive("404")
        assert tab.complaints == []
        found = Axe().run(tab.page)  # it measures with inline styles, which the page's policy reports
        assert found.response["violations"] == [], found.generate_report()
        assert tab.page.evaluate("document.documentElement.scrollWidth <= innerWidth")
        context.close()
