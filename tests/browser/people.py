"""People at a browser: how the end-to-end tests open, sign in, write, and look."""

import os
import shutil
from dataclasses import dataclass, field
from typing import Any

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Browser, BrowserContext, Locator, Page, ViewportSize, expect

FLAGS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]
WIDE: ViewportSize = {"width": 1440, "height": 900}
PHONE: ViewportSize = {"width": 390, "height": 844}
NARROW: ViewportSize = {"width": 320, "height": 640}
PATIENCE_MS = 30_000
#: What a browser reports by itself of a refused request.
REFUSED = ("status of 4", "status of 5")

expect.set_options(timeout=PATIENCE_MS)


def chromium() -> str:
    """Where the browser is. Skips the test when there is none."""
    names = ("chromium", "chromium-browser", "google-chrome")
    found = os.environ.get("CHROMIUM") or next(filter(None, map(shutil.which, names)), None)
    if found is None:
        pytest.skip("no Chromium here")
    return found


@dataclass
class Visitor:
    """One person at one browser."""

    context: BrowserContext
    address: str
    complaints: list[str] = field(default_factory=list)

    @property
    def page(self) -> Page:
        return self.context.pages[0]

    def tab(self, path: str) -> Page:
        """A new tab."""
        page = self.context.new_page()
        page.set_default_timeout(PATIENCE_MS)
        page.on("console", lambda said: self._note(said.type, said.text))
        page.on("pageerror", lambda error: self.complaints.append(str(error)))
        page.goto(self.address + path)
        return page

    def forgive(self, *about: str) -> None:
        """What a browser reports by itself: a refused or a lost request."""
        self.complaints[:] = [said for said in self.complaints if not any(word in said for word in about)]

    def _note(self, kind: str, said: str) -> None:
        if kind in ("error", "warning"):
            self.complaints.append(said)


def visit(
    browser: Browser, visitors: list[Visitor], address: str, subject: str | None, *, path: str = "/chats", **more: Any
) -> Visitor:
    """Open a browser and, with a subject, sign in through the local provider."""
    options = {"viewport": WIDE, "timezone_id": "UTC", "reduced_motion": "reduce", **more}
    visitor = Visitor(browser.new_context(**options), address)
    visitors.append(visitor)
    page = visitor.tab(path)
    if subject is not None:
        page.get_by_role("link", name="Sign in").click()
        page.get_by_role("textbox", name="Subject").fill(subject)
        page.get_by_role("button", name="Continue").click()
        arrive(page, script=bool(options.get("java_script_enabled", True)))
    return visitor


def arrive(page: Page, *, script: bool = True) -> None:
    """Wait until a page with a composer can be used."""
    expect(page.get_by_role("textbox", name="Message")).to_be_visible()
    if script:
        page.locator("html[data-ready]").wait_for(state="attached")


def write(page: Page, words: str) -> None:
    """Write a message and send it with Enter."""
    page.locator("html[data-ready]").wait_for(state="attached")
    page.get_by_role("textbox", name="Message").fill(words)
    page.keyboard.press("Enter")


def receipt(page: Page, state: str) -> Locator:
    """The status *Memory* that says so."""
    return page.get_by_role("status", name="Memory").filter(has_text=state)


def panel(page: Page, document: str) -> Locator:
    """One document's region."""
    return page.get_by_role("region", name=document, exact=True)


_RESTED = """() => Promise.allSettled(
    document.getAnimations()
        .filter((running) => running.effect.getComputedTiming().endTime < Infinity)
        .map((running) => running.finished))"""


def axe(page: Page) -> list[str]:
    """What axe finds wrong with a page that has come to rest: a colour half-way between two states is nobody's."""
    page.wait_for_load_state("load")
    page.evaluate(_RESTED)
    found = Axe().run(page, options={"preload": False})
    return [
        f"{fault['id']}: {node['html']}: {node['failureSummary']}"
        for fault in found.response["violations"]
        for node in fault["nodes"]
    ]


def is_wider_than_the_window(page: Page) -> bool:
    """Whether a page scrolls sideways."""
    width = page.locator("html").evaluate("html => html.scrollWidth - html.clientWidth")
    return int(width) > 0
