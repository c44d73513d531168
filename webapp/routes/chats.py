"""Chats: the new one, each one there is, a message and its answer, and stopping an answer."""

import anyio
from starlette.datastructures import FormData
from starlette.requests import Request
from starlette.responses import HTMLResponse, RedirectResponse, Response

from agent.begin import TurnRequest
from agent.discard import stop_turn
from agent.errors import KeyReused, MessageRefused, TooManyTurns, TurnInProgress, TurnRepeated
from agent.outcome import Outcome
from memory_core.ids import new_id
from webapp import frames, words
from webapp.auth.person import Person, require_person
from webapp.chat_pages import ChatData, ChatPages, read_chat
from webapp.error_pages import words_for
from webapp.errors import NotFound
from webapp.live_turn import LiveTurn
from webapp.render import render
from webapp.routes.forms import is_htmx, text
from webapp.services import Services, services_of
from webapp.turn_stream import TurnStream, wait_until_ended
from webapp.views import NoticeView, Place

#: Refusals of a message, after which the page comes back with what was written.
_REFUSED = (MessageRefused, TurnInProgress, TooManyTurns, KeyReused)


async def home(request: Request) -> Response:
    return RedirectResponse("/chats", status_code=303)


async def new(request: Request) -> Response:
    """The page before the first message, with the default agent or the one that ``?agent=`` names."""
    return await _page(request, await require_person(request), None, agent_id=request.query_params.get("agent", ""))


async def show(request: Request) -> Response:
    """A conversation."""
    return await _page(request, await require_person(request), request.path_params["chat"])


async def create(request: Request) -> Response:
    """A first message: a new conversation and its first turn."""
    return await _say(request, None)


async def answer(request: Request) -> Response:
    """The next message of a conversation, or an answer written again."""
    return await _say(request, request.path_params["chat"])


async def cancel(request: Request) -> Response:
    """Stop an answer, named by its message's key."""
    person, services = await require_person(request), services_of(request)
    form = await request.form()
    owner, key = services.owner(person), text(form, "key")
    stopped = await services.workers.run(lambda: stop_turn(services.engine, owner, key))
    if stopped.outcome is Outcome.STOPPED:
        services.running.interrupt(stopped.turn_id, Outcome.STOPPED)
    if is_htmx(request):
        return Response(status_code=204)
    return RedirectResponse(f"/chats/{stopped.conversation_id}", status_code=303)


async def show_turn(request: Request) -> Response:
    """An answer as it is now: asked for once a second while it is written elsewhere."""
    person, services = await require_person(request), services_of(request)
    chat, turn_id = request.path_params["chat"], request.path_params["turn"]
    data = await _read(request, person, chat, around=turn_id)
    pages = ChatPages.at_once(services.settings, person)
    turn, record = pages.turn(data, turn_id), data.turn(turn_id)
    if turn is None or record is None:
        raise NotFound
    if record.is_running:
        return HTMLResponse(frames.turn_now(turn))
    panel = pages.panel(data, Place.SIDE)
    return HTMLResponse(frames.turn_now(turn, panel=panel, announcement=words.announcement(record.ending)))


async def _page(
    request: Request,
    person: Person,
    chat: str | None,
    *,
    notice: NoticeView | None = None,
    draft: str = "",
    status: int = 200,
    agent_id: str = "",
) -> Response:
    data = await _read(request, person, chat, agent_id=agent_id)
    pages = ChatPages.at_once(services_of(request).settings, person)
    shell = pages.shell(data, open_id=chat or "")
    if chat is None:
        view = {"shell": shell, "new": pages.new(data, notice=notice, draft=draft)}
        return render(request, "chats/new.html", view, status)
    if data.conversation is None:
        raise NotFound
    # A long chat is much Markdown: not on the loop that everybody's streams run on.
    chat_view = await anyio.to_thread.run_sync(lambda: pages.chat(data, notice=notice, draft=draft))
    return render(request, "chats/show.html", {"shell": shell, "chat": chat_view}, status)


async def _read(
    request: Request, person: Person, chat: str | None, *, around: str | None = None, agent_id: str = ""
) -> ChatData:
    services = services_of(request)
    owner = services.owner(person, agent_id)
    return await services.read(lambda connection: read_chat(connection, owner, chat, around=around))


async def _say(request: Request, chat: str | None) -> Response:
    """Begin a turn and answer with its stream; without script, with the page when it has ended."""
    person, services = await require_person(request), services_of(request)
    form = await request.form()
    try:
        running = await services.running.open(_turn_request(services, person, form, chat))
    except TurnRepeated as earlier:
        return _lead_to(request, earlier.conversation_id)
    except _REFUSED as refusal:
        if is_htmx(request):
            raise
        said = words_for(refusal)
        notice = NoticeView(said.text, f"{said.title}.", "refused")
        draft, agent_id = text(form, "message"), text(form, "agent")
        return await _page(request, person, chat, notice=notice, draft=draft, status=said.status, agent_id=agent_id)
    if is_htmx(request):
        return TurnStream(running, LiveTurn(services, person, running).frames())
    await wait_until_ended(running, request.receive)
    return RedirectResponse(f"/chats/{running.turn.conversation_id}", status_code=303)


def _lead_to(request: Request, conversation_id: str) -> Response:
    """The same message was sent before: its conversation is the answer."""
    path = f"/chats/{conversation_id}"
    if is_htmx(request):
        return Response(status_code=204, headers={"HX-Redirect": path})
    return RedirectResponse(path, status_code=303)


def _turn_request(services: Services, person: Person, form: FormData, chat: str | None) -> TurnRequest:
    settings = services.settings
    message = text(form, "message").replace("\r\n", "\n")
    if len(message) > settings.message_chars:
        raise MessageRefused("too_long", settings.message_chars, len(message))
    return TurnRequest(
        owner=services.owner(person, text(form, "agent")),
        message=message,
        key=text(form, "key") or new_id("key"),
        process_id=services.process.id,
        policy_version=services.agents.policy_version,
        memory_enabled=settings.memory_enabled,
        conversation_id=chat,
        regenerates_id=text(form, "regenerates") or None if chat is not None else None,
        regenerates_last_only=True,
        session_id=person.session_id,
        turns_at_once=settings.streams_per_subject,
        history_tokens=settings.history_tokens,
    )
