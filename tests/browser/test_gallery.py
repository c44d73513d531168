"""What only a browser can show of the pages: that they read well to everyone, and that their scripts keep their word.

Runs against the gallery: the real templates, styles and scripts, over scripted turns.
"""

import pytest
from playwright.sync_api import Browser, BrowserContext, expect

from tests.browser.gallery_app import PANELS, TURNS
from tests.browser.gallery_site import Site, Tab, open_tab, send
from tests.browser.gallery_views import ANSWER, NOW
from tests.browser.people import NARROW, WIDE, axe
from tests.webapp.waiting import until

pytestmark = pytest.mark.browser

PAGES = (
    "/chats",
    "/memory",
    "/gallery/error",
    "/chats/elsewhere",
    *(f"/chats/{name}" for name in TURNS),
    *(f"/gallery/memory/{name}" for name in PANELS),
)


# Everyone can read every page.


@pytest.mark.parametrize("path", PAGES)
def test_a_page_has_no_fault_that_axe_knows(path: str, context: BrowserContext, site: Site) -> None:
    """Neither a violation of axe's rules nor a complaint of the browser, its policy included."""
    tab = open_tab(context, site, path)
    tab.forgive("404")
    assert tab.complaints == []
    assert axe(tab.page) == []


def test_every_page_fits_a_small_dark_screen(chrome: Browser, site: Site) -> None:
    """At 320 px nothing scrolls sideways, on any page."""
    context = chrome.new_context(viewport=NARROW, color_scheme="dark", has_touch=True, is_mobile=True)
    wide = [
        path
        for path in PAGES
        if open_tab(context, site, path).page.evaluate("document.documentElement.scrollWidth > innerWidth")
    ]
    context.close()
    assert wide == []


def test_dark_mode_has_enough_contrast(chrome: Browser, site: Site) -> None:
    """The palette is the only thing that changes, so two pages stand for all."""
    context = chrome.new_context(viewport=WIDE, color_scheme="dark")
    for path in ("/chats/receipts", "/gallery/memory/forms"):
        assert axe(open_tab(context, site, path).page) == []
    context.close()


# A turn, as it is seen.


def test_an_answer_streams_into_the_log_and_is_kept(tab: Tab, site: Site) -> None:
    """Question, blocks, colours, acts: what the stream leaves is what a reload shows."""
    page = tab.page
    send(page, "Show me.")
    expect(page.get_by_role("button", name="Send")).to_be_visible()
    expect(page.get_by_role("log", name="Conversation").get_by_text("Show me.")).to_be_visible()
    answer = page.locator(".answer").last
    expect(answer.get_by_role("button", name="Copy", exact=True)).to_be_visible()
    expect(page.get_by_role("textbox", name="Message")).to_have_value("")
    expect(page.locator("#announce")).to_have_text("The answer is complete.")
    streamed = answer.locator(".prose").inner_text()
    page.reload()
    assert page.locator(".answer").last.locator(".prose").inner_text() == streamed


def test_memory_waits_for_the_answer_and_is_saved_with_it(tab: Tab, site: Site) -> None:
    """Waiting while the answer is written; then Saved, the panel with it, and Undo takes it back."""
    page = tab.page
    send(page, "hold: remember the blue folder")
    receipt = page.get_by_role("status", name="Memory")
    expect(receipt).to_contain_text("Waiting for the answer")
    panel = page.get_by_role("complementary", name="Memory")
    expect(panel).not_to_contain_text("blue folder")
    page.request.post(f"{site.address}/gallery/release")
    expect(receipt).to_contain_text("Saved")
    expect(receipt).to_have_class("receipt receipt--saved is-new")
    expect(panel).to_contain_text("blue folder")
    expect(page.locator("#announce")).to_have_text("The answer is complete. Saved to User profile.")
    receipt.get_by_role("button", name="Undo").click()
    expect(receipt).to_contain_text("Undone")
    expect(receipt).to_be_focused()
    expect(panel).not_to_contain_text("blue folder")


