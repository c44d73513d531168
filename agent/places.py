"""Places in a conversation's log: opening one, and taking the next places for a question and its answer.

A conversation keeps the version of its agent that was current when it was opened. SQL of ``conversations`` at the
moment of beginning, under the owner's lock.
"""

from dataclasses import dataclass

import sqlalchemy as sa

from agent.errors import AgentNotFound, ConversationNotFound
from agent.regeneration import question_at
from agent.transcript import storable, title_of
from memory_core.database.rows import Record
from memory_core.database.tables import agent_versions, agents, conversations, owners
from memory_core.database.transaction import LockedOwner, Unit
from memory_core.ids import new_id


@dataclass(frozen=True, slots=True)
class Place:
    """Where in a conversation a turn stands, and whether its agent has a memory."""

    conversation_id: str
    is_new: bool
    title: str
    question: str
    question_place: int
    answer_place: int
    agent_version: int
    has_memory: bool


@dataclass(frozen=True, slots=True)
class OpenedConversation:
    """A conversation that was just made."""

    id: str
    agent_version: int
    has_memory: bool


def _has_memory(version: sa.ColumnElement[int]) -> sa.Label[bool]:
    """Whether this version of the owner's agent has the memory tool; a switch that was never set is on."""
    switch = agent_versions.c.tools["memory"].as_boolean()
    this = sa.and_(agent_versions.c.agent_id == sa.bindparam("agent"), agent_versions.c.version == version)
    found = sa.select(switch).where(this).correlate(agents, conversations).scalar_subquery()
    return sa.func.coalesce(found, True).label("has_memory")


# Built once: SQLAlchemy takes as long to build a statement as to run it.

_CURRENT_AGENT = sa.select(agents.c.current_version, _has_memory(agents.c.current_version)).where(
    agents.c.id == sa.bindparam("agent"), agents.c.organization_id == sa.bindparam("organization")
)
_FIRST_ACTIVITY = (
    sa.update(owners)
    .where(owners.c.id == sa.bindparam("this"))
    .values(first_activity_at=sa.func.coalesce(owners.c.first_activity_at, sa.func.clock_timestamp()))
)
_TAKE_PLACES = (
    sa.update(conversations)
    .where(conversations.c.id == sa.bindparam("conversation"), conversations.c.owner_id == sa.bindparam("owner"))
    .values(
        next_place=conversations.c.next_place + sa.bindparam("taken"),
        updated_at=sa.func.clock_timestamp(),
        # One that was opened without a message takes its title from its first.
        title=sa.func.coalesce(sa.func.nullif(conversations.c.title, ""), sa.bindparam("first_title")),
    )
    .returning(
        conversations.c.id,
        conversations.c.title,
        conversations.c.agent_version,
        conversations.c.next_place,
        _has_memory(conversations.c.agent_version),
    )
)


def open_conversation(unit: Unit, owner: LockedOwner, title: str = "", *, next_place: int = 1) -> OpenedConversation:
    """A new conversation with the agent's current version. Raises ``AgentNotFound``."""
    wanted = {"agent": owner.agent_id, "organization": owner.organization_id}
    agent = unit.connection.execute(_CURRENT_AGENT, wanted).first()
    if agent is None:
        raise AgentNotFound
    conversation_id = new_id("cht")
    unit.connection.execute(
        sa.insert(conversations),
        {
            "id": conversation_id,
            "owner_id": owner.id,
            "agent_version": agent.current_version,
            "title": title,
            "next_place": next_place,
        },
    )
    if owner.first_activity_at is None:
        unit.connection.execute(_FIRST_ACTIVITY, {"this": owner.id})
    return OpenedConversation(conversation_id, agent.current_version, agent.has_memory)


def first_place(unit: Unit, owner: LockedOwner, message: str) -> Place:
    """The first question of a new conversation, and its answer."""
    title = title_of(message)
    made = open_conversation(unit, owner, title, next_place=3)
    return Place(made.id, True, title, message, 1, 2, made.agent_version, made.has_memory)


def next_place(
    unit: Unit, owner: LockedOwner, conversation_id: str, message: str, regenerated: Record | None = None
) -> Place:
    """Lock the conversation and take the next places in its log: two for a new question, one for a new answer.

    ``regenerated`` is the turn whose question is asked again. Raises ``ConversationNotFound``.
    """
    given = {
        "conversation": storable(conversation_id),
        "owner": owner.id,
        "agent": owner.agent_id,
        "taken": 2 if regenerated is None else 1,
        "first_title": title_of(message),
    }
    row = unit.connection.execute(_TAKE_PLACES, given).first()
    if row is None:
        raise ConversationNotFound
    answer_place = row.next_place - 1
    if regenerated is None:
        question, question_place = message, answer_place - 1
    else:
        question, question_place = question_at(unit, row.id, regenerated.question_place), regenerated.question_place
    return Place(row.id, False, row.title, question, question_place, answer_place, row.agent_version, row.has_memory)
