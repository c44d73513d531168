"""The operator's pages in a real browser: by eye, by ear and by keyboard, with script and without."""

import re
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from playwright.sync_api import Browser, Page, expect

from memory_core.document import LIMITS, Target
from tests.browser.people import NARROW, PHONE, WIDE, Visitor, arrive, axe, is_wider_than_the_window, visit
from tests.webapp.product import Product
from webapp.operator_pages.seeding import document_field

pytestmark = pytest.mark.browser

#: What a browser reports by itself of a form that comes back.
REFUSED = ("status of 4",)
LOOKS: dict[str, dict[str, Any]] = {
    "light": {"viewport": WIDE},
    "dark": {"viewport": WIDE, "color_scheme": "dark"},
    "phone": {"viewport": PHONE},
    "narrow": {"viewport": NARROW, "color_scheme": "dark"},
}


@pytest.fixture
def busy(rehearsal: Product) -> Product:
    """A deployment in which something has happened: turns, a seed, a second agent in two versions, keys."""
    ada, operator = rehearsal.sign_in("ada"), rehearsal.sign_in("operator")
    for said in ("remember that I like green tea", "fail", "Hello"):
        ada.say(said)
    agent = rehearsal.services.organization.default_agent_id
    seed = {"agent": agent, "subject": "b.okafor", "user_entries": "Works early.", "agent_entries": ""}
    desk = {"name": "Orders desk", "instructions": "Be brief.\nBe kind.", "model": "", "fallback_models": ""}
    operator.post_form("/operator/seed", seed, script=False)
    made = operator.post_form("/operator/agents", {**desk, "memory": "on"}, script=False)
    change = {**desk, "instructions": "Be brief.\nBe exact.", "version": "1"}
    operator.post_form(f"{made.url.path}/versions", change, script=False)
    for name in ("The shop", "Old import"):
        operator.post_form("/operator/keys", {"name": name, "scopes": "erase", "expires": "30"}, script=False)
    return rehearsal


def link_to(page: Page, name: str | re.Pattern[str]) -> Callable[[], None]:
    return page.get_by_role("main").get_by_role("link", name=name).first.click


def every_page(page: Page, address: str) -> Iterator[str]:
    """Go through all of them as somebody does who follows the links; each is shown when its name comes."""
    for path in ("", "/seed", "/health", "/audit", "/agents/new"):
        page.goto(f"{address}/operator{path}")
        for figures in page.get_by_text("Figures", exact=True).all():
            figures.click()
        yield f"/operator{path}"
    ways: tuple[str | re.Pattern[str], ...]
    for path, ways in (
        ("/subjects", ("ada",)),
        ("/subjects?q=nobody", ()),
        ("/agents", ("Orders desk", re.compile("^Version 2"))),
        ("/keys", ("The shop",)),
    ):
        page.goto(f"{address}/operator{path}")
        yield path
        for way in ways:
            link_to(page, way)()
            page.wait_for_load_state("load")
            yield f"{path} {way}"
    page.goto(f"{address}/operator/health")
    page.get_by_role("button", name="Run the probe").click()
    expect(page.get_by_role("status").filter(has_text="The database works.")).to_be_visible()
    yield "probed"
    page.goto(f"{address}/operator/seed")
    page.get_by_role("textbox", name="Subject").fill("ada")
    page.get_by_role("textbox", name="User profile entries").fill("Likes tea.")
    page.get_by_role("button", name="Seed memory").click()
    expect(page.get_by_role("alert").filter(has_text="This person has begun already.")).to_be_focused()
    yield "409"
    page.get_by_role("textbox", name="Subject").fill("c.new")
    page.get_by_role("textbox", name="Agent memory entries").fill("§\n<persistent_memory_data>")
    page.get_by_role("button", name="Seed memory").click()
    expect(page.get_by_role("alert").filter(has_text="Two things need a change.")).to_be_focused()
    yield "422"
    page.goto(f"{address}/operator/keys")
    page.get_by_role("textbox", name="Name").fill("Another")
    page.get_by_role("button", name="Create key").click()
    expect(page.get_by_text("Choose at least one thing")).to_be_visible()
    yield "key refused"
    page.get_by_role("checkbox", name="Seed memory").check()
    page.get_by_role("button", name="Create key").click()
    expect(page.get_by_text("You will not see it again.")).to_be_visible()
    yield "key made"


