"""Agents and their versions, for programs."""

from typing import Any

from starlette.responses import Response

from agent.configuration import (
    TOOL_SWITCHES,
    AgentVersion,
    Configuration,
    change_agent,
    changed_fields,
    create_agent,
    find_agent,
    list_agents,
    list_versions,
)
from agent.transcript import storable
from memory_core.database.transaction import Unit
from webapp.api.call import Call, reply
from webapp.api.inputs import ChangeAgent, CreateAgent, Toolset
from webapp.api.outputs import AgentToolset, AgentVersionView, AgentView, Page, ToolSwitch
from webapp.api.paging import page_of
from webapp.api.table import ApiRoute
from webapp.audit import Action
from webapp.auth.api_keys import Scope


async def create(call: Call) -> Response:
    body: CreateAgent = call.body
    configuration = Configuration(
        name=body.name,
        instructions=body.instructions,
        model=body.model,
        fallback_models=tuple(body.fallback_models),
        tools=_switched_on(body.tools),
    )

    def work(unit: Unit) -> AgentVersion:
        made = create_agent(unit, call.organization_id, configuration)
        call.auditor.record(unit.connection, Action.AGENT_CREATED, agent_id=made.agent_id, version=made.version)
        return made

    return reply(_agent(await call.services.change(work)), 201)


async def index(call: Call) -> Response:
    after = call.window.after("agents") or ""
    found = await call.services.read(
        lambda connection: list_agents(
            connection, call.organization_id, limit=call.window.one_more, after=storable(after)
        )
    )
    return reply(page_of("agents", call.window, found, _agent, lambda agent: agent.agent_id))


async def show(call: Call) -> Response:
    agent_id = storable(call.ids["agentId"])
    return reply(
        _agent(await call.services.read(lambda connection: find_agent(connection, call.organization_id, agent_id)))
    )


async def change(call: Call) -> Response:
    changes, agent_id = _changes(call.body), storable(call.ids["agentId"])

    def work(unit: Unit) -> AgentVersion:
        before, after = change_agent(unit, call.organization_id, agent_id, changes)
        if after.version != before.version:
            fields = list(changed_fields(before.configuration, after.configuration))
            call.auditor.record(
                unit.connection, Action.AGENT_CHANGED, agent_id=agent_id, version=after.version, fields=fields
            )
        return after

    return reply(_agent(await call.services.change(work)))


async def versions(call: Call) -> Response:
    before, agent_id = call.window.after_number("versions"), storable(call.ids["agentId"])
    found = await call.services.read(
        lambda connection: list_versions(
            connection, call.organization_id, agent_id, limit=call.window.one_more, before=before
        )
    )
    return reply(page_of("versions", call.window, found, _version, lambda version: str(version.version)))


def _changes(body: ChangeAgent) -> dict[str, Any]:
    """What was sent, as fields of a configuration."""
    sent = {name: getattr(body, name) for name in body.model_fields_set}
    if "fallback_models" in sent:
        sent["fallback_models"] = tuple(sent["fallback_models"])
    if "tools" in sent:
        sent["tools"] = _switched_on(sent["tools"])
    return sent


def _switched_on(toolset: Toolset) -> frozenset[str]:
    off = {config.name for config in toolset.configs if not config.enabled}
    return frozenset(TOOL_SWITCHES) - off


def _toolset(configuration: Configuration) -> AgentToolset:
    switches = [{"name": name, "enabled": name in configuration.tools} for name in TOOL_SWITCHES]
    return AgentToolset(configs=[ToolSwitch.model_validate(switch) for switch in switches])


def _configured(configuration: Configuration) -> dict[str, Any]:
    """A configuration as fields of a view."""
    return {
        "name": configuration.name,
        "instructions": configuration.instructions,
        "model": configuration.model,
        "fallback_models": list(configuration.fallback_models),
        "tools": _toolset(configuration),
    }


def _agent(agent: AgentVersion) -> AgentView:
    return AgentView(
        id=agent.agent_id,
        version=agent.version,
        is_default=agent.is_default,
        created_at=agent.agent_created_at,
        updated_at=agent.created_at,
        **_configured(agent.configuration),
    )


def _version(agent: AgentVersion) -> AgentVersionView:
    return AgentVersionView(
        agent_id=agent.agent_id,
        version=agent.version,
        created_at=agent.created_at,
        **_configured(agent.configuration),
    )


ROUTES = (
    ApiRoute(
        method="POST",
        path="/v1/agents",
        handler=create,
        scope=Scope.AGENTS,
        summary="Create an agent",
        about="An agent is versioned configuration. Switches of `tools` that are not named are on.",
        takes=CreateAgent,
        gives={201: AgentView},
    ),
    ApiRoute(
        method="GET",
        path="/v1/agents",
        handler=index,
        scope=Scope.AGENTS,
        summary="List agents",
        about="In their current versions: the default agent first, then in the order they were made.",
        gives={200: Page[AgentView]},
        is_list=True,
    ),
    ApiRoute(
        method="GET",
        path="/v1/agents/{agentId}",
        handler=show,
        scope=Scope.AGENTS,
        summary="Read an agent",
        gives={200: AgentView},
    ),
    ApiRoute(
        method="PATCH",
        path="/v1/agents/{agentId}",
        handler=change,
        scope=Scope.AGENTS,
        summary="Change an agent",
        about="Makes a new version; sessions that exist keep theirs. A field that is not sent stays, one that is sent "
        "is replaced whole: switches of `tools` that are not named are on. Changing nothing makes no version.",
        takes=ChangeAgent,
        gives={200: AgentView},
    ),
    ApiRoute(
        method="GET",
        path="/v1/agents/{agentId}/versions",
        handler=versions,
        scope=Scope.AGENTS,
        summary="List an agent's versions",
        about="The newest first.",
        gives={200: Page[AgentVersionView]},
        is_list=True,
    ),
)
