"""Evaluations, for programs: an agent's answer without anybody's memory, identity or tools."""

import anyio
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response

from agent.configuration import find_agent
from agent.conversation import Limits
from agent.errors import MessageRefused
from agent.evaluation import Evaluated, evaluate
from agent.runtime import Agent
from agent.transcript import storable
from webapp.api.call import Call, reply
from webapp.api.inputs import Evaluate
from webapp.api.outputs import Evaluation
from webapp.api.table import ApiRoute
from webapp.auth.api_keys import Scope


async def create(call: Call) -> Response:
    body: Evaluate = call.body
    services, settings = call.services, call.services.settings
    for message in body.messages:
        if len(message.content) > settings.message_chars:
            raise MessageRefused("too_long", settings.message_chars, len(message.content))
    agent_id = storable(body.agent_id)
    found = await services.read(lambda connection: find_agent(connection, call.organization_id, agent_id))
    agent = await services.agents.memory_free(found.agent_id, found.version)
    messages = [{"role": message.role, "content": message.content} for message in body.messages]
    limits = Limits(settings.turn_seconds, settings.tool_rounds)
    with call.door.one_answer_more(call.key, settings.streams_per_subject):
        answer = await _while_somebody_waits(call.request, agent, messages, limits)
    return reply(Evaluation.model_validate(answer, from_attributes=True))


async def _while_somebody_waits(
    request: Request, agent: Agent, messages: list[dict[str, str]], limits: Limits
) -> Evaluated:
    """Ask the model, and stop asking when the caller goes away (ClientDisconnect)."""
    answer: Evaluated | None = None
    failure: Exception | None = None

    async def watch() -> None:
        while (await request.receive())["type"] != "http.disconnect":
            pass
        waiting.cancel_scope.cancel()

    async with anyio.create_task_group() as waiting:
        waiting.start_soon(watch)
        try:
            answer = await evaluate(agent, messages, limits)
        except Exception as error:  # noqa: BLE001 - carried out of the group as it is, which would wrap it
            failure = error
        waiting.cancel_scope.cancel()
    if failure is not None:
        raise failure
    if answer is None:
        raise ClientDisconnect
    return answer


ROUTES = (
    ApiRoute(
        method="POST",
        path="/v1/evaluations",
        handler=create,
        scope=Scope.AGENTS,
        summary="Ask the memory-free agent",
        about="For trying an agent's instructions. It knows nobody: no memory, no identity, no tools. Nothing is "
        "stored. A body that names a subject or brings memory is refused. Closing the connection ends the answer.",
        takes=Evaluate,
        gives={200: Evaluation},
        refuses=(404,),
    ),
)