def test_stop_ends_the_answer_and_keeps_what_was_written(tab: Tab, site: Site) -> None:
    """By the button and by Esc: the key of the message goes to the server, and nothing is saved."""
    page = tab.page
    for is_by_key in (False, True):
        send(page, "hold: remember a thing")
        expect(page.locator(".answer").last).to_contain_text("Add the new column")
        page.keyboard.press("Escape") if is_by_key else page.get_by_role("button", name="Stop").click()
        expect(page.locator(".answer").last).to_contain_text("You stopped this answer.")
        expect(page.get_by_role("status", name="Memory").last).to_contain_text("Not saved")
        expect(page.get_by_role("button", name="Send")).to_be_visible()
    keys = [form["key"] for kind, form in site.gallery.requests if kind == "turns"]
    stops = [form["key"] for kind, form in site.gallery.requests if kind == "stop"]
    assert keys == stops
    assert len(set(keys)) == 2


def test_a_second_message_waits_until_the_answer_has_ended(tab: Tab, site: Site) -> None:
    """It is refused in words, its text stays, and it is not sent."""
    page = tab.page
    send(page, "hold on")
    expect(page.get_by_role("button", name="Stop")).to_be_visible()
    message = page.get_by_role("textbox", name="Message")
    expect(message).to_have_value("")
    message.fill("and another thing")
    message.press("Enter")
    expect(page.get_by_role("alert")).to_contain_text("An answer is still being written.")
    expect(message).to_have_value("and another thing")
    page.request.post(f"{site.address}/gallery/release")
    expect(page.get_by_role("button", name="Send")).to_be_visible()
    assert [form["message"] for kind, form in site.gallery.requests if kind == "turns"] == ["hold on"]


def test_a_lost_connection_is_told_as_what_it_was(tab: Tab) -> None:
    """The answer is marked as interrupted, with what had been written."""
    page = tab.page
    send(page, "cut it")
    expect(page.locator(".answer").last).to_contain_text("Interrupted.")
    expect(page.locator(".answer").last).to_contain_text("Add the new column")
    expect(page.get_by_role("button", name="Send")).to_be_visible()
    tab.forgive("net::ERR", "network error", "sse:error")


def test_a_message_that_did_not_arrive_can_be_sent_again(tab: Tab, context: BrowserContext, site: Site) -> None:
    """Offline it is kept and says so; the second try bears the same key, so that it cannot arrive twice."""
    page = tab.page
    key = page.locator("#composer [name=key]").input_value()
    context.set_offline(True)
    send(page, "Are you there?")
    expect(page.get_by_role("alert")).to_contain_text("You are offline.")
    expect(page.get_by_role("textbox", name="Message")).to_have_value("Are you there?")
    context.set_offline(False)
    expect(page.get_by_role("alert")).to_be_empty()
    page.get_by_role("button", name="Send").click()
    expect(page.locator(".answer")).to_contain_text("Undoing it loses")
    assert [form["key"] for kind, form in site.gallery.requests if kind == "turns"] == [key]
    expect(page.locator("#composer [name=key]")).not_to_have_value(key)
    tab.forgive("net::ERR", "Failed to fetch")


def test_the_stream_is_cut_only_when_stopping_it_failed(tab: Tab) -> None:
    """Then the server sees the reader go, and what it made of that is shown."""
    page = tab.page
    page.route("**/chats/cancellations", lambda route: route.abort())
    send(page, "hold it")
    expect(page.locator(".answer").last).to_contain_text("Add the new column")
    page.get_by_role("button", name="Stop").click()
    expect(page.locator(".answer").last).to_contain_text("Interrupted.")
    tab.forgive("net::ERR", "Failed to fetch", "Failed to load resource")


@pytest.mark.parametrize(
    ("message", "words"), [("refused", "An answer is being written in this chat already"), ("broken", "It broke.")]
)
def test_a_refused_message_is_kept(tab: Tab, message: str, words: str) -> None:
    """The reason stands above the composer, the text stays in it, and it can be sent again."""
    page = tab.page
    send(page, message)
    expect(page.get_by_role("alert")).to_contain_text(words)
    expect(page.get_by_role("textbox", name="Message")).to_have_value(message)
    expect(page.get_by_role("button", name="Send")).to_be_visible()
    tab.forgive("Failed to load resource")


