"""The organization a deployment serves: its row, the issuer it belongs to, and its default agent.

A subject means something only together with its issuer. The organization remembers whose subjects it knows, so that a
changed setting can never hand one person's memory to a namesake at another provider.
"""

import secrets
from dataclasses import dataclass

import sqlalchemy as sa
from sqlalchemy import Connection
from sqlalchemy.dialects import postgresql as pg

from memory_core.database.tables import agent_versions, agents, organizations
from memory_core.ids import new_id
from webapp.errors import OrganizationMoved

LOCAL_ISSUER = "local"
DEFAULT_AGENT_NAME = "Remembrancer"
_DIGEST_KEY_BYTES = 32


@dataclass(frozen=True, slots=True)
class Organization:
    """The organization that this process serves."""

    id: str
    slug: str
    default_agent_id: str


def ensure_organization(connection: Connection, slug: str, issuer: str | None) -> Organization:
    """The organization `slug` with its default agent, made if absent, also by two processes at once.

    `issuer` is the identity provider's own name, or LOCAL_ISSUER for the development provider, whose port may change;
    None for a command that signs nobody in.
    Raises OrganizationMoved if the organization belongs to another one; nothing is changed then.
    """
    connection.execute(
        pg.insert(organizations)
        .values(id=new_id("org"), slug=slug, issuer=issuer, digest_key=secrets.token_bytes(_DIGEST_KEY_BYTES))
        .on_conflict_do_nothing(index_elements=[organizations.c.slug])
    )
    # One made without an issuer (by a command that knows none) belongs to the first that comes.
    connection.execute(
        sa.update(organizations)
        .where(organizations.c.slug == slug, organizations.c.issuer.is_(None))
        .values(issuer=issuer)
    )
    row = connection.execute(
        sa.select(organizations.c.id, organizations.c.issuer).where(organizations.c.slug == slug)
    ).one()
    if issuer is not None and row.issuer != issuer:
        raise OrganizationMoved(
            f"organization {slug} belongs to the issuer {row.issuer}, and REMEMBRANCER_OIDC_ISSUER is {issuer}: "
            "equal names there would be other people. Restore the setting, or set another REMEMBRANCER_ORGANIZATION"
        )
    return Organization(row.id, slug, _ensure_default_agent(connection, row.id))


def _ensure_default_agent(connection: Connection, organization_id: str) -> str:
    connection.execute(
        pg.insert(agents)
        .values(id=new_id("agt"), organization_id=organization_id, name=DEFAULT_AGENT_NAME, is_default=True)
        .on_conflict_do_nothing(index_elements=[agents.c.organization_id], index_where=agents.c.is_default)
    )
    agent_id: str = connection.execute(
        sa.select(agents.c.id).where(agents.c.organization_id == organization_id, agents.c.is_default)
    ).scalar_one()
    connection.execute(
        pg.insert(agent_versions).values(agent_id=agent_id, version=1, name=DEFAULT_AGENT_NAME).on_conflict_do_nothing()
    )
    return agent_id
