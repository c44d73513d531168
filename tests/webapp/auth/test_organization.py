"""The organization remembers whose subjects it knows."""

import re
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest
import sqlalchemy as sa
from sqlalchemy.engine import Engine

from memory_core.database.tables import agent_versions, agents, organizations
from memory_core.database.transaction import transaction
from webapp.auth.organization import LOCAL_ISSUER, Organization, ensure_organization
from webapp.errors import OrganizationMoved

pytestmark = pytest.mark.postgres
ISSUER = "https://id.example.org/realms/one"


def ensure(engine: Engine, slug: str = "default", issuer: str = ISSUER) -> Organization:
    return transaction(engine, lambda unit: ensure_organization(unit.connection, slug, issuer))


def counts(engine: Engine) -> list[int]:
    with engine.connect() as connection:
        return [
            connection.execute(sa.select(sa.func.count()).select_from(table)).scalar_one()
            for table in (organizations, agents, agent_versions)
        ]


def test_the_first_start_makes_the_organization_and_its_default_agent(engine: Engine) -> None:
    """A random key for digests, an agent called Remembrancer, version 1, with its memory tool on."""
    made = ensure(engine)
    with engine.connect() as connection:
        organization = connection.execute(sa.select(organizations)).one()
        agent = connection.execute(sa.select(agents)).one()
        version = connection.execute(sa.select(agent_versions)).one()

    assert made == Organization(organization.id, "default", agent.id)
    assert (organization.issuer, len(organization.digest_key)) == (ISSUER, 32)
    assert (agent.name, agent.is_default, agent.current_version) == ("Remembrancer", True, 1)
    assert (version.agent_id, version.version, version.tools) == (agent.id, 1, {"memory": True})


def test_the_next_start_finds_it(engine: Engine) -> None:
    """Nothing is made twice."""
    assert ensure(engine) == ensure(engine)
    assert counts(engine) == [1, 1, 1]


@pytest.mark.invariant("I25")
def test_another_issuer_is_refused_and_changes_nothing(engine: Engine) -> None:
    """The same subject at another provider would be another person; the error says what to do."""
    ensure(engine)
    with pytest.raises(OrganizationMoved, match=re.escape(f"belongs to the issuer {ISSUER}")):
        ensure(engine, issuer="https://id.example.org/realms/two")
    assert ensure(engine).slug == "default"
    assert counts(engine) == [1, 1, 1]


def test_local_and_real_people_do_not_mix(engine: Engine) -> None:
    """What was tried out with the local provider is not taken over by a real one's namesakes."""
    ensure(engine, issuer=LOCAL_ISSUER)
    with pytest.raises(OrganizationMoved):
        ensure(engine)
    assert ensure(engine, slug="real").slug == "real"


def test_an_organization_without_an_issuer_takes_the_first(engine: Engine) -> None:
    """One made by a command that knows no issuer belongs to the first that comes, and to no second."""
    ensure(engine)
    with engine.begin() as connection:
        connection.execute(sa.update(organizations).values(issuer=None))
    ensure(engine, issuer=LOCAL_ISSUER)
    with pytest.raises(OrganizationMoved):
        ensure(engine)


def test_many_processes_that_start_at_once_make_one(engine: Engine) -> None:
    """All of them find the same organization and agent."""
    together = threading.Barrier(6)

    def start(_: int) -> Organization:
        together.wait(10)
        return ensure(engine)

    with ThreadPoolExecutor(6) as pool:
        found = set(pool.map(start, range(6)))
    assert len(found) == 1
    assert counts(engine) == [1, 1, 1]
