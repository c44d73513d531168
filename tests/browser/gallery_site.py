"""The gallery as the tests use it: served on loopback, opened in a tab that remembers every complaint."""

from dataclasses import dataclass, field

from playwright.sync_api import BrowserContext, Page
from starlette.applications import Starlette

from tests.browser.gallery_state import Gallery


@dataclass
class Site:
    """The gallery, served on loopback, and what has been done to it."""

    address: str
    app: Starlette

    @property
    def gallery(self) -> Gallery:
        gallery: Gallery = self.app.state.gallery
        return gallery


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
    tab.page.on("console", lambda said: tab.complaints.extend([said.text] if said.type in ("error", "warning") else []))
    tab.page.on("pageerror", lambda error: tab.complaints.append(str(error)))
    tab.page.goto(site.address + path)
    return tab


def send(page: Page, words: str) -> None:
    page.get_by_role("textbox", name="Message").fill(words)
    page.get_by_role("button", name="Send").click()
