"""The event log as it is read: conversations, their questions and answers, and the history a prompt can carry.

Rows are always looked up through their person, whichever agent they talked to: another person's conversation is *not
found*. Writing belongs to ``begin``, ``commit`` and ``discard``.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from agent.outcome import Capacity, Ending, MemoryEnding, MemoryOutcome, MemoryStatus, Outcome, Reason
from memory_core.database.rows import Record
from memory_core.database.tables import conversations, memory_changes, messages, owners, turns
from memory_core.document import Target
from memory_core.errors import RefusalCode
from memory_core.owner import Owner

TITLE_CHARS = 60
#: The newest turns a prompt is made from; the token budget cuts further.
_HISTORY_TURNS = 200
#: What stands in the history where an answer is missing or not whole, so that every next request is valid.
_NO_ANSWER = "[This message was not answered.]"
_CUT_OFF = "[This answer was cut off here.]"


@dataclass(frozen=True, slots=True)
class ConversationSummary:
    """A line of the list of chats."""

    id: str
    title: str = field(repr=False)
    updated_at: datetime


@dataclass(frozen=True, slots=True)
class TurnRecord:
    """One turn as a page shows it."""

    id: str
    question: str = field(repr=False)
    question_place: int
    asked_at: datetime
    answer: str | None = field(repr=False)
    started_at: datetime
    ended_at: datetime | None
    memory_status: MemoryStatus
    tools: tuple[str, ...]
    superseded: bool
    regenerates_id: str | None
    ending: Ending

    @property
    def is_running(self) -> bool:
        return self.ending.outcome is Outcome.RUNNING


@dataclass(frozen=True, slots=True)
class Conversation:
    id: str
    agent_id: str
    title: str = field(repr=False)
    agent_version: int
    turns: tuple[TurnRecord, ...]
    last_place: int


@dataclass(frozen=True, slots=True)
class FoundTurn:
    """A turn that was looked up by its id, and where it belongs."""

    record: TurnRecord
    owner_id: str
    conversation_id: str
    agent_version: int


def title_of(message: str) -> str:
    """A conversation's title: the first words of its first message, at most ``TITLE_CHARS`` code points."""
    line = " ".join(message.split())
    if len(line) <= TITLE_CHARS:
        return line
    cut = line[: TITLE_CHARS - 1]
    head, space, _ = cut.rpartition(" ")
    return f"{head if space and len(head) > TITLE_CHARS // 2 else cut}…"


def list_conversations(connection: Connection, owner: Owner, *, limit: int = 200) -> tuple[ConversationSummary, ...]:
    """The person's conversations with every agent, the most recently used first."""
    rows = connection.execute(
        sa.select(conversations.c.id, conversations.c.title, conversations.c.updated_at)
        .join(owners, owners.c.id == conversations.c.owner_id)
        .where(*_is_theirs(owner))
        .order_by(conversations.c.updated_at.desc(), conversations.c.id)
        .limit(limit)
    )
    return tuple(ConversationSummary(row.id, row.title, row.updated_at) for row in rows)


def find_conversation(
    connection: Connection, owner: Owner, conversation_id: str, *, around: str | None = None
) -> Conversation | None:
    """A conversation of this person, with whatever agent, and its turns in order; None if there is none (or it is
    somebody else's).

    ``around`` a turn's id: only the turns that answer the same question.
    """
    row = connection.execute(
        sa.select(conversations.c.id, conversations.c.title, conversations.c.agent_version, owners.c.agent_id)
        .join(owners, owners.c.id == conversations.c.owner_id)
        .where(conversations.c.id == storable(conversation_id), *_is_theirs(owner))
    ).first()
    if row is None:
        return None
    here = turns.c.conversation_id == row.id
    places = sa.select(turns.c.question_place).where(here)
    same = [turns.c.question_place == places.where(turns.c.id == storable(around)).scalar_subquery()] if around else []
    found = connection.execute(_turns().where(here, *same).order_by(turns.c.question_place, turns.c.started_at))
    last = connection.execute(sa.select(sa.func.max(turns.c.question_place)).where(here)).scalar() or 0
    return Conversation(row.id, row.agent_id, row.title, row.agent_version, tuple(_turn(turn) for turn in found), last)


def find_title(connection: Connection, owner: Owner, conversation_id: str) -> str | None:
    """The title of a conversation of this person; None if there is none (or it is somebody else's)."""
    return connection.execute(
        sa.select(conversations.c.title)
        .join(owners, owners.c.id == conversations.c.owner_id)
        .where(conversations.c.id == storable(conversation_id), *_is_theirs(owner))
    ).scalar()


def find_turn(connection: Connection, organization_id: str, turn_id: str) -> FoundTurn | None:
    """A turn of this organization, whosever it is; None if there is none (or it is another organization's)."""
    row = connection.execute(
        _turns()
        .join(owners, owners.c.id == turns.c.owner_id)
        .where(turns.c.id == storable(turn_id), owners.c.organization_id == organization_id)
    ).first()
    return None if row is None else FoundTurn(_turn(row), row.owner_id, row.conversation_id, row.agent_version)


