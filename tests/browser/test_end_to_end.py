"""The whole product in a real browser: what a person sees while a model stages, and what stays when things go wrong."""

import re
import threading

import pytest
from playwright.sync_api import Browser, expect
from sqlalchemy import text as sql

from agent.configuration import Configuration, create_agent
from memory_core.database.transaction import transaction
from memory_core.document import LIMITS, Target
from tests.browser.people import (
    REFUSED,
    Visitor,
    axe,
    panel,
    receipt,
    visit,
    write,
)
from tests.fakes.model_server import ModelServer, Step, finish, gate, text, tool
from tests.webapp.product import Product

pytestmark = pytest.mark.browser

TEA = "Likes green tea."
LOST = ("net::ERR", "Failed to load", "Failed to fetch", "network error", "sse:error")


def adding(content: str, target: str = "user") -> dict[str, object]:
    return {"operations": [{"target": target, "action": "add", "content": content}]}


def play_staging(model: ModelServer, *then: Step, content: str = TEA) -> None:
    """Two rounds: the tool, then these steps."""
    model.play(tool("memory_update", adding(content)), finish("tool_calls"))
    model.play(*then)


def test_a_first_run_from_sign_in_to_undo(chrome: Browser, visitors: list[Visitor], rehearsal: Product) -> None:
    """Sign in, say "remember that …", see *Saved*, reload, find the entry, press *Undo*, and it is gone."""
    page = visit(chrome, visitors, rehearsal.url, "ada").page
    write(page, "remember that I prefer short code examples")
    expect(receipt(page, "Saved")).to_contain_text("I prefer short code examples")
    page.reload()
    expect(panel(page, "User profile")).to_contain_text("I prefer short code examples")
    expect(page).to_have_url(re.compile("/chats/cht_"))
    receipt(page, "Saved").get_by_role("button", name="Undo").click()
    expect(receipt(page, "Undone")).to_contain_text("User profile holds what it held before")
    expect(panel(page, "User profile")).to_contain_text("Nothing yet.")


def test_words_are_replaced_inside_their_entry(chrome: Browser, visitors: list[Visitor], rehearsal: Product) -> None:
    """The rehearsal model puts B in place of A and leaves the rest of the entry as it is."""
    page = visit(chrome, visitors, rehearsal.url, "ada").page
    write(page, "remember for this work: deployments run on Tuesdays")
    expect(receipt(page, "Saved")).to_be_visible()
    write(page, "replace tuesdays with Wednesdays")
    expect(receipt(page, "a change to")).to_contain_text("deployments run on Wednesdays")
    expect(panel(page, "Agent memory").get_by_role("listitem")).to_contain_text("deployments run on Wednesdays")


def test_a_hand_that_is_too_quick_sends_once(chrome: Browser, visitors: list[Visitor], rehearsal: Product) -> None:
    """A double click on Send, Enter held down: one message, its answer whole, and no complaint."""
    page = visit(chrome, visitors, rehearsal.url, "ada").page
    page.get_by_role("textbox", name="Message").fill("remember that I click twice")
    page.get_by_role("button", name="Send").dblclick()
    expect(receipt(page, "Saved")).to_contain_text("I click twice")
    page.get_by_role("textbox", name="Message").fill("remember that I press long")
    for _ in range(8):
        page.keyboard.down("Enter")
    page.keyboard.up("Enter")
    expect(receipt(page, "I press long")).to_contain_text("Saved")
    expect(page.get_by_role("alert")).to_be_empty()
    expect(page.get_by_role("article", name="You")).to_have_count(2)


def test_a_stop_that_comes_before_the_turn_is_kept_for_it(
    chrome: Browser, visitors: list[Visitor], product: Product, model: ModelServer
) -> None:
    """What it would stop is not on record yet: it goes again when it is, and the answer is stopped, not cut off."""
    play_staging(model, text("It is half "), gate(threading.Event()))
    visitor = visit(chrome, visitors, product.url, "ada")
    page, early = visitor.page, [404]
    page.route(
        "**/chats/cancellations", lambda route: route.fulfill(status=early.pop()) if early else route.continue_()
    )
    write(page, "I like green tea")
    page.keyboard.press("Escape")
    expect(page.get_by_role("log")).to_contain_text("You stopped this answer.")
    expect(page.get_by_role("button", name="Send")).to_be_visible()
    expect(page.get_by_role("alert")).to_be_empty()
    visitor.forgive(*REFUSED)


