"""Memory by hand, as only a browser can show it: the panel's forms, their focus, and the same without script.

Runs against the gallery, as `test_gallery` does.
"""

import pytest
from playwright.sync_api import Browser, BrowserContext, expect

from tests.browser.gallery_site import Site, Tab, open_tab, send
from tests.browser.people import WIDE

pytestmark = pytest.mark.browser


def test_an_entry_is_added_edited_and_removed_in_the_panel(context: BrowserContext, site: Site) -> None:
    """Each opens in place, says what happened, and leaves the keyboard where it can go on."""
    tab = open_tab(context, site, "/memory")
    page = tab.page
    profile = page.get_by_role("region", name="User profile")
    profile.get_by_role("button", name="Add entry").click()
    field = page.get_by_role("textbox", name="New entry")
    expect(field).to_be_focused()
    field.fill("Keeps bees 🐝.")
    expect(profile).to_contain_text("13 characters · 1,192 left on this page")
    profile.get_by_role("button", name="Save").click()
    expect(profile.get_by_role("listitem").last).to_contain_text("Keeps bees 🐝.")
    expect(page.get_by_role("status", name="Memory")).to_contain_text("Added to User profile")
    bees = profile.get_by_role("listitem").filter(has_text="Keeps bees")
    bees.get_by_role("button", name="Edit").click()
    page.get_by_role("textbox", name="Edit entry").fill("Keeps two hives.")
    page.get_by_role("textbox", name="Edit entry").press("Tab")
    page.keyboard.press("Enter")
    hives = profile.get_by_role("listitem").filter(has_text="Keeps two hives.")
    hives.get_by_role("button", name="Remove").click()
    expect(hives).to_contain_text("Remove this entry?")
    hives.get_by_role("button", name="Keep it").click()
    expect(hives.get_by_role("button", name="Remove")).to_be_focused()
    hives.get_by_role("button", name="Remove").click()
    hives.get_by_role("button", name="Remove entry").click()
    expect(hives).to_have_count(0)
    expect(page.get_by_role("status", name="Memory")).to_contain_text("Removed from User profile")
    page.get_by_role("button", name="Undo").click()
    expect(profile).to_contain_text("Keeps two hives.")
    assert tab.complaints == []


def test_a_refused_edit_keeps_what_was_typed(context: BrowserContext, site: Site) -> None:
    """The reason stands under the words."""
    tab = open_tab(context, site, "/memory")
    page = tab.page
    page.get_by_role("button", name="Edit").first.click()
    page.get_by_role("textbox", name="Edit entry").fill("§")
    page.get_by_role("button", name="Save").click()
    expect(page.get_by_role("alert").filter(has_text="signs that mark the pages")).to_be_visible()
    expect(page.get_by_role("textbox", name="Edit entry")).to_have_value("§")
    tab.forgive("Failed to load resource")
    assert tab.complaints == []


def test_forgetting_everything_needs_the_word(context: BrowserContext, site: Site) -> None:
    """A modal question; Esc keeps everything, and so does another word."""
    tab = open_tab(context, site, "/memory")
    page = tab.page
    page.get_by_role("button", name="Forget everything").click()
    dialog = page.get_by_role("dialog", name="Forget everything?")
    expect(dialog).to_be_visible()
    page.keyboard.press("Escape")
    expect(dialog).to_be_hidden()
    expect(page.get_by_role("button", name="Forget everything")).to_be_focused()
    page.keyboard.press("Enter")
    page.get_by_role("textbox", name="Confirm").fill("all")
    page.keyboard.press("Enter")
    expect(dialog).to_contain_text("Nothing has been forgotten yet.")
    page.get_by_role("textbox", name="Confirm").fill("forget")
    dialog.get_by_role("button", name="Forget everything").click()
    expect(page.get_by_text("Nothing yet.")).to_have_count(2)
    tab.forgive("Failed to load resource")
    assert tab.complaints == []


def test_an_open_form_is_not_swept_away_by_a_stream(tab: Tab, site: Site) -> None:
    """Whoever edits an entry while an answer saves something keeps their words."""
    page = tab.page
    send(page, "hold: remember the red folder")
    expect(page.get_by_role("button", name="Stop")).to_be_visible()
    page.locator(".entry").first.hover()
    page.get_by_role("button", name="Edit").first.click()
    page.get_by_role("textbox", name="Edit entry").fill("half a change")
    page.request.post(f"{site.address}/gallery/release")
    expect(page.get_by_role("status", name="Memory")).to_contain_text("Saved")
    expect(page.get_by_role("textbox", name="Edit entry")).to_have_value("half a change")
    page.get_by_role("button", name="Cancel").click()
    expect(page.get_by_role("complementary", name="Memory")).to_contain_text("red folder")


def test_the_memory_switch_says_what_it_is(tab: Tab) -> None:
    """A switch by role and state, in the panel and on the page."""
    switch = tab.page.get_by_role("switch", name="Memory")
    expect(switch).to_be_checked()
    switch.click()
    expect(switch).not_to_be_checked()
    expect(switch).to_be_focused()
    expect(tab.page.get_by_role("complementary", name="Memory")).to_contain_text("Memory is off.")


def test_memory_and_chat_work_without_script(chrome: Browser, site: Site) -> None:
    """Add, edit, remove in one step with Undo, forget, switch, and send: all by links and forms."""
    context = chrome.new_context(java_script_enabled=False, viewport=WIDE)
    page = open_tab(context, site, "/memory").page
    profile = page.get_by_role("region", name="User profile")
    profile.get_by_role("button", name="Add entry").click()
    page.get_by_role("textbox", name="New entry").fill("Has no script.")
    profile.get_by_role("button", name="Save").click()
    entry = profile.get_by_role("listitem").filter(has_text="Has no script.")
    entry.get_by_role("button", name="Where from").click()
    expect(entry).to_contain_text("The agent saved it from")
    entry.get_by_role("button", name="Edit").click()
    page.get_by_role("textbox", name="Edit entry").fill("Needs no script.")
    page.get_by_role("button", name="Save").click()
    changed = profile.get_by_role("listitem").filter(has_text="Needs no script.")
    changed.get_by_role("button", name="Remove").click()
    expect(changed).to_have_count(0)
    page.get_by_role("button", name="Undo").click()
    expect(changed).to_have_count(1)
    page.get_by_role("switch", name="Memory").click()
    expect(page.get_by_role("switch", name="Memory")).not_to_be_checked()
    page.get_by_role("button", name="Forget everything").click()
    page.get_by_role("textbox", name="Confirm").fill("forget")
    page.get_by_role("dialog").get_by_role("button", name="Forget everything").click()
    expect(page.get_by_text("Nothing yet.")).to_have_count(2)
    page.get_by_role("link", name="New chat").click()
    page.get_by_role("button", name="Explain a bounded memory briefly.").click()
    expect(page.locator(".answer")).to_contain_text("Undoing it loses")
    send(page, "And without script?")
    expect(page.locator(".answer")).to_have_count(2)
    context.close()
