"""Messages of a session and the turns that answer them, for programs: as a stream of events, or as one answer."""

from starlette.requests import Request
from starlette.responses import Response

from agent.begin import TurnRequest
from agent.errors import MessageRefused, TurnInProgress, TurnRepeated
from agent.sessions import Session, SessionTurn, find_session, find_session_turn
from memory_core.ids import new_id
from webapp.api.call import Call, reply
from webapp.api.events import TurnTale, stored_frames, turn_result, turn_view
from webapp.api.inputs import SendMessage
from webapp.api.outputs import TurnResult, TurnView
from webapp.api.table import ApiRoute
from webapp.auth.api_keys import Scope
from webapp.errors import Problem, RequestInvalid
from webapp.turn_stream import TurnStream, wait_until_ended

KEY_HEADER = "Idempotency-Key"
KEY_HOURS = 24
MAX_KEY_CHARS = 255
_EVENT_STREAM = "text/event-stream"


async def create(call: Call) -> Response:
    """One POST, one turn. A caller who goes away ends it, streamed or not."""
    services, session_id = call.services, call.ids["sessionId"]
    session = await services.read(lambda connection: find_session(connection, call.organization_id, session_id))
    request = _turn_request(call, session)
    try:
        running = await services.running.open(request)
    except TurnRepeated as earlier:
        return await _told_again(call, earlier.turn_id)
    tale = TurnTale(services, running)
    if _wants_stream(call.request):
        return TurnStream(running, tale.frames())
    await wait_until_ended(running, call.request.receive)
    return reply(await tale.result())


async def show(call: Call) -> Response:
    return reply(turn_view(await _find(call, call.ids["turnId"])))


async def _told_again(call: Call, turn_id: str) -> Response:
    """The outcome of the turn that this key has had already. Raises TurnInProgress while it runs."""
    turn = await _find(call, turn_id)
    if turn.record.is_running:
        raise TurnInProgress
    if _wants_stream(call.request):
        return Response(stored_frames(turn), media_type=_EVENT_STREAM)
    return reply(turn_result(turn))


async def _find(call: Call, turn_id: str) -> SessionTurn:
    return await call.services.read(lambda connection: find_session_turn(connection, call.organization_id, turn_id))


def _turn_request(call: Call, session: Session) -> TurnRequest:
    """Raises MessageRefused and RequestInvalid."""
    body: SendMessage = call.body
    settings = call.services.settings
    if len(body.content) > settings.message_chars:
        raise MessageRefused("too_long", settings.message_chars, len(body.content))
    key = _idempotency_key(call.request)
    return TurnRequest(
        owner=session.owner,
        message=body.content,
        # A key is a session's own; a header holds no line break, so the two cannot run into each other.
        key=new_id("key") if key is None else f"{session.id}\n{key}",
        key_hours=KEY_HOURS,
        process_id=call.services.process.id,
        policy_version=call.services.agents.policy_version,
        memory_enabled=settings.memory_enabled,
        conversation_id=session.id,
        api_key_id=call.key.id,
        turns_at_once=settings.streams_per_subject,
        history_tokens=settings.history_tokens,
    )


def _idempotency_key(request: Request) -> str | None:
    """Raises RequestInvalid for one that is empty, too long, not in printable ASCII, or not alone."""
    sent = request.headers.getlist(KEY_HEADER)
    if not sent:
        return None
    key = sent[0]
    if len(sent) > 1 or not (0 < len(key) <= MAX_KEY_CHARS and key.isascii() and key.isprintable()):
        fits = f"must come once, with 1 to {MAX_KEY_CHARS} printable ASCII characters"
        raise RequestInvalid(Problem(KEY_HEADER, "key_invalid", fits))
    return key


def _wants_stream(request: Request) -> bool:
    return _EVENT_STREAM in request.headers.get("accept", "").lower()


ROUTES = (
    ApiRoute(
        method="POST",
        path="/v1/sessions/{sessionId}/messages",
        handler=create,
        scope=Scope.SESSIONS,
        summary="Send a message",
        about="Answers with a stream of events for `Accept: text/event-stream`, else with one JSON object when the "
        "turn has ended: 200 whatever its outcome. A caller who closes the connection ends the turn, and nothing of it "
        "is saved to memory. `Idempotency-Key`, for 24 hours in one session: the same body again gets 409 while the "
        "turn runs and afterwards its outcome, also if it was stopped or failed (as a stream: `turn.started`, one "
        "`message.delta`, `turn.ended`); another body gets 422. It never runs twice.",
        takes=SendMessage,
        gives={200: TurnResult},
        refuses=(409,),
        streams=True,
    ),
    ApiRoute(
        method="GET",
        path="/v1/turns/{turnId}",
        handler=show,
        scope=Scope.SESSIONS,
        summary="Read a turn",
        about="As it stands; `outcome` is `running` until it has ended.",
        gives={200: TurnView},
    ),
)
