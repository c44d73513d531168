"""What the routes need, built once in ``app.py`` and found as ``request.app.state.services``."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

from sqlalchemy.engine import Connection, Engine
from starlette.requests import Request

from agent.process import Process
from agent.proof import hold_proof
from agent.running import RunningTurns
from agent.runtime import AgentRuntime
from agent.transcript import storable
from memory_core.database.transaction import Unit, transaction
from memory_core.database.worker import Workers
from memory_core.owner import Owner
from webapp.auth.organization import Organization
from webapp.auth.person import Person
from webapp.settings import Settings

T = TypeVar("T")


@dataclass(frozen=True, kw_only=True)
class Services:
    """One process's collaborators."""

    settings: Settings
    engine: Engine
    workers: Workers
    organization: Organization
    agents: AgentRuntime
    running: RunningTurns
    process: Process

    def owner(self, person: Person, agent_id: str = "") -> Owner:
        """The person as the owner of memory: organization, agent (the default one, or the one that is named), and the
        subject exactly as sign-in proved it. An agent that is not this organization's knows nobody.
        """
        return Owner(self.organization.id, storable(agent_id) or self.organization.default_agent_id, person.subject)

    async def read(self, work: Callable[[Connection], T]) -> T:
        """Run a few reads as one transaction, in a worker thread. Raises StorageFailed."""
        return await self.workers.run(lambda: transaction(self.engine, lambda unit: work(unit.connection)))

    async def write(
        self, owner: Owner, work: Callable[[Unit], T], *, session_id: str | None = None, api_key_id: str | None = None
    ) -> T:
        """Run a change under the owner's lock. Raises what the work raises, OwnerGone and StorageFailed; then
        nothing changed. With what proved them, an owner who is not there yet is made, unless they have been erased,
        signed out or revoked meanwhile (SessionEnded).
        """

        def proved(unit: Unit) -> T:
            hold_proof(unit, session_id=session_id, api_key_id=api_key_id)
            return work(unit)

        creates = session_id is not None or api_key_id is not None
        return await self.workers.run(lambda: transaction(self.engine, proved, owner=owner, create_owner=creates))

    async def change(self, work: Callable[[Unit], T]) -> T:
        """Run a change that concerns no owner's memory, as one transaction. Raises what the work raises."""
        return await self.workers.run(lambda: transaction(self.engine, work))


def services_of(request: Request) -> Services:
    services: Services = request.app.state.services
    return services
