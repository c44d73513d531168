"""Erasing a person: no row that holds them is left, and nothing that was under way brings them back."""

import threading
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
import sqlalchemy as sa
from sqlalchemy.engine import Engine

from agent.begin import begin_turn
from agent.configuration import Configuration, create_agent
from agent.discard import stop_turn
from agent.erasure import erase
from agent.errors import SessionEnded, TurnNotFound
from agent.events import TextDelta
from agent.liveness import sweep
from agent.outcome import MemoryOutcome, Outcome, Reason
from memory_core.database.tables import SCHEMA, memory_changes, metadata, owners, web_sessions
from memory_core.database.transaction import Unit, transaction
from memory_core.document import Target
from memory_core.errors import OwnerGone
from memory_core.operations import Action, Operation
from memory_core.owner import Actor, Owner
from memory_core.receipts import forget_receipt, sweep_expired_undo, undo_receipt
from memory_core.store import commit_batches, forget_everything
from tests.agent.turning import House, adding, calls, in_thread, listen, listen_until, remember, says, stages
from tests.database import rows
from tests.fakes.model_server import Gate, gate, text
from tests.memory_core.database.waiting import WAIT_SECONDS, until_locked


def traces(engine: Engine, *words: str) -> list[str]:
    """Every column of every table in which one of these words stands, in whatever type."""
    found = []
    with engine.connect() as connection:
        for table in metadata.tables.values():
            for column in table.columns:
                shown = sa.func.encode(column, "escape") if isinstance(column.type, sa.LargeBinary) else column
                where = sa.or_(*(sa.cast(shown, sa.Text).contains(word, autoescape=True) for word in words))
                if connection.execute(sa.select(sa.func.count()).select_from(table).where(where)).scalar():
                    found.append(f"{table.name}.{column.name}")
    return found


def id_of(engine: Engine, owner: Owner) -> str:
    [row] = rows(
        engine, sa.select(owners.c.id).where(owners.c.subject == owner.subject, owners.c.agent_id == owner.agent_id)
    )
    return str(row["id"])


@pytest.mark.invariant("I35")
async def test_no_row_is_left_that_holds_the_person(house: House) -> None:
    """After conversations, memory, receipts, undo and sign-ins: neither their id nor their subject stands anywhere."""
    subject = "Ada-Sentinel-7731"
    owner = house.owner(subject)
    stages(house.model, adding("Likes tea."))
    told = await house.say("I like tea.", subject=subject, session_id=house.sign_in("s1", subject))
    stages(house.model, adding("Likes jazz.", "memory"))
    await house.say("And jazz.", subject=subject, conversation_id=told.turn.conversation_id)
    [receipt, _] = rows(house.engine, sa.select(memory_changes.c.id).order_by(memory_changes.c.created_at))
    transaction(house.engine, lambda unit: undo_receipt(unit, receipt["id"]), owner=owner)
    owner_id = id_of(house.engine, owner)
    assert len(traces(house.engine, owner_id, subject)) > 8

    await in_thread(lambda: erase(house.engine, owner))

    assert traces(house.engine, owner_id, subject, "jazz") == []


@pytest.mark.invariant("I35")
async def test_others_and_other_agents_stay(house: House) -> None:
    """Somebody else's memory, and the same person's with another agent; their sessions are over everywhere."""
    other = transaction(
        house.engine, lambda unit: create_agent(unit, house.organization.id, Configuration("Gardener"))
    ).agent_id
    elsewhere = Owner(house.organization.id, other, "ada")
    for owner in (house.owner("ada"), house.owner("bob"), elsewhere):
        remember(house.engine, owner, "Likes tea.")
    house.sign_in("s-ada", "ada"), house.sign_in("s-bob", "bob")

    await in_thread(lambda: erase(house.engine, house.owner("ada")))

    left = rows(house.engine, sa.select(owners.c.agent_id, owners.c.subject).order_by(owners.c.subject))
    assert [(row["agent_id"], row["subject"]) for row in left] == [(other, "ada"), (house.organization.agent_id, "bob")]
    assert [row["id"] for row in rows(house.engine, sa.select(web_sessions.c.id))] == ["s-bob"]