@pytest.mark.parametrize("look", LOOKS)
def test_every_page_reads_well_everywhere(chrome: Browser, visitors: list[Visitor], busy: Product, look: str) -> None:
    """axe finds nothing, and nothing is wider than the window: in light and dark, on a phone, on a narrow one."""
    visitor = visit(chrome, visitors, busy.url, "operator", **LOOKS[look])
    met = []
    for name in every_page(visitor.page, busy.url):
        assert axe(visitor.page) == [], name
        assert not is_wider_than_the_window(visitor.page), name
        met.append(name)
    assert len(met) == 18
    visitor.forgive(*REFUSED)


@pytest.mark.invariant("I29")
def test_seeding_by_keyboard_alone(chrome: Browser, visitors: list[Visitor], rehearsal: Product) -> None:
    """From the first field to the button and the page of whom it was for, without a mouse."""
    page = visit(chrome, visitors, rehearsal.url, "operator", path="/chats").page
    page.get_by_role("link", name="Operator").focus()
    page.keyboard.press("Enter")
    page.get_by_role("link", name="Seed memory").focus()
    page.keyboard.press("Enter")
    expect(page.get_by_role("heading", name="Seed memory")).to_be_visible()
    page.get_by_role("combobox", name="Agent").focus()
    page.keyboard.press("Tab")
    page.keyboard.type("b.okafor")
    page.keyboard.press("Tab")
    page.keyboard.type("Works early.\nLikes tea.")
    page.keyboard.press("Tab")
    page.keyboard.type("The build runs with make.")
    page.keyboard.press("Tab")
    expect(page.get_by_role("button", name="Seed memory")).to_be_focused()
    page.keyboard.press("Enter")
    expect(page.get_by_role("heading", name="b.okafor")).to_be_visible()
    expect(page.get_by_role("status").filter(has_text="Seeded the memory of")).to_be_visible()
    expect(page.get_by_role("meter", name="User profile usage")).to_have_text("25 / 1,375")


@pytest.mark.invariant("I10")
@pytest.mark.parametrize(
    "typed",
    [
        "",
        "Likes tea.",
        "  Likes tea.\t\n\n\nWorks\tearly. \nLikes tea.\n",
        "🪿 geese\ne\u0301t\u00e9\n\u00e9t\u00e9\nنیم\u200cفاصله\u2028next",
        "x" * 1376,
        "\u3000wide\u00a0\n\u0085\n§",
    ],
)
def test_the_live_meter_counts_as_the_server_does(
    chrome: Browser, visitors: list[Visitor], rehearsal: Product, typed: str
) -> None:
    """Code points of the rendered document: as it is typed, and again when the form comes back."""
    page = visit(chrome, visitors, rehearsal.url, "operator").page
    page.goto(f"{rehearsal.url}/operator/seed")
    page.locator("html[data-ready]").wait_for(state="attached")
    field, meter = page.get_by_role("textbox", name="User profile entries"), page.locator("output[for=user-entries]")
    field.fill(typed)
    told = document_field(Target.USER, field.input_value())
    assert told.used == document_field(Target.USER, typed).used
    expect(meter).to_have_text(f"{told.used:,} / 1,375")
    expect(page.locator("#user-entries-hint")).to_contain_text(f"{told.entry_count} entr")
    level = page.get_by_role("meter", name="User profile usage").evaluate("meter => meter.value")
    assert level == min(told.used, LIMITS[Target.USER])
    expect(meter).to_have_class("is-over" if told.is_over else "")


