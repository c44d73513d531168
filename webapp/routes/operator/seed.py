"""Seeding by page: the first entries of somebody's memory, before their first word. Once, and whole or not at all."""

from collections.abc import Mapping

import anyio
from starlette.datastructures import FormData
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from agent.configuration import list_agents
from agent.subjects import find_owner_id
from memory_core.database.transaction import Unit, transaction
from memory_core.document import Target
from memory_core.errors import AlreadyInitialized, OperationRefused
from memory_core.owner import Owner
from memory_core.seeding import seed_memory
from webapp.audit import Action
from webapp.auth.person import Person, require_operator
from webapp.operator_pages import words
from webapp.operator_pages.frame import auditor, operator_page
from webapp.operator_pages.log import AGENTS_MAX
from webapp.operator_pages.seeding import (
    FIELDS,
    Fault,
    Line,
    SeedView,
    document_field,
    entries_of,
    field_fault,
    find_faults,
)
from webapp.presenting import agent_choices
from webapp.routes.forms import text
from webapp.services import Services, services_of


async def page(request: Request) -> Response:
    """The empty form; ``?agent=`` and ``?subject=`` fill in whom it is for."""
    query = request.query_params
    given = FormData([("agent", query.get("agent", "")), ("subject", query.get("subject", ""))])
    return await _page(request, await require_operator(request), given)


async def create(request: Request) -> Response:
    """Seed. What is refused comes back with what was typed: 409 for who has begun already, 422 with every fault."""
    operator, services = await require_operator(request), services_of(request)
    form = await request.form()
    entries = {target: entries_of(text(form, name)) for target, name in FIELDS.items()}
    owner, faults = await _owner(services, form)
    if owner is None:
        return await _page(request, operator, form, faults=faults, status=422)
    try:
        owner_id, line = await _seed(services, operator, owner, entries)
    except AlreadyInitialized:
        return await _page(request, operator, form, begun=owner, status=409)
    except OperationRefused as refusal:
        faults = await anyio.to_thread.run_sync(find_faults, entries, refusal)
        return await _page(request, operator, form, faults=faults, status=422)
    return RedirectResponse(f"/operator/subjects/{owner_id}?done={line or ''}", status_code=303)


async def _seed(
    services: Services, operator: Person, owner: Owner, entries: Mapping[Target, tuple[Line, ...]]
) -> tuple[str, int]:
    def work(unit: Unit) -> tuple[str, int]:
        texts = {target: [line.text for line in lines] for target, lines in entries.items()}
        after, connection, owner_id = seed_memory(unit, texts).after, unit.connection, unit.locked_owner.id
        line = auditor(services, operator).record(
            connection,
            Action.MEMORY_SEEDED,
            agent_id=owner.agent_id,
            owner_id=owner_id,
            **{str(target): len(after.of(target)) for target in Target},
        )
        return owner_id, line

    return await services.workers.run(lambda: transaction(services.engine, work, owner=owner, create_owner=True))


async def _owner(services: Services, form: FormData) -> tuple[Owner | None, tuple[Fault, ...]]:
    """Whom the form means, or what is wrong with that."""
    organization_id, agent_id = services.organization.id, text(form, "agent")
    agents = await services.read(lambda connection: list_agents(connection, organization_id, limit=AGENTS_MAX))
    faults = []
    if all(agent.agent_id != agent_id for agent in agents):
        faults.append(field_fault("agent", "Agent", words.AGENT_GONE))
    try:
        owner = Owner(organization_id, agent_id, text(form, "subject").strip())
    except ValueError:
        faults.append(field_fault("subject", "Subject", words.SUBJECT_MISSING))
    return (None, tuple(faults)) if faults else (owner, ())


async def _page(
    request: Request,
    operator: Person,
    form: FormData,
    *,
    faults: tuple[Fault, ...] = (),
    begun: Owner | None = None,
    status: int = 200,
) -> Response:
    services = services_of(request)
    organization_id, chosen = services.organization.id, text(form, "agent")
    agents = await services.read(lambda connection: list_agents(connection, organization_id, limit=AGENTS_MAX))
    begun_id = None
    if begun is not None:
        wanted = begun
        begun_id = await services.read(
            lambda connection: find_owner_id(connection, organization_id, wanted.agent_id, wanted.subject)
        )
    view = SeedView(
        agents=agent_choices(agents, chosen),
        subject=text(form, "subject"),
        documents=tuple(document_field(target, text(form, name), faults) for target, name in FIELDS.items()),
        faults=faults,
        begun=begun is not None,
        begun_id=begun_id or "",
        rests=not services.settings.memory_enabled,
    )
    return await operator_page(request, operator, "seed", {"seed": view}, tab="/operator/seed", status=status)