def test_an_expired_session_keeps_the_message(tab: Tab) -> None:
    """The dialog says so; after a reload (or signing in) the text is there again."""
    page = tab.page
    send(page, "expired, this one")
    expect(page.get_by_role("dialog", name="You have been signed out")).to_be_visible()
    expect(page.get_by_role("link", name="Sign in")).to_have_attribute("href", "/sign-in?next=%2Fchats%2Fempty")
    assert axe(page) == []
    page.reload()
    expect(page.get_by_role("textbox", name="Message")).to_have_value("expired, this one")
    tab.forgive("Failed to load resource", "inline style")


def test_the_first_message_makes_the_page_its_chat(context: BrowserContext, site: Site) -> None:
    """A starter is sent as it reads; the address, the title, the panel and the composer follow without a reload."""
    tab = open_tab(context, site, "/chats")
    page = tab.page
    page.get_by_role("button", name="Remember that I prefer metric units.").click()
    expect(page.get_by_role("complementary", name="Memory")).to_contain_text("metric units")
    expect(page).to_have_url(f"{site.address}/chats/fresh")
    expect(page).to_have_title("Remember that I prefer metric units. · Remembrancer")
    expect(page.get_by_role("heading", name="Good")).to_have_count(0)
    send(page, "And now?")
    expect(page.locator(".answer")).to_have_count(2)
    expect(page.get_by_role("button", name="Send")).to_be_visible()
    assert tab.complaints == []


def test_regenerating_puts_a_new_answer_in_the_place_of_the_old(tab: Tab) -> None:
    """Only the last answer offers it."""
    page = tab.page
    send(page, "One.")
    expect(page.get_by_role("button", name="Regenerate")).to_be_visible()
    page.get_by_role("button", name="Regenerate").click()
    expect(page.locator("#turn-trn_2")).to_contain_text("Undoing it loses")
    expect(page.locator("#turn-trn_1")).to_have_count(0)
    expect(page.locator(".question")).to_have_count(1)
    expect(page.get_by_role("button", name="Regenerate")).to_have_count(1)


def test_an_answer_written_elsewhere_is_followed_to_its_end(context: BrowserContext, site: Site) -> None:
    """A second tab asks once a second until it is whole, and then no more."""
    tab = open_tab(context, site, "/chats/elsewhere")
    expect(tab.page.get_by_role("article", name="Answer, being written")).to_be_visible()
    expect(tab.page.get_by_role("button", name="Stop")).to_be_hidden()
    send(tab.page, "May I?")
    expect(tab.page.get_by_role("alert")).to_contain_text("An answer is being written in this chat already")
    expect(tab.page.get_by_text("Yes: now it is whole.")).to_be_visible()
    expect(tab.page.locator("[hx-get*=trn_else]")).to_have_count(0)
    tab.page.get_by_role("button", name="Send").click()
    expect(tab.page.locator(".answer")).to_have_count(2)
    assert tab.complaints == []


def test_the_reader_may_scroll_up_while_an_answer_grows(context: BrowserContext, site: Site) -> None:
    """The page follows the answer until somebody scrolls; Jump to latest takes them back."""
    tab = open_tab(context, site, "/chats/receipts")
    page, scroll = tab.page, tab.page.locator("#scroll")
    distance = "e => Math.round(e.scrollHeight - e.scrollTop - e.clientHeight)"
    send(page, "hold it")
    expect(page.locator(".answer").last).to_contain_text("Add the new column")
    until(lambda: int(scroll.evaluate(distance)) < 2)
    scroll.hover()
    page.mouse.wheel(0, -2000)
    expect(page.get_by_role("button", name="Jump to latest")).to_be_visible()
    page.request.post(f"{site.address}/gallery/release")
    expect(page.get_by_role("button", name="Send")).to_be_visible()
    assert scroll.evaluate(distance) > 1000
    page.get_by_role("button", name="Jump to latest").click()
    expect(page.get_by_role("button", name="Jump to latest")).to_be_hidden()
    expect(page.get_by_role("textbox", name="Message")).to_be_focused()
    send(page, "Once more.")
    expect(page.locator(".answer").last.get_by_role("button", name="Copy", exact=True)).to_be_visible()
    expect(page.get_by_role("button", name="Jump to latest")).to_be_hidden()
    until(lambda: int(scroll.evaluate(distance)) < 2)
    assert tab.complaints == []