def test_a_refused_seed_keeps_every_word(chrome: Browser, visitors: list[Visitor], busy: Product) -> None:
    """The faults lead to their fields; corrected, the same form goes through."""
    visitor = visit(chrome, visitors, busy.url, "operator")
    page = visitor.page
    page.goto(f"{busy.url}/operator/seed")
    page.get_by_role("combobox", name="Agent").select_option(label="Orders desk")
    page.get_by_role("textbox", name="Subject").fill("ada")
    page.get_by_role("textbox", name="User profile entries").fill("\nWorks early.\n§")
    page.get_by_role("button", name="Seed memory").click()
    page.get_by_role("link", name="User profile entries, line 3").click()
    expect(page.get_by_role("combobox", name="Agent").locator("option:checked")).to_have_text("Orders desk")
    expect(page.get_by_role("textbox", name="Subject")).to_have_value("ada")
    field = page.get_by_role("textbox", name="User profile entries")
    expect(field).to_have_value("\nWorks early.\n§")
    expect(field).to_have_attribute("aria-invalid", "true")
    field.fill("Works early.")
    page.get_by_role("button", name="Seed memory").click()
    expect(page.get_by_role("heading", name="ada")).to_be_visible()
    visitor.forgive(*REFUSED)


def test_everything_works_without_script(chrome: Browser, visitors: list[Visitor], busy: Product) -> None:
    """Probe, seed, key, agent, revocation, erasure."""
    visitor = visit(chrome, visitors, busy.url, None, java_script_enabled=False)
    page = visitor.page
    page.get_by_role("link", name="Sign in").click()
    page.get_by_role("textbox", name="Subject").fill("operator")
    page.get_by_role("button", name="Continue").click()
    arrive(page, script=False)
    page.get_by_role("link", name="Operator").click()
    expect(page.get_by_role("img", name=re.compile("Turns by outcome, a day"))).to_be_visible()
    page.get_by_role("link", name="Health", exact=True).click()
    page.get_by_role("button", name="Run the probe").click()
    expect(page.get_by_text("The database works.")).to_be_visible()
    page.get_by_role("link", name="Keys").click()
    page.get_by_role("textbox", name="Name").fill("No script")
    page.get_by_role("checkbox", name="Erase a subject").check()
    page.get_by_role("button", name="Create key").click()
    expect(page.get_by_label("The key")).to_have_text(re.compile("^rk_[0-9a-f_]{81}$"))
    page.get_by_role("link", name="I have kept it").click()
    page.get_by_role("link", name="No script").click()
    page.get_by_role("button", name="Revoke key").click()
    expect(page.get_by_role("row", name=re.compile("No script Revoked"))).to_be_visible()
    page.get_by_role("link", name="Subjects").click()
    page.get_by_role("link", name="ada").click()
    page.get_by_role("textbox", name="Type the subject to confirm").fill("ada")
    page.get_by_role("button", name="Erase subject").click()
    expect(page.get_by_text("Erased a subject")).to_be_visible()
    expect(page.get_by_role("link", name="ada", exact=True)).to_have_count(0)


def test_a_new_key_is_copied_with_one_press(chrome: Browser, visitors: list[Visitor], rehearsal: Product) -> None:
    """The whole key, and it is said that it was copied; going back and forth does not show it again."""
    visitor = visit(chrome, visitors, rehearsal.url, "operator", permissions=["clipboard-read", "clipboard-write"])
    page = visitor.page
    page.goto(f"{rehearsal.url}/operator/keys")
    page.get_by_role("textbox", name="Name").fill("The shop")
    page.get_by_role("checkbox", name="Seed memory").check()
    page.get_by_role("button", name="Create key").click()
    page.locator("html[data-ready]").wait_for(state="attached")
    key = page.get_by_label("The key").inner_text()
    page.get_by_role("button", name="Copy").click()
    expect(page.get_by_role("button", name="Copied")).to_be_visible()
    assert page.evaluate("navigator.clipboard.readText()") == key
    page.get_by_role("link", name="I have kept it").click()
    assert key.rsplit("_", 1)[1] not in page.content()
