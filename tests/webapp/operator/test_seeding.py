"""Seeding by page: once, whole or not at all, with every fault named and nothing lost."""

import re
import threading
from concurrent.futures import ThreadPoolExecutor
from html import unescape
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from sqlalchemy import select

from memory_core.database.tables import audit_log, owners
from memory_core.document import LIMITS, Snapshot, Target, count
from memory_core.errors import OperationRefused, RefusalCode
from memory_core.operations import Action, Operation, apply_operations
from tests.database import rows, tables_holding
from tests.fakes.model_server import ModelServer, finish, text
from tests.webapp.product import Product, Signed, running_product
from webapp.operator_pages.seeding import document_field, entries_of, find_faults

SENTINEL = "The heron stands in the third pond."


def seeding(product: Product, subject: str = "b.okafor", **fields: str) -> dict[str, str]:
    agent = product.services.organization.default_agent_id
    return {"agent": agent, "subject": subject, "user_entries": "", "agent_entries": "", **fields}


def seed(operator: Signed, fields: dict[str, str]) -> tuple[int, str]:
    answer = operator.post_form("/operator/seed", fields, script=False, follow_redirects=False)
    return answer.status_code, unescape(answer.text) or answer.headers.get("location", "")


def test_a_seed_is_what_the_person_finds(product: Product) -> None:
    """Blank lines, tabs, outer white space and repeated entries are what the rules make of them."""
    operator = product.sign_in("operator")
    fields = seeding(product, user_entries="Likes tea.\r\n\r\n  Works\tearly. \r\nLikes tea.", agent_entries="Uses Go.")
    status, location = seed(operator, fields)
    assert status == 303
    assert re.fullmatch(r"/operator/subjects/own_\w+\?done=\d+", location)
    page = unescape(operator.get(location).text)
    assert "Seeded the memory of" in page
    assert "Seeded, not begun" in page
    memory = product.sign_in("b.okafor").memory_page()
    assert "Works early." in memory
    assert memory.count("Likes tea.</p>") == 1
    assert "25</b> / 1,375" in memory
    assert "25</b> / 1,375" in page


@pytest.mark.invariant("I29")
def test_whoever_has_begun_is_not_seeded(product: Product, model: ModelServer) -> None:
    """A second seed, and one after a first message: 409, what was typed is kept, and nothing has changed."""
    operator = product.sign_in("operator")
    assert seed(operator, seeding(product, user_entries="Likes tea."))[0] == 303
    model.play(text("Hello."), finish("stop"))
    product.sign_in("ada").say("Hello")
    for subject in ("b.okafor", "ada"):
        status, page = seed(operator, seeding(product, subject, user_entries=SENTINEL, agent_entries="And more."))
        assert status == 409
        assert "This person has begun already." in page
        assert "memory_already_initialized" in page
        assert SENTINEL in page
        assert "And more." in page
        assert re.search(r'href="/operator/subjects/own_\w+">Open this subject', page)
    assert tables_holding(product.services.engine, SENTINEL) == set()
    assert "Likes tea." in product.sign_in("b.okafor").memory_page()


@pytest.mark.invariant("I29")
def test_of_two_seeds_at_once_one_wins(product: Product) -> None:
    """Ten operators press the button together: one is told so, nine that somebody was there."""
    operator, together = product.sign_in("operator"), threading.Barrier(10)

    def press(number: int) -> int:
        together.wait(10)
        return seed(operator, seeding(product, user_entries=f"Number {number}."))[0]

    with ThreadPoolExecutor(10) as pool:
        assert sorted(pool.map(press, range(10))) == [303, *[409] * 9]


def test_every_fault_is_named_by_line_and_kind(product: Product) -> None:
    """All of them at once, each where it stands; all or nothing; what was typed is still there."""
    operator = product.sign_in("operator")
    fields = seeding(product, user_entries="x" * 1376, agent_entries=f"{SENTINEL}\n\n§\nzero\u200bwidth")
    status, page = seed(operator, fields)
    assert status == 422
    assert "Three things need a change." in page
    assert "User profile entries</a>: 1 character too many" in page
    assert "Agent memory entries, line 3</a>: uses signs" in page
    assert "Agent memory entries, line 4</a>: holds invisible" in page
    assert "1,376</b> / 1,375" in page
    assert SENTINEL in page
    assert tables_holding(product.services.engine, SENTINEL) == set()
    assert rows(product.services.engine, select(owners)) == []


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({}, "Write at least one entry."),
        ({"subject": "  ", "user_entries": "x"}, "Write the subject"),
        ({"subject": "x" * 256, "user_entries": "x"}, "Write the subject"),
        ({"subject": "a\0b", "user_entries": "x"}, "Write the subject"),
        ({"agent": "agt_nobody", "user_entries": "x"}, "Choose an agent"),
        ({"user_entries": "\n".join(f"{n}" for n in range(400))}, "has more entries than fit"),
    ],
)
def test_what_is_missing_is_said(product: Product, changes: dict[str, str], said: str) -> None:
    """In words, beside the field, and nothing is stored."""
    status, page = seed(product.sign_in("operator"), {**seeding(product), **changes})
    assert status == 422
    assert said in page
    assert rows(product.services.engine, select(owners)) == []


def test_while_memory_rests_a_seed_is_kept_and_the_page_says_so(database_url: str, tmp_path: Path) -> None:
    """Before the flag is switched on people can be given their beginning; nothing reads it until then."""
    environ = {"REMEMBRANCER_MEMORY_ENABLED": "false"}
    with running_product(database_url, tmp_path, environ=environ) as product:
        operator = product.sign_in("operator")
        assert "used from the day it is switched on" in operator.get("/operator/seed").text
        assert seed(operator, seeding(product, user_entries="Likes tea."))[0] == 303
        assert "Likes tea." in product.sign_in("b.okafor").memory_page()


@pytest.mark.invariant("I31")
def test_the_audit_log_knows_how_much_and_not_what(product: Product) -> None:
    """Counts, an agent and an owner; the words stand in memory and in its receipt alone."""
    operator = product.sign_in("operator")
    seed(operator, seeding(product, user_entries=SENTINEL))
    assert tables_holding(product.services.engine, SENTINEL) <= {"agent_memory", "memory_changes"}
    [line] = rows(product.services.engine, select(audit_log))
    assert (line["action"], line["actor"], line["detail"]) == ("memory_seeded", "operator", {"user": 1, "memory": 0})


ENTRY = st.text(st.characters(exclude_categories=("Cs", "Cc", "Cf")), max_size=40)


@given(lines=st.lists(ENTRY, max_size=12), breaks=st.sampled_from(["\n", "\r\n", "\r", "\u2028"]))
def test_the_meter_counts_as_the_rules_count(lines: list[str], breaks: str) -> None:
    """Whatever the rules accept has the size that the form told before."""
    typed = breaks.join(lines)
    batch = [Operation(Target.USER, Action.ADD, content=line.text) for line in entries_of(typed)]
    try:
        after = apply_operations(Snapshot(), batch)
    except OperationRefused:
        return
    assert document_field(Target.USER, typed).used == count(after.user)
    assert document_field(Target.USER, typed).entry_count == len(after.user)


def test_there_is_a_fault_for_every_refusal() -> None:
    """Also where the rules refuse what no single line explains."""
    for code in RefusalCode:
        documents = {Target.USER: entries_of("Likes tea."), Target.MEMORY: ()}
        [fault] = find_faults(documents, OperationRefused(code, target=Target.USER))
        assert fault.whole.endswith(".")
    assert LIMITS[Target.USER] == 1375
