"""Agents as they are stored: versioned configuration, never changed once written. SQL of ``agents`` and
``agent_versions``.

A change makes a new version; a conversation keeps the one it began with. Every read and write names the organization:
another organization's agent does not exist.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any, Final

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from agent.errors import AgentNotFound
from memory_core.database.rows import Record
from memory_core.database.tables import agent_versions, agents
from memory_core.database.transaction import Unit
from memory_core.ids import new_id

#: What an agent's configuration switches. A switch that was never set is on.
TOOL_SWITCHES: Final = ("memory", "session_search", "skills")
#: Bounds of a configuration, in characters and models.
NAME_MAX_CHARS: Final = 100
INSTRUCTIONS_MAX_CHARS: Final = 20_000
MODEL_MAX_CHARS: Final = 200
FALLBACKS_MAX: Final = 8


@dataclass(frozen=True, slots=True)
class Configuration:
    """What an operator decides about an agent. An empty ``model`` means the deployment's, with its fallbacks.

    ``tools`` are the switches that are on, of TOOL_SWITCHES.
    """

    name: str
    instructions: str = field(default="", repr=False)
    model: str = ""
    fallback_models: tuple[str, ...] = ()
    tools: frozenset[str] = frozenset(TOOL_SWITCHES)


@dataclass(frozen=True, slots=True)
class AgentVersion:
    """One version of one agent."""

    agent_id: str
    version: int
    configuration: Configuration
    is_default: bool
    created_at: datetime
    agent_created_at: datetime


def load_configuration(connection: Connection, agent_id: str, version: int | None = None) -> AgentVersion:
    """A version of an agent, the current one by default. Raises ``AgentNotFound``."""
    wanted = agents.c.current_version if version is None else version
    row = connection.execute(_VERSIONS.where(agents.c.id == agent_id, agent_versions.c.version == wanted)).first()
    if row is None:
        raise AgentNotFound
    return _version(row)


def find_agent(connection: Connection, organization_id: str, agent_id: str) -> AgentVersion:
    """An agent of this organization in its current version. Raises ``AgentNotFound``."""
    row = connection.execute(
        _CURRENT.where(agents.c.organization_id == organization_id, agents.c.id == agent_id)
    ).first()
    if row is None:
        raise AgentNotFound
    return _version(row)


def list_agents(
    connection: Connection, organization_id: str, *, limit: int = 100, after: str = ""
) -> tuple[AgentVersion, ...]:
    """The organization's agents in their current versions: the default one first, then in the order they were made.

    ``after`` is the id of the last one that was listed before.
    """
    place = sa.tuple_(sa.not_(agents.c.is_default), agents.c.created_at, agents.c.id)
    wanted = _CURRENT.where(agents.c.organization_id == organization_id)
    if after:
        last = agents.alias("last")
        before = sa.select(sa.not_(last.c.is_default), last.c.created_at, last.c.id).where(
            last.c.id == after, last.c.organization_id == organization_id
        )
        wanted = wanted.where(place > before.scalar_subquery())
    rows = connection.execute(
        wanted.order_by(sa.not_(agents.c.is_default), agents.c.created_at, agents.c.id).limit(limit)
    )
    return tuple(_version(row) for row in rows)


def list_versions(
    connection: Connection, organization_id: str, agent_id: str, *, limit: int = 100, before: int | None = None
) -> tuple[AgentVersion, ...]:
    """An agent's versions, newest first, those below ``before``. Raises ``AgentNotFound``."""
    find_agent(connection, organization_id, agent_id)
    older = [agent_versions.c.version < before] if before is not None else []
    rows = connection.execute(
        _VERSIONS.where(agents.c.id == agent_id, *older).order_by(agent_versions.c.version.desc()).limit(limit)
    )
    return tuple(_version(row) for row in rows)


def create_agent(unit: Unit, organization_id: str, configuration: Configuration) -> AgentVersion:
    """A new agent, version 1."""
    agent_id = new_id("agt")
    unit.connection.execute(
        sa.insert(agents).values(id=agent_id, organization_id=organization_id, name=configuration.name)
    )
    _insert_version(unit, agent_id, 1, configuration)
    return find_agent(unit.connection, organization_id, agent_id)


def change_agent(
    unit: Unit, organization_id: str, agent_id: str, changes: Mapping[str, Any]
) -> tuple[AgentVersion, AgentVersion]:
    """A new version with some fields of ``Configuration`` changed; the same version when nothing changes.

    Returns the version before and the one after. Two changes at once take turns: each is made of the version before
    it. Raises ``AgentNotFound``.
    """
    this = sa.and_(agents.c.id == agent_id, agents.c.organization_id == organization_id)
    unit.connection.execute(sa.select(agents.c.id).where(this).with_for_update(key_share=True))
    current = find_agent(unit.connection, organization_id, agent_id)
    wanted = replace(current.configuration, **changes)
    if wanted == current.configuration:
        return current, current
    version = current.version + 1
    _insert_version(unit, agent_id, version, wanted)
    unit.connection.execute(sa.update(agents).where(this).values(current_version=version, name=wanted.name))
    return current, find_agent(unit.connection, organization_id, agent_id)


def changed_fields(before: Configuration, after: Configuration) -> Sequence[str]:
    """The names of the fields that differ, in the order of the configuration."""
    return [name for name in Configuration.__dataclass_fields__ if getattr(before, name) != getattr(after, name)]


_VERSIONS: Final = sa.select(
    agent_versions,
    agents.c.is_default,
    agents.c.name.label("agent_name"),
    agents.c.created_at.label("agent_created_at"),
).join(agents, agents.c.id == agent_versions.c.agent_id)
_CURRENT: Final = _VERSIONS.where(agent_versions.c.version == agents.c.current_version)


def _insert_version(unit: Unit, agent_id: str, version: int, configuration: Configuration) -> None:
    unit.connection.execute(
        sa.insert(agent_versions).values(
            agent_id=agent_id,
            version=version,
            name=configuration.name,
            instructions=configuration.instructions,
            model=configuration.model,
            fallback_models=list(configuration.fallback_models),
            tools={name: name in configuration.tools for name in TOOL_SWITCHES},
        )
    )


def _version(row: Record) -> AgentVersion:
    return AgentVersion(
        agent_id=row.agent_id,
        version=row.version,
        configuration=Configuration(
            name=row.name or row.agent_name,  # a release that knew no names of versions left it empty
            instructions=row.instructions,
            model=row.model,
            fallback_models=tuple(row.fallback_models),
            tools=frozenset(name for name in TOOL_SWITCHES if row.tools.get(name, True)),
        ),
        is_default=row.is_default,
        created_at=row.created_at,
        agent_created_at=row.agent_created_at,
    )