@pytest.mark.invariant("I22")
def test_saved_is_said_only_after_the_commit(
    chrome: Browser, visitors: list[Visitor], product: Product, model: ModelServer
) -> None:
    """While the answer is written the chip waits and the panel is empty; then both change together."""
    written = threading.Event()
    play_staging(model, text("It is "), gate(written), text("noted."), finish("stop"))
    page = visit(chrome, visitors, product.url, "ada").page
    write(page, "I like green tea")
    expect(receipt(page, "Waiting for the answer")).to_contain_text(TEA)
    expect(panel(page, "User profile")).not_to_contain_text(TEA)
    assert page.get_by_text("Saved", exact=True).count() == 0
    written.set()
    expect(receipt(page, "Saved")).to_contain_text(TEA)
    expect(panel(page, "User profile")).to_contain_text(TEA)
    expect(panel(page, "User profile")).to_contain_text("16 / 1,375")


@pytest.mark.invariant("I12")
def test_stopping_in_mid_answer_saves_nothing(
    chrome: Browser, visitors: list[Visitor], product: Product, model: ModelServer
) -> None:
    """Esc stops; the text so far stays and is marked; nothing is saved, now and after a reload; the next message
    works.
    """
    play_staging(model, text("It is half "), gate(threading.Event()))
    page = visit(chrome, visitors, product.url, "ada").page
    write(page, "I like green tea")
    expect(page.get_by_role("log")).to_contain_text("It is half")
    page.get_by_role("textbox", name="Message").focus()
    page.keyboard.press("Escape")
    for _ in range(2):
        expect(page.get_by_role("log")).to_contain_text("You stopped this answer.")
        expect(receipt(page, "Not saved")).to_contain_text("The answer was stopped, so nothing was saved.")
        expect(page.get_by_role("log")).to_contain_text("It is half")
        expect(panel(page, "User profile")).to_contain_text("Nothing yet.")
        page.reload()
    model.play(text("Gladly."), finish("stop"))
    write(page, "And now?")
    expect(page.get_by_role("log")).to_contain_text("Gladly.")
    model.wait_reached(open=0)


@pytest.mark.invariant("I13")
def test_closing_the_tab_in_mid_answer_saves_nothing(
    chrome: Browser, visitors: list[Visitor], product: Product, model: ModelServer
) -> None:
    """Close the tab, come back: interrupted, nothing saved, and the page says so. The model's connection is closed."""
    play_staging(model, text("It is half "), gate(threading.Event()))
    visitor = visit(chrome, visitors, product.url, "ada")
    page = visitor.page
    write(page, "I like green tea")
    expect(receipt(page, "Waiting for the answer")).to_be_visible()
    address = page.url.removeprefix(product.url)
    spare = visitor.tab("/memory")
    page.close()
    model.wait_reached(aborted=1)
    spare.goto(product.url + address)
    expect(spare.get_by_role("log")).to_contain_text("Interrupted.")
    expect(spare.get_by_role("log")).to_contain_text("It is half")
    expect(receipt(spare, "Not saved")).to_be_visible()
    expect(panel(spare, "User profile")).to_contain_text("Nothing yet.")


@pytest.mark.invariant("I11")
def test_two_people_at_once_see_only_their_own(chrome: Browser, visitors: list[Visitor], rehearsal: Product) -> None:
    """Two browsers, two people, the same words: each finds their own memory and chats, and nothing of the other's."""
    ada, bob = (visit(chrome, visitors, rehearsal.url, name).page for name in ("ada", "bob"))
    write(ada, "remember that I keep bees")
    write(bob, "remember that I keep goats")
    expect(receipt(ada, "Saved")).to_contain_text("I keep bees")
    expect(receipt(bob, "Saved")).to_contain_text("I keep goats")
    bob.goto(ada.url)
    expect(bob.get_by_role("heading", name="There is nothing at this address")).to_be_visible()
    visitors[1].forgive(*REFUSED)
    bob.goto(rehearsal.url + "/memory")
    expect(bob.locator("body")).not_to_contain_text("bees")


def test_two_tabs_of_one_person_tell_the_same_truth(
    chrome: Browser, visitors: list[Visitor], product: Product, model: ModelServer
) -> None:
    """A second tab says that an answer is being written, refuses a second message in words, and then shows the
    answer.
    """
    written = threading.Event()
    play_staging(model, text("It is "), gate(written), text("noted."), finish("stop"))
    visitor = visit(chrome, visitors, product.url, "ada")
    page = visitor.page
    write(page, "I like green tea")
    expect(receipt(page, "Waiting for the answer")).to_be_visible()
    second = visitor.tab(page.url.removeprefix(product.url))
    expect(second.get_by_role("log")).to_contain_text("An answer is being written")
    write(second, "Hurry")
    expect(second.get_by_role("alert")).to_contain_text("being written")
    expect(second.get_by_role("textbox", name="Message")).to_have_value("Hurry")
    visitor.forgive(*REFUSED)
    written.set()
    for tab in (page, second):
        expect(receipt(tab, "Saved")).to_contain_text(TEA)
        expect(panel(tab, "User profile")).to_contain_text(TEA)


