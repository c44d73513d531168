"""Whom each agent knows: sizes, counts and times, never words; and erasing somebody."""

from urllib.parse import urlencode

from sqlalchemy.engine import Connection
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from agent.configuration import AgentVersion, list_agents
from agent.erasure import erase as erase_owner
from agent.outcome import Outcome
from agent.subjects import Activity, Subject, find_subject, list_subjects, read_activity
from agent.transcript import storable
from memory_core.database.transaction import Unit
from memory_core.owner import Owner
from webapp.auth.person import Person, require_operator
from webapp.errors import NotFound
from webapp.operator_pages import words
from webapp.operator_pages.frame import auditor, operator_page
from webapp.operator_pages.log import AGENTS_MAX
from webapp.operator_pages.subjects import same_subject, subject_view
from webapp.presenting import agent_choices
from webapp.routes.forms import text
from webapp.services import Services, services_of

PAGE_ROWS = 50


async def page(request: Request) -> Response:
    """Those whom one agent knows, in the order of their subjects; ``?q=`` asks for those that begin so."""
    operator, services = await require_operator(request), services_of(request)
    query, organization = request.query_params, services.organization
    agent_id = storable(query.get("agent", "")) or organization.default_agent_id
    prefix, after = storable(query.get("q", "")).strip(), storable(query.get("after", ""))

    def read(connection: Connection) -> tuple[tuple[AgentVersion, ...], tuple[Subject, ...]]:
        found = list_subjects(connection, organization.id, agent_id, prefix=prefix, limit=PAGE_ROWS + 1, after=after)
        return list_agents(connection, organization.id, limit=AGENTS_MAX), found

    agents, found = await services.read(read)
    if all(agent.agent_id != agent_id for agent in agents):
        raise NotFound
    shown = found[:PAGE_ROWS]
    more = {"agent": agent_id, "q": prefix, "after": shown[-1].owner_id} if len(found) > PAGE_ROWS else {}
    view = {
        "agents": agent_choices(agents, agent_id),
        "subjects": [subject_view(subject) for subject in shown],
        "prefix": prefix,
        "is_first": not after,
        "agent_id": agent_id,
        "more": urlencode({name: value for name, value in more.items() if value}),
    }
    return await operator_page(request, operator, "subjects", view, tab="/operator/subjects")


async def show(request: Request) -> Response:
    """One subject in numbers."""
    return await _page(request, await require_operator(request))


async def erase(request: Request) -> Response:
    """Everything of one subject with one agent, gone for good. Their subject is typed to confirm it."""
    operator, services = await require_operator(request), services_of(request)
    subject, _ = await _find(request)
    form = await request.form()
    if not same_subject(text(form, "confirmation"), subject.subject):
        return await _page(request, operator, problem=words.ERASE_CONFIRM, status=422)
    line = await _erase(services, operator, subject)
    query = urlencode({"agent": subject.agent_id, "done": line or ""})
    return RedirectResponse(f"/operator/subjects?{query}", status_code=303)


async def _erase(services: Services, operator: Person, subject: Subject) -> int:
    owner = Owner(services.organization.id, subject.agent_id, subject.subject)
    lines: list[int] = []

    def record(unit: Unit) -> None:
        lines[:] = [auditor(services, operator).record_erasure(unit.connection, owner.agent_id, owner.subject)]

    for turn_id in await services.workers.run(lambda: erase_owner(services.engine, owner, record)):
        services.running.interrupt(turn_id, Outcome.STOPPED)
    return lines[0]


async def _find(request: Request) -> tuple[Subject, Activity]:
    services = services_of(request)
    organization_id, owner_id = services.organization.id, storable(request.path_params["owner"])

    def read(connection: Connection) -> tuple[Subject, Activity] | None:
        subject = find_subject(connection, organization_id, owner_id)
        return None if subject is None else (subject, read_activity(connection, organization_id, owner_id))

    found = await services.read(read)
    if found is None:
        raise NotFound
    return found


async def _page(request: Request, operator: Person, *, problem: str = "", status: int = 200) -> Response:
    view = {"subject": subject_view(*await _find(request)), "problem": problem}
    return await operator_page(request, operator, "subject", view, tab="/operator/subjects", status=status)
