"""Agents: their list, a new one, a change (which makes a version), and what a version changed."""

from collections.abc import Mapping
from typing import Any

import anyio
from sqlalchemy.engine import Connection
from starlette.datastructures import FormData
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from agent.configuration import (
    AgentVersion,
    Configuration,
    change_agent,
    changed_fields,
    create_agent,
    find_agent,
    list_agents,
    list_versions,
    load_configuration,
)
from agent.transcript import storable
from memory_core.database.transaction import Unit
from webapp.audit import Action
from webapp.auth.person import Person, require_operator
from webapp.operator_pages.agents import AgentForm, agent_view, diff_of, form_of, read_agent_form, version_views
from webapp.operator_pages.frame import auditor, operator_page
from webapp.operator_pages.log import AGENTS_MAX
from webapp.routes.forms import text
from webapp.services import services_of

TAB = "/operator/agents"
PAGE_VERSIONS = 20


class _ChangedSince(Exception):
    """Somebody else made a version in the meantime; nothing was changed."""


async def page(request: Request) -> Response:
    """Every agent, in its current version."""
    operator, services = await require_operator(request), services_of(request)
    agents = await services.read(lambda connection: list_agents(connection, services.organization.id, limit=AGENTS_MAX))
    return await operator_page(request, operator, "agents", {"agents": list(map(agent_view, agents))}, tab=TAB)


async def new(request: Request) -> Response:
    """The form for a new agent."""
    return await _new(request, await require_operator(request), AgentForm())


async def create(request: Request) -> Response:
    """A new agent, version 1."""
    operator, services = await require_operator(request), services_of(request)
    form = _read(await request.form())
    if form.problems:
        return await _new(request, operator, form, status=422)

    def work(unit: Unit) -> tuple[str, int]:
        made = create_agent(unit, services.organization.id, Configuration(**form.changes()))
        noted = auditor(services, operator).record(
            unit.connection, Action.AGENT_CREATED, agent_id=made.agent_id, version=1
        )
        return made.agent_id, noted

    agent_id, line = await services.change(work)
    return RedirectResponse(f"{TAB}/{agent_id}?done={line}", status_code=303)


async def show(request: Request) -> Response:
    """An agent: its form and its versions. ``?before=`` is the version that the list ends before."""
    return await _agent(request, await require_operator(request), None)


async def change(request: Request) -> Response:
    """A new version, made of the one that the form shows; nothing happens where nothing changes."""
    operator, services = await require_operator(request), services_of(request)
    organization_id, agent_id = services.organization.id, storable(request.path_params["agent"])
    form = _read(await request.form())
    if form.problems:
        return await _agent(request, operator, form, status=422)

    def work(unit: Unit) -> int | None:
        now = find_agent(unit.connection, organization_id, agent_id)
        changes: Mapping[str, Any] = form.changes(now.configuration.tools)
        before, after = change_agent(unit, organization_id, agent_id, changes)
        if after.version == before.version and before.version == form.version:
            return None
        if before.version != form.version or after.version != before.version + 1:
            raise _ChangedSince
        fields = list(changed_fields(before.configuration, after.configuration))
        return auditor(services, operator).record(
            unit.connection, Action.AGENT_CHANGED, agent_id=agent_id, version=after.version, fields=fields
        )

    try:
        line = await services.change(work)
    except _ChangedSince:
        return await _agent(request, operator, form, changed_since=True, status=409)
    if line is None:
        return await _agent(request, operator, None, unchanged=True)
    return RedirectResponse(f"{TAB}/{agent_id}?done={line}", status_code=303)


async def version(request: Request) -> Response:
    """A version beside the one before it, or beside the one that ``?with=`` names."""
    operator, services = await require_operator(request), services_of(request)
    organization_id, agent_id = services.organization.id, storable(request.path_params["agent"])
    number = _version_number(str(request.path_params["version"]), 0)
    other = _version_number(request.query_params.get("with", ""), number - 1)

    def read(connection: Connection) -> tuple[AgentVersion, AgentVersion, AgentVersion | None]:
        current = find_agent(connection, organization_id, agent_id)
        shown = load_configuration(connection, agent_id, number)
        return current, shown, load_configuration(connection, agent_id, other) if other else None

    current, shown, before = await services.read(read)
    earlier = before.configuration if before is not None else None
    diffs = await anyio.to_thread.run_sync(diff_of, earlier, shown.configuration)
    view = {
        "agent": agent_view(current),
        "number": number,
        "at": shown.created_at,
        "other": other,
        "versions": range(current.version, 0, -1)[:200],
        "diffs": diffs,
    }
    return await operator_page(request, operator, "version", view, tab=TAB)


async def _new(request: Request, operator: Person, form: AgentForm, *, status: int = 200) -> Response:
    return await operator_page(request, operator, "agent_new", {"form": form}, tab=TAB, status=status)


async def _agent(
    request: Request,
    operator: Person,
    form: AgentForm | None,
    *,
    changed_since: bool = False,
    unchanged: bool = False,
    status: int = 200,
) -> Response:
    services = services_of(request)
    organization_id, agent_id = services.organization.id, storable(request.path_params["agent"])
    before = _version_number(request.query_params.get("before", ""), 0) or None

    def read(connection: Connection) -> tuple[AgentVersion, tuple[AgentVersion, ...]]:
        current = find_agent(connection, organization_id, agent_id)
        limit = PAGE_VERSIONS + 1
        return current, list_versions(connection, organization_id, agent_id, limit=limit, before=before)

    agent, versions = await services.read(read)
    view = {
        "agent": agent_view(agent),
        "form": form or form_of(agent),
        "versions": version_views(versions, PAGE_VERSIONS, agent.version),
        "older": versions[PAGE_VERSIONS - 1].version if len(versions) > PAGE_VERSIONS else 0,
        "changed_since": changed_since,
        "unchanged": unchanged,
    }
    return await operator_page(request, operator, "agent", view, tab=TAB, status=status)


def _read(form: FormData) -> AgentForm:
    fields = {name: text(form, name) for name in ("name", "instructions", "model", "fallback_models", "memory")}
    return read_agent_form(fields, _version_number(text(form, "version"), 0))


def _version_number(text: str, otherwise: int) -> int:
    """A version's number as an address or a form brings it."""
    return int(text) if text.isascii() and text.isdigit() and len(text) < 9 else otherwise
