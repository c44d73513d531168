"""An agent's configuration as it is stored: versioned, never changed once written. SQL of ``agents`` and
``agent_versions``.
"""

from dataclasses import dataclass, field

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from agent.errors import AgentNotFound
from memory_core.database.tables import agent_versions, agents


@dataclass(frozen=True, slots=True)
class AgentConfiguration:
    """One version of one agent. An empty ``model`` means the deployment's; ``tools`` are the switches that are on."""

    agent_id: str
    version: int
    name: str
    instructions: str = field(repr=False)
    model: str
    fallback_models: tuple[str, ...]
    tools: frozenset[str]


def load_configuration(connection: Connection, agent_id: str, version: int | None = None) -> AgentConfiguration:
    """A version of an agent, the current one by default. Raises ``AgentNotFound``."""
    row = connection.execute(
        sa.select(agents.c.name, agent_versions)
        .join(agent_versions, agent_versions.c.agent_id == agents.c.id)
        .where(agents.c.id == agent_id, agent_versions.c.version == (version or agents.c.current_version))
    ).first()
    if row is None:
        raise AgentNotFound
    return AgentConfiguration(
        agent_id=row.agent_id,
        version=row.version,
        name=row.name,
        instructions=row.instructions,
        model=row.model,
        fallback_models=tuple(row.fallback_models),
        tools=frozenset(name for name, on in row.tools.items() if on),
    )
