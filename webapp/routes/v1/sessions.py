"""Sessions, for programs: in the browser the same things are chats."""

from functools import partial

from starlette.responses import Response

from agent.discard import stop_conversation
from agent.outcome import Outcome
from agent.sessions import (
    Session,
    SessionMessage,
    delete_session,
    find_session,
    list_session_messages,
    list_sessions,
    open_session,
    rename_session,
)
from memory_core.database.transaction import Unit
from webapp.api.call import Call, reply, subject_of
from webapp.api.inputs import ChangeSession, CreateSession
from webapp.api.outputs import Cancellation, MessageView, Page, SessionView
from webapp.api.paging import page_of
from webapp.api.table import ApiRoute
from webapp.audit import Action
from webapp.auth.api_keys import Scope


async def create(call: Call) -> Response:
    body: CreateSession = call.body
    owner = await call.owner_with(body.agent_id, body.subject_id)
    return reply(_session(await call.create_for(owner, open_session)), 201)


async def index(call: Call) -> Response:
    after = call.window.after_moment("sessions")
    subject = call.query.get("subjectId")
    found = await call.services.read(
        partial(
            list_sessions,
            organization_id=call.organization_id,
            agent_id=call.query.get("agentId"),
            subject=None if subject is None else subject_of(subject, "subjectId"),
            limit=call.window.one_more,
            after=after,
        )
    )
    place = page_of("sessions", call.window, found, _session, lambda row: f"{row.created_at.isoformat()} {row.id}")
    return reply(place)


async def show(call: Call) -> Response:
    return reply(_session(await _find(call)))


async def change(call: Call) -> Response:
    body: ChangeSession = call.body
    session = await _find(call)
    return reply(
        _session(
            await call.services.write(
                session.owner, lambda unit: rename_session(unit, call.organization_id, session.id, body.title)
            )
        )
    )


async def delete(call: Call) -> Response:
    session = await _find(call)
    await _stop(call, session.id)
    # Another turn may have begun meanwhile: it goes with the rest, and whoever runs it is told.

    def work(unit: Unit) -> tuple[str, ...]:
        call.auditor.record(
            unit.connection,
            Action.SESSION_DELETED,
            agent_id=session.owner.agent_id,
            owner_id=unit.locked_owner.id,
            session=session.id,
        )
        return delete_session(unit, session.id)

    left = await call.services.write(session.owner, work)
    for turn_id in left:
        call.services.running.interrupt(turn_id, Outcome.STOPPED)
    return Response(status_code=204)


async def cancel(call: Call) -> Response:
    session = await _find(call)
    stopped = await _stop(call, session.id)
    return reply(Cancellation(turn_id=stopped[0] if stopped else None, cancelled=bool(stopped)))


async def messages(call: Call) -> Response:
    after, session_id = call.window.after_number("messages"), call.ids["sessionId"]
    found = await call.services.read(
        partial(
            list_session_messages,
            organization_id=call.organization_id,
            session_id=session_id,
            limit=call.window.one_more,
            after=after,
        )
    )
    return reply(page_of("messages", call.window, found, _message, lambda row: str(row.place)))


async def _find(call: Call) -> Session:
    session_id = call.ids["sessionId"]
    return await call.services.read(lambda connection: find_session(connection, call.organization_id, session_id))


async def _stop(call: Call, session_id: str) -> tuple[str, ...]:
    """End the turn that runs in a session, whichever process runs it."""
    services = call.services
    stopped = await services.workers.run(lambda: stop_conversation(services.engine, session_id))
    for turn_id in stopped:
        services.running.interrupt(turn_id, Outcome.STOPPED)
    return stopped


def _session(session: Session) -> SessionView:
    return SessionView(
        id=session.id,
        agent_id=session.owner.agent_id,
        agent_version=session.agent_version,
        subject_id=session.owner.subject,
        title=session.title,
        created_at=session.created_at,
        updated_at=session.updated_at,
    )


def _message(message: SessionMessage) -> MessageView:
    return MessageView(
        id=message.id,
        turn_id=message.turn_id,
        role="user" if message.role == "user" else "assistant",
        content=message.content,
        active=message.active,
        created_at=message.created_at,
    )


_SESSION = "/v1/sessions/{sessionId}"

ROUTES = (
    ApiRoute(
        method="POST",
        path="/v1/sessions",
        handler=create,
        scope=Scope.SESSIONS,
        summary="Open a session",
        about="With the agent's current version, which the session keeps. It counts as activity: the subject's memory "
        "can no longer be seeded. Who signs in under the same subject finds it among their chats.",
        takes=CreateSession,
        gives={201: SessionView},
        refuses=(404,),
    ),
    ApiRoute(
        method="GET",
        path="/v1/sessions",
        handler=index,
        scope=Scope.SESSIONS,
        summary="List sessions",
        about="The newest first.",
        gives={200: Page[SessionView]},
        filters={"agentId": "Only sessions with this agent.", "subjectId": "Only sessions of this subject."},
        is_list=True,
    ),
    ApiRoute(
        method="GET",
        path=_SESSION,
        handler=show,
        scope=Scope.SESSIONS,
        summary="Read a session",
        gives={200: SessionView},
    ),
    ApiRoute(
        method="PATCH",
        path=_SESSION,
        handler=change,
        scope=Scope.SESSIONS,
        summary="Give a session another title",
        takes=ChangeSession,
        gives={200: SessionView},
    ),
    ApiRoute(
        method="DELETE",
        path=_SESSION,
        handler=delete,
        scope=Scope.SESSIONS,
        summary="Delete a session",
        about="Stops what runs in it first. What was remembered from it stays remembered.",
        gives={204: None},
    ),
    ApiRoute(
        method="GET",
        path=f"{_SESSION}/messages",
        handler=messages,
        scope=Scope.SESSIONS,
        summary="List a session's messages",
        about="The oldest first. An answer that was stopped or failed stands there as far as it came.",
        gives={200: Page[MessageView]},
        is_list=True,
    ),
    ApiRoute(
        method="POST",
        path=f"{_SESSION}/cancel",
        handler=cancel,
        scope=Scope.SESSIONS,
        summary="Stop what runs in a session",
        about="The text so far is kept, nothing is saved to memory. With nothing running it changes nothing.",
        gives={200: Cancellation},
    ),
)