@pytest.mark.invariant("I39")
async def test_a_turn_that_was_under_way_brings_nobody_back(house: House) -> None:
    """It has staged and is still speaking; it ends as failed, keeps nothing, and the model is left alone."""
    held = Gate()
    house.model.play(*calls(adding("Likes tea.")))
    house.model.play(text("I will"), gate(held), *says(" remember."))
    running = await house.running.open(house.request("I like tea."))
    told = await listen_until(running, TextDelta)

    stopped = await in_thread(lambda: erase(house.engine, house.owner()))
    held.open()
    await listen(running, told)

    assert stopped == (running.turn.id,)
    assert (told.ending.outcome, told.ending.reason) == (Outcome.FAILED, Reason.ERASED)
    assert told.ending.memory.outcome in (MemoryOutcome.NONE, MemoryOutcome.DISCARDED)
    assert rows(house.engine, sa.select(owners)) == []


@pytest.mark.invariant("I12")
async def test_what_runs_in_an_ended_session_is_stopped(house: House) -> None:
    """The same person with another agent: their memory there stays, their session is over, and so is its turn."""
    other = transaction(
        house.engine, lambda unit: create_agent(unit, house.organization.id, Configuration("Gardener"))
    ).agent_id
    house.model.play(*calls(adding("Likes tea.")))
    house.model.play(gate(Gate()))
    elsewhere = Owner(house.organization.id, other, "ada")
    request = replace(house.request("I like tea.", session_id=house.sign_in("s1")), owner=elsewhere)
    running = await house.running.open(request)
    await house.model.reached(open=1)

    stopped = await in_thread(lambda: erase(house.engine, house.owner()))
    for turn_id in stopped:
        house.running.interrupt(turn_id, Outcome.STOPPED)
    told = await listen(running)

    assert stopped == (running.turn.id,)
    assert told.ending.outcome is Outcome.STOPPED
    assert traces(house.engine, "Likes tea.") == []


@pytest.mark.invariant("I39")
@pytest.mark.parametrize(
    "late",
    [
        lambda unit: undo_receipt(unit, "rcp_any"),
        lambda unit: forget_receipt(unit, "rcp_any"),
        forget_everything,
    ],
    ids=["undo", "forget now", "forget everything"],
)
async def test_what_comes_late_finds_nobody(house: House, late: Callable[[Unit], Any]) -> None:
    """OwnerGone, and nobody is made."""
    remember(house.engine, house.owner(), "Likes tea.")
    await in_thread(lambda: erase(house.engine, house.owner()))
    with pytest.raises(OwnerGone):
        transaction(house.engine, late, owner=house.owner())
    with pytest.raises(TurnNotFound):
        stop_turn(house.engine, house.owner(), "key")
    sweep(house.engine, "prc_any")
    sweep_expired_undo(house.engine)
    assert rows(house.engine, sa.select(owners)) == []


@pytest.mark.invariant("I39")
async def test_a_message_that_was_on_its_way_begins_nothing(house: House) -> None:
    """It proved itself with a session that went with the person: no turn, and no owner."""
    remember(house.engine, house.owner(), "Likes tea.")
    request = house.request(session_id=house.sign_in("s1"))
    await in_thread(lambda: erase(house.engine, house.owner()))
    with pytest.raises(SessionEnded):
        begin_turn(house.engine, request)
    assert rows(house.engine, sa.select(owners)) == []


@pytest.mark.invariant("I39")
async def test_erasing_waits_for_a_writer_and_takes_what_it_wrote(house: House, engine: Engine) -> None:
    """Whoever holds the owner's row is done first; then all of it goes."""
    remember(engine, house.owner(), "Likes tea.")
    batch = [Operation(Target.USER, Action.ADD, content="Likes jazz.")]
    erasing: list[threading.Thread] = []

    def write_while_somebody_erases(unit: Unit) -> None:
        erasing.append(threading.Thread(target=erase, args=(engine, house.owner())))
        erasing[0].start()
        until_locked(engine)
        commit_batches(unit, [batch], actor=Actor.PERSON, undo_hours=24)

    await in_thread(lambda: transaction(engine, write_while_somebody_erases, owner=house.owner()))
    erasing[0].join(WAIT_SECONDS)
    assert traces(engine, "Likes") == []


async def test_erasing_nobody_is_done_at_once(house: House) -> None:
    """It is noted all the same."""
    noted: list[str] = []
    assert await in_thread(lambda: erase(house.engine, house.owner(), lambda unit: noted.append("done"))) == ()
    assert noted == ["done"]


def test_every_table_of_a_person_goes_with_them() -> None:
    """A table that names an owner refers to them so that its rows are deleted, or let go of the name."""
    for table in metadata.tables.values():
        for key in table.foreign_keys:
            if key.target_fullname == f"{SCHEMA}.owners.id":
                assert key.ondelete in ("CASCADE", "SET NULL"), f"{table.name}.{key.parent.name}"