def test_an_entry_is_added_edited_asked_about_and_removed_by_hand(
    chrome: Browser, visitors: list[Visitor], product: Product
) -> None:
    """The memory page: add, edit, where from, remove with its question, undo."""
    page = visit(chrome, visitors, product.url, "ada").page
    page.goto(product.url + "/memory")
    sheet = panel(page, "Agent memory")
    sheet.get_by_role("button", name="Add entry").click()
    sheet.get_by_role("textbox", name="New entry").fill("The build runs with make.")
    sheet.get_by_role("button", name="Save").click()
    expect(sheet.get_by_role("listitem").filter(has_text="The build runs with make.")).to_be_visible()
    sheet.get_by_role("button", name="Edit").click()
    sheet.get_by_role("textbox", name="Edit entry").fill("The build runs with just.")
    sheet.get_by_role("button", name="Save").click()
    expect(sheet.get_by_role("list")).to_contain_text("The build runs with just.")
    sheet.get_by_role("button", name="Where from").click()
    expect(sheet).to_contain_text("You wrote it here")
    sheet.get_by_role("button", name="Remove").click()
    sheet.get_by_role("button", name="Remove entry").click()
    expect(sheet).to_contain_text("Nothing yet.")
    page.get_by_role("button", name="Undo").click()
    expect(sheet).to_contain_text("The build runs with just.")


def test_a_full_document_says_so_with_its_numbers(
    chrome: Browser, visitors: list[Visitor], product: Product, model: ModelServer
) -> None:
    """An addition that does not fit is *Not saved*, with the sizes; the document stays as it is."""
    full = "x" * LIMITS[Target.USER]
    visitor = visit(chrome, visitors, product.url, "ada")
    page = visitor.page
    page.goto(product.url + "/memory")
    panel(page, "User profile").get_by_role("button", name="Add entry").click()
    page.get_by_role("textbox", name="New entry").fill(full)
    panel(page, "User profile").get_by_role("button", name="Save").click()
    expect(panel(page, "User profile")).to_contain_text("This page is full.")
    page.goto(product.url + "/chats")
    play_staging(model, text("It does not fit."), finish("stop"))
    write(page, "I like green tea")
    expect(receipt(page, "Not saved")).to_contain_text("The user profile is full (1,375 of 1,375)")
    expect(panel(page, "User profile")).to_contain_text("1,375 / 1,375")


@pytest.mark.invariant("I19")
def test_memory_that_cannot_be_read_is_unavailable_and_not_empty(
    chrome: Browser, visitors: list[Visitor], product: Product, model: ModelServer
) -> None:
    """The answer comes, says that memory is unavailable, and what is stored stays as it was."""
    page = visit(chrome, visitors, product.url, "ada").page
    play_staging(model, text("Noted."), finish("stop"))
    write(page, "I like green tea")
    expect(receipt(page, "Saved")).to_be_visible()
    with product.services.engine.begin() as connection:
        connection.execute(sql("UPDATE remembrancer.agent_memory SET schema_version = 99"))
    play_staging(model, text("Anyway."), finish("stop"), content="Likes coffee.")
    write(page, "And coffee")
    expect(receipt(page, "Memory is unavailable")).to_contain_text("nothing was saved")
    expect(panel(page, "User profile")).to_contain_text("This page cannot be read right now.")
    with product.services.engine.begin() as connection:
        stored = connection.execute(sql("SELECT content, schema_version FROM remembrancer.agent_memory")).one()
    assert tuple(stored) == (TEA, 99)


