"""A call of the API as its handler meets it: let in, its path taken apart, its body judged."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, TypeVar

from pydantic import BaseModel
from starlette.requests import Request
from starlette.responses import Response

from agent.configuration import find_agent
from agent.transcript import storable
from memory_core.database.transaction import Unit
from memory_core.owner import Owner
from webapp.api.access import Doorkeeper, auditor_of
from webapp.api.paging import Window
from webapp.audit import Auditor
from webapp.auth.api_keys import ApiKey
from webapp.errors import Problem, RequestInvalid
from webapp.services import Services

T = TypeVar("T")


@dataclass(frozen=True)
class Call:
    """``ids`` are the names of the path, decoded. ``body`` is an instance of what the route takes."""

    request: Request
    services: Services
    door: Doorkeeper
    key: ApiKey
    ids: Mapping[str, str] = field(repr=False)
    query: Mapping[str, str] = field(repr=False)
    window: Window
    body: Any = field(repr=False)

    @property
    def organization_id(self) -> str:
        return self.services.organization.id

    @cached_property
    def auditor(self) -> Auditor:
        return auditor_of(self.key)

    async def owner(self) -> Owner:
        """The agent and the subject of the path as an owner. Raises AgentNotFound, and RequestInvalid for a subject
        that nobody can have.
        """
        subject = subject_of(self.ids["subjectId"], "subjectId")
        return await self.owner_with(self.ids["agentId"], subject)

    async def owner_with(self, agent_id: str, subject: str) -> Owner:
        """An owner with an agent of this organization. Raises AgentNotFound."""
        organization_id = self.organization_id
        found = await self.services.read(lambda connection: find_agent(connection, organization_id, storable(agent_id)))
        return Owner(organization_id, found.agent_id, subject)

    async def create_for(self, owner: Owner, work: Callable[[Unit], T]) -> T:
        """Run a change under the owner's lock; an owner who is not there yet is made. Raises what the work raises: then
        nothing changed, and nobody was made.
        """
        return await self.services.write(owner, work, api_key_id=self.key.id)


def subject_of(text: str, path: str) -> str:
    """The text as a subject. Raises RequestInvalid, which names ``path``."""
    try:
        return Owner("", "", text).subject
    except ValueError as error:
        problem = Problem(path, "subject_invalid", str(error))
    raise RequestInvalid(problem)


def reply(body: BaseModel, status: int = 200) -> Response:
    """A model as the response."""
    return Response(body.model_dump_json(by_alias=True), status, media_type="application/json")
