"""The whole product in a real browser, for everyone: with the keyboard alone, by axe's rules, on small screens."""

from typing import Any, Literal

import pytest
from playwright.sync_api import Browser, Page, expect

from tests.browser.people import (
    NARROW,
    PHONE,
    REFUSED,
    Visitor,
    arrive,
    axe,
    is_wider_than_the_window,
    receipt,
    visit,
    write,
)
from tests.webapp.product import Product

pytestmark = pytest.mark.browser


def test_everything_can_be_done_with_the_keyboard_alone(
    chrome: Browser, visitors: list[Visitor], rehearsal: Product
) -> None:
    """From sign-in to undo without a pointer; focus is never lost."""
    visitor = visit(chrome, visitors, rehearsal.url, None)
    page = visitor.page
    reach(page, "link", "Sign in")
    page.keyboard.press("Enter")
    expect(page.get_by_role("textbox", name="Subject")).to_be_visible()
    reach(page, "textbox", "Subject")
    page.keyboard.press("Control+A")
    page.keyboard.type("kim")
    page.keyboard.press("Enter")
    arrive(page)
    expect(page.get_by_role("textbox", name="Message")).to_be_focused()
    page.keyboard.type("remember that I type")
    page.keyboard.press("Enter")
    expect(receipt(page, "Saved")).to_contain_text("I type")
    reach(page, "button", "Undo", backwards=True)
    page.keyboard.press("Enter")
    expect(receipt(page, "Undone")).to_be_visible()
    assert page.locator(":focus").count() == 1


def reach(page: Page, role: Literal["button", "link", "textbox"], name: str, *, backwards: bool = False) -> None:
    """Press Tab until it has the focus."""
    wanted = page.get_by_role(role, name=name).first
    for _ in range(60):
        if wanted.evaluate("element => element === document.activeElement"):
            return
        page.keyboard.press("Shift+Tab" if backwards else "Tab")
    raise AssertionError(f"{name} cannot be reached")


@pytest.mark.parametrize("look", ["wide", "dark", "phone", "narrow"])
def test_every_page_passes_axe_and_fits(
    chrome: Browser, visitors: list[Visitor], rehearsal: Product, look: str
) -> None:
    """Sign-in, provider, new chat, a chat with a receipt, memory, not found, signed out: axe is content, nothing is
    cut.
    """
    options: dict[str, dict[str, Any]] = {
        "wide": {},
        "dark": {"color_scheme": "dark"},
        "phone": {"viewport": PHONE},
        "narrow": {"viewport": NARROW},
    }
    visitor = visit(chrome, visitors, rehearsal.url, None, path="/sign-in", **options[look])
    page = visitor.page

    def check() -> None:
        assert axe(page) == []
        assert not is_wider_than_the_window(page)

    check()
    page.get_by_role("link", name="Sign in").click()
    check()
    page.get_by_role("textbox", name="Subject").fill("ada")
    page.get_by_role("button", name="Continue").click()
    expect(page.get_by_role("textbox", name="Message")).to_be_visible()
    check()
    write(page, "remember that I read in the dark")
    expect(receipt(page, "Saved")).to_be_visible()
    check()
    page.goto(rehearsal.url + "/memory")
    check()
    page.goto(rehearsal.url + "/chats/cht_none")
    visitor.forgive(*REFUSED)
    check()
    page.goto(rehearsal.url + "/signed-out")
    check()
    visitor.forgive(*REFUSED, "inline style")  # axe measures with inline styles, which the page's policy reports