def test_a_draft_survives_a_reload_and_an_ended_session(
    chrome: Browser, visitors: list[Visitor], product: Product
) -> None:
    """What was typed is there after a reload; after the session has ended too, once signed in again."""
    visitor = visit(chrome, visitors, product.url, "ada")
    page = visitor.page
    page.get_by_role("textbox", name="Message").fill("Half a thought")
    page.reload()
    expect(page.get_by_role("textbox", name="Message")).to_have_value("Half a thought")
    with product.services.engine.begin() as connection:
        connection.execute(sql("UPDATE remembrancer.web_sessions SET revoked_at = now()"))
    page.get_by_role("textbox", name="Message").focus()
    page.keyboard.press("Enter")
    expect(page.get_by_role("dialog")).to_contain_text("You have been signed out")
    visitor.forgive(*REFUSED)
    page.get_by_role("dialog").get_by_role("link", name="Sign in").click()
    page.get_by_role("link", name="Sign in").click()
    page.get_by_role("textbox", name="Subject").fill("ada")
    page.get_by_role("button", name="Continue").click()
    expect(page.get_by_role("textbox", name="Message")).to_have_value("Half a thought")


def test_a_lost_network_in_mid_answer_is_told_truthfully(
    chrome: Browser, visitors: list[Visitor], product: Product, model: ModelServer
) -> None:
    """The line dies while the answer is written: the page says so, nothing is saved, and a reload agrees."""
    play_staging(model, text("It is half "), gate(threading.Event()))
    visitor = visit(chrome, visitors, product.url, "ada")
    page = visitor.page
    write(page, "I like green tea")
    expect(receipt(page, "Waiting for the answer")).to_be_visible()
    product.drop_connections()
    model.wait_reached(aborted=1)
    expect(page.get_by_role("log")).to_contain_text("Interrupted.")
    expect(receipt(page, "Not saved")).to_be_visible()
    page.reload()
    expect(page.get_by_role("log")).to_contain_text("Interrupted.")
    visitor.forgive(*LOST)


def test_without_script_memory_is_read_changed_and_undone(
    chrome: Browser, visitors: list[Visitor], product: Product, model: ModelServer
) -> None:
    """Plain forms: a message, its receipt, removing an entry with Undo, the switch, and forgetting everything."""
    page = visit(chrome, visitors, product.url, "ada", java_script_enabled=False).page
    play_staging(model, text("Noted."), finish("stop"))
    page.get_by_role("textbox", name="Message").fill("I like green tea")
    page.get_by_role("button", name="Send").click()
    expect(receipt(page, "Saved")).to_contain_text(TEA)
    page.get_by_role("link", name="Memory", exact=True).first.click()
    panel(page, "User profile").get_by_role("button", name="Remove").click()
    expect(panel(page, "User profile")).to_contain_text("Nothing yet.")
    page.get_by_role("button", name="Undo").click()
    expect(panel(page, "User profile")).to_contain_text(TEA)
    page.get_by_role("switch", name="Memory").click()
    expect(page.get_by_role("switch", name="Memory")).not_to_be_checked()
    page.get_by_role("button", name="Forget everything").click()
    page.get_by_role("textbox", name="Confirm").fill("forget")
    page.get_by_role("dialog").get_by_role("button", name="Forget everything").click()
    expect(panel(page, "User profile")).to_contain_text("Nothing yet.")


def add_agent(product: Product, name: str) -> None:
    """A second agent of the organization."""
    services = product.services
    transaction(services.engine, lambda unit: create_agent(unit, services.organization.id, Configuration(name)))


@pytest.mark.parametrize("script", [True, False])
def test_an_agent_is_chosen_and_remembers_for_itself(
    chrome: Browser, visitors: list[Visitor], rehearsal: Product, script: bool
) -> None:
    """The combobox shows whose pages stand below it; what is said goes to that agent, and the other knows nothing."""
    add_agent(rehearsal, "Gardener")
    page = visit(chrome, visitors, rehearsal.url, "ada", java_script_enabled=script).page
    choice = page.get_by_role("combobox", name="Agent")
    choice.focus()
    choice.select_option(label="Gardener")
    if not script:
        page.get_by_role("button", name="Show").click()
    expect(page).to_have_url(re.compile("agent=agt_"))
    page.get_by_role("textbox", name="Message").fill("remember that I grow tomatoes")
    page.get_by_role("button", name="Send").click()
    expect(receipt(page, "Saved")).to_contain_text("I grow tomatoes")
    expect(page.get_by_role("complementary", name="Memory")).to_contain_text("What Gardener remembers")
    receipt(page, "Saved").get_by_role("link", name="User profile").click()
    expect(choice).to_have_value(re.compile("agt_"))
    expect(panel(page, "User profile")).to_contain_text("I grow tomatoes")
    page.goto(rehearsal.url + "/memory")
    expect(panel(page, "User profile")).to_contain_text("Nothing yet.")
    if script:
        assert axe(page) == []
    for visitor in visitors:
        visitor.forgive("inline style")