def test_a_draft_outlives_a_reload_and_goes_with_its_message(tab: Tab) -> None:
    """Kept for its chat alone, and gone once it is on record."""
    page = tab.page
    page.get_by_role("textbox", name="Message").fill("half a thought")
    page.goto(page.url.replace("empty", "endings"))
    expect(page.get_by_role("textbox", name="Message")).to_have_value("")
    page.goto(page.url.replace("endings", "empty"))
    expect(page.get_by_role("textbox", name="Message")).to_have_value("half a thought")
    page.get_by_role("button", name="Send").click()
    expect(page.locator(".answer")).to_have_count(1)
    expect(page.get_by_role("button", name="Send")).to_be_visible()
    page.reload()
    expect(page.get_by_role("textbox", name="Message")).to_have_value("")


def test_enter_sends_and_shift_enter_does_not(tab: Tab) -> None:
    """Nor does Enter while an input method composes, nor an empty message."""
    page = tab.page
    message = page.get_by_role("textbox", name="Message")
    message.press("Enter")
    message.fill("one")
    message.press("Shift+Enter")
    message.press_sequentially("two")
    message.dispatch_event("keydown", {"key": "Enter", "isComposing": True})
    expect(message).to_have_value("one\ntwo")
    message.press("Enter")
    expect(page.locator(".question")).to_contain_text("one\ntwo")
    expect(page.locator(".answer").last).to_contain_text("Undoing it loses")


def test_times_are_the_readers_own(chrome: Browser, site: Site) -> None:
    """Half a day east of UTC the afternoon's question was asked in the night, on the next day."""
    context = chrome.new_context(timezone_id="Pacific/Kiritimati", viewport=WIDE)
    context.clock.set_fixed_time(NOW)
    page = open_tab(context, site, "/chats/demo").page
    expect(page.locator(".question time").first).to_have_text("04:02")
    expect(page.locator(".day")).to_have_text("Today, 1 December")
    expect(page.locator(".receipt").first).to_contain_text("can be undone until tomorrow, 04:12")
    expect(page.locator(".chats h3")).to_have_text(["Today", "Yesterday", "Last seven days", "October", "October 2025"])
    page.goto(f"{site.address}/chats")
    expect(page.get_by_role("heading", level=1)).to_have_text("Good morning, Ada.")
    context.close()


def test_an_answer_is_copied_as_it_was_written(context: BrowserContext, site: Site) -> None:
    """The whole as Markdown, a code block as its text."""
    context.grant_permissions(["clipboard-read", "clipboard-write"])
    tab = open_tab(context, site, "/chats/demo")
    page, read = tab.page, "() => navigator.clipboard.readText()"
    page.locator(".answer").first.get_by_role("button", name="Copy", exact=True).click()
    expect(page.locator("#announce")).to_have_text("Copied")
    assert page.evaluate(read) == ANSWER
    page.get_by_role("button", name="Copy code").click()
    expect(page.get_by_role("button", name="Copy code")).to_have_text("Copied")
    assert page.evaluate(read).startswith("def upgrade() -> None:\n    op.add_column(")
    assert tab.complaints == []


def test_nothing_of_an_answer_is_wired(tab: Tab) -> None:
    """The prose is out of htmx's reach, whatever a model writes into it."""
    page = tab.page
    send(page, "Show me.")
    expect(page.locator(".answer").last).to_contain_text("Undoing it loses")
    page.evaluate(
        """() => { const prose = document.querySelector(".prose");
        prose.insertAdjacentHTML("beforeend", '<a id="bait" hx-get="/memory" hx-trigger="load, click">x</a>');
        htmx.process(prose); htmx.process(document.body); }"""
    )
    assert page.locator("#bait").get_attribute("data-htmx-powered") is None