def ending_of(connection: Connection, turn_id: str) -> Ending | None:
    """How a turn stands now; None when it is gone."""
    row = connection.execute(_turns().where(turns.c.id == turn_id)).first()
    return None if row is None else _ending(row)


def history(connection: Connection, conversation_id: str, *, before: int, tokens: int) -> tuple[Mapping[str, str], ...]:
    """The conversation before a place, as chat messages: user and assistant in turn, the newest that fit the budget.

    Only texts: no tool call, argument or result is ever among them. An answer that is missing or not whole says so, so
    that what is returned is always a valid beginning of the next request. ``tokens`` is an estimate, on the safe side.
    """
    rows = connection.execute(
        sa.select(turns.c.question_place, turns.c.outcome, _question.c.content, _answer.c.content.label("answer"))
        .select_from(_log())
        .where(
            turns.c.conversation_id == conversation_id,
            turns.c.question_place < before,
            turns.c.outcome != Outcome.RUNNING,
            ~turns.c.superseded,
        )
        .order_by(turns.c.question_place.desc(), turns.c.started_at.desc())
        .limit(_HISTORY_TURNS)
    ).all()
    chosen: list[tuple[str, str]] = []
    for row in _one_answer_a_question(rows):
        question, answer = row.content, _answer_in_history(row)
        tokens -= estimated_tokens(question) + estimated_tokens(answer)
        if tokens < 0:
            break
        chosen.append((question, answer))
    return tuple(
        message
        for question, answer in reversed(chosen)
        for message in ({"role": "user", "content": question}, {"role": "assistant", "content": answer})
    )


def storable(text: str) -> str:
    """The text with what PostgreSQL cannot keep (U+0000, unpaired surrogates) made visible. No id is changed by it, so
    an id that cannot exist is simply not found.
    """
    return text.encode("utf-8", "replace").decode().replace("\0", "\ufffd")


def estimated_tokens(text: str) -> int:
    """Tokens of a text, estimated from above for the scripts that matter: one for three bytes of UTF-8, and a few
    for its frame.
    """
    return len(text.encode("utf-8", "replace")) // 3 + 4


_question = messages.alias("question")
_answer = messages.alias("answer")


def _is_theirs(owner: Owner) -> tuple[sa.ColumnElement[bool], ...]:
    return (owners.c.organization_id == owner.organization_id, owners.c.subject == owner.subject)


def _log() -> sa.FromClause:
    """Turns beside their question and their answer, if it has one."""
    return turns.join(
        _question,
        sa.and_(_question.c.conversation_id == turns.c.conversation_id, _question.c.place == turns.c.question_place),
    ).outerjoin(
        _answer,
        sa.and_(_answer.c.conversation_id == turns.c.conversation_id, _answer.c.place == turns.c.answer_place),
    )


def _turns() -> sa.Select[Any]:
    return sa.select(
        turns,
        _question.c.content.label("question"),
        _question.c.created_at.label("asked_at"),
        _answer.c.content.label("answer"),
        _answer.c.id.label("answer_id"),
        memory_changes.c.id.label("receipt_id"),
        memory_changes.c.user_after,
        memory_changes.c.memory_after,
    ).select_from(_log().outerjoin(memory_changes, memory_changes.c.turn_id == turns.c.id))


def _turn(row: Record) -> TurnRecord:
    return TurnRecord(
        id=row.id,
        question=row.question,
        question_place=row.question_place,
        asked_at=row.asked_at,
        answer=row.answer,
        started_at=row.started_at,
        ended_at=row.ended_at,
        memory_status=MemoryStatus(row.memory_status),
        tools=tuple(call["tool"] for call in row.tool_rounds),
        superseded=row.superseded,
        regenerates_id=row.regenerates_id,
        ending=_ending(row),
    )


def _ending(row: Record) -> Ending:
    detail = row.memory_detail
    return Ending(
        outcome=Outcome(row.outcome),
        reason=Reason(row.reason) if row.reason else None,
        finish_reason=row.finish_reason,
        message_id=row.answer_id,
        retry_at=row.retry_at,
        memory=MemoryEnding(
            outcome=MemoryOutcome(row.memory_outcome),
            reason=RefusalCode(row.memory_reason) if row.memory_reason else None,
            capacity=Capacity(**{**detail, "target": Target(detail["target"])}) if detail else None,
            receipt_id=row.receipt_id,
            user_characters=row.user_after,
            memory_characters=row.memory_after,
        ),
    )


def _one_answer_a_question(rows: Sequence[Record]) -> list[Record]:
    """A question asked again keeps the completed answer if it has one, else the latest attempt. Rows come newest
    first.
    """
    kept: dict[int, Record] = {}
    for row in rows:
        if row.question_place not in kept or (
            row.outcome == Outcome.COMPLETED and kept[row.question_place].outcome != Outcome.COMPLETED
        ):
            kept[row.question_place] = row
    return list(kept.values())


def _answer_in_history(row: Record) -> str:
    if not (row.answer and row.answer.strip()):
        return _NO_ANSWER
    return row.answer if row.outcome == Outcome.COMPLETED else f"{row.answer}\n\n{_CUT_OFF}"
