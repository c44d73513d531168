"""Every page and state of the site over made-up values, and turns that are scripted: to be looked at, and to be tested
without the product behind it. Run by hand: ``python -m tests.browser.gallery_app 8900``.

A message decides what its turn does: one with ``remember`` stages and saves; ``hold`` writes a little and waits for
``/gallery/release`` or Stop; ``cut`` loses the connection; ``refused``, ``broken`` and ``expired`` answer 409, 500 and
401. Anything else is answered with the demonstration text.
"""

import asyncio
import secrets
import sys
from collections.abc import Callable
from dataclasses import replace

import uvicorn
from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import HTMLResponse, RedirectResponse, Response, StreamingResponse
from starlette.routing import Mount, Route
from starlette.staticfiles import StaticFiles

from agent.outcome import Outcome
from memory_core.document import Snapshot, Target
from memory_core.errors import OperationRefused, RefusalCode
from memory_core.operations import Action, Operation, inverse_operations
from tests.browser import gallery_views as made
from tests.browser.gallery_state import Gallery, digest
from tests.browser.gallery_turn import Turn
from webapp import frames, presenting, words
from webapp.headers import ResponseHeaders
from webapp.markdown import render_markdown
from webapp.render import STATIC, render, render_partial
from webapp.views import (
    AnswerState,
    AnswerView,
    ChatView,
    NewChatView,
    NoticeView,
    PanelView,
    Place,
    TurnView,
)


def _gallery(request: Request) -> Gallery:
    state: Gallery = request.app.state.gallery
    return state


def _place(request: Request) -> Place:
    return Place(request.query_params.get("place", "page"))


# Pages to look at.

PANELS: dict[str, Callable[[Place], PanelView]] = {
    "everyday": made.everyday,
    "forms": made.every_form,
    "full": made.full_and_unavailable,
    "refused": made.refused_edit,
    "off": made.off,
    "resting": made.resting,
    "forget": made.asking_to_forget,
    "removed": made.after_removal,
}
TURNS: dict[str, Callable[[], tuple[TurnView, ...]]] = {
    "demo": made.demo,
    "receipts": made.receipts,
    "endings": made.endings,
    "empty": tuple,
}


async def index(request: Request) -> Response:
    paths = ["/chats", "/memory", "/gallery/error", "/gallery/single"]
    paths += [f"/chats/{name}" for name in (*TURNS, "elsewhere")] + [f"/gallery/memory/{name}" for name in PANELS]
    return HTMLResponse("".join(f'<p><a href="{path}">{path}</a></p>' for path in paths))


async def new_chat(request: Request) -> Response:
    view = NewChatView(
        "Ada", words.greeting("Ada"), _new_panel(_gallery(request)), secrets.token_hex(16), starters=words.STARTERS
    )
    return render(request, "chats/new.html", {"shell": made.shell(), "new": view})


def _new_panel(gallery: Gallery) -> PanelView:
    few = Snapshot(gallery.memory.user[:2], ())
    sheets = tuple(presenting.sheet(target, few, digest, can_write=False) for target in Target)
    mode = presenting.memory_mode(is_on=gallery.is_on, is_enabled=True, hint=words.MODE_NEW)
    return made.panel(Place.NEW, *sheets, mode=mode)


async def chat(request: Request) -> Response:
    name = request.path_params["id"]
    gallery = _gallery(request)
    shown = TURNS[name]() if name in TURNS else ()
    if name == "elsewhere":
        shown = (_elsewhere(AnswerState.ELSEWHERE),)
    shown += tuple(turn for turn in gallery.turns.values() if turn.conversation_id == name)
    side = made.everyday(Place.SIDE) if name == "demo" else gallery.panel(Place.SIDE, {})
    title = next((chat.title for group in made.shell().groups for chat in group.chats if chat.id == name), "A new chat")
    view = ChatView(name, title, shown, side, secrets.token_hex(16))
    return render(request, "chats/show.html", {"shell": made.shell(open_chat=name), "chat": view})


def _elsewhere(state: AnswerState) -> TurnView:
    said = made.question("Is anybody there?")
    if state is AnswerState.DONE:
        return TurnView("trn_else", "elsewhere", made.answer("Yes: now it is whole.", can_regenerate=True), said)
    writing = AnswerView(state, "Answer, being written", prose=render_markdown("Somebody is"))
    return TurnView("trn_else", "elsewhere", writing, said)


async def memory_state(request: Request) -> Response:
    view = PANELS[request.path_params["name"]](Place.PAGE)
    return render(request, "memory/page.html", {"shell": made.shell("memory"), "panel": view, "agents": ()})


async def error(request: Request) -> Response:
    context = {
        "status": 404, "title": "There is nothing at this address", "action_label": "Go to your chats",
        "text": "It may have been deleted, the address may be mistyped, or it is not yours to see. "
        "Nothing of yours was changed.",
        "action_path": "/chats", "request_id": "7f3c-19ab",
    }  # fmt: skip
    return render(request, "errors/error.html", context, 404)


# Memory that can be played with.


async def memory(request: Request) -> Response:
    query = dict(request.query_params)
    shown = query.get("receipt")
    more = {"receipt": _gallery(request).receipt(shown)} if shown else {}
    view = _gallery(request).panel(Place.PAGE, query, **more)
    return render(request, "memory/page.html", {"shell": made.shell("memory"), "panel": view, "agents": ()})


async def memory_panel(request: Request) -> Response:
    view = _gallery(request).panel(_place(request), dict(request.query_params))
    return HTMLResponse(render_partial("memory/_panel.html", panel=view))


async def memory_change(request: Request) -> Response:
    """Add, edit, remove, forget: by the real rules."""
    gallery, kind = _gallery(request), request.path_params["kind"]
    form = {name: str(value) for name, value in (await request.form()).items()}
    gallery.requests.append((kind, form))
    place = Place(form.get("place", "page"))
    if kind == "forgettings":
        return _forget(request, gallery, form, place)
    target = Target(form["target"])
    text = next((text for text in gallery.memory.of(target) if digest(target, text) == form.get("digest")), None)
    operation = {
        "entries": Operation(target, Action.ADD, None, form.get("content")),
        "edits": Operation(target, Action.REPLACE, text, form.get("content")),
        "removals": Operation(target, Action.REMOVE, text),
    }[kind]
    try:
        receipt_id = gallery.keep("", gallery.apply(operation))
    except OperationRefused as refusal:
        query = {"add": target} if kind == "entries" else {"edit": form["digest"]}
        view = gallery.panel(place, {**query}, draft=form.get("content", ""), problem=words.form_refusal(refusal.code))
        return _panel_response(request, view, "Not saved.", 422)
    if not _is_htmx(request):
        return RedirectResponse(f"/memory?receipt={receipt_id}", 303)
    view = gallery.panel(place, {}, receipt=gallery.receipt(receipt_id))
    return _panel_response(request, view, "Saved.")


def _forget(request: Request, gallery: Gallery, form: dict[str, str], place: Place) -> Response:
    if form.get("confirmation") != "forget":
        view = gallery.panel(place, {"forget": "1"}, problem=words.TYPE_FORGET)
        return _panel_response(request, view, "", 422)
    gallery.memory = Snapshot()
    gallery.receipts.clear()
    if not _is_htmx(request):
        return RedirectResponse("/memory", 303)
    return _panel_response(request, gallery.panel(place, {}), "Everything is forgotten.")


def _panel_response(request: Request, view: PanelView, said: str, status: int = 200) -> Response:
    if _is_htmx(request):
        return HTMLResponse(frames.panel_reply(view, said), status)
    return render(request, "memory/page.html", {"shell": made.shell("memory"), "panel": view, "agents": ()}, status)


async def undo(request: Request) -> Response:
    gallery, form = _gallery(request), await request.form()
    receipt_id, place = str(form["receipt"]), Place(str(form["place"]))
    if receipt_id not in gallery.receipts:
        refused = replace(made.saved("trn_one"), problem=words.undo_refusal(RefusalCode.CHANGED_SINCE))
        return HTMLResponse(frames.reply(receipts=[refused], announcement=refused.problem))
    key, changes, _ = gallery.receipts[receipt_id]
    gallery.apply(*inverse_operations(changes))
    gallery.receipts[receipt_id] = (key, changes, True)
    if not _is_htmx(request):
        return RedirectResponse(f"/memory?receipt={receipt_id}", 303)
    view = gallery.receipt(receipt_id)
    strip = {"receipt": view} if key == receipt_id else {}
    return HTMLResponse(frames.reply(receipts=[view], panel=gallery.panel(place, {}, **strip), announcement="Undone."))


async def forget_words(request: Request) -> Response:
    form = await request.form()
    key = "trn_one" if str(form["receipt"]) == "rcp_demo" else str(form["receipt"])
    view = presenting.saved(key, "", None, {Target.USER: (533, 564)}, None)
    return HTMLResponse(frames.reply(receipts=[view], announcement=words.WORDS_GONE))


async def modes(request: Request) -> Response:
    gallery, form = _gallery(request), await request.form()
    gallery.is_on = form["memory"] == "auto"
    place = Place(str(form["place"]))
    if not _is_htmx(request):
        return RedirectResponse("/chats" if place is Place.NEW else "/memory", 303)
    view = _new_panel(gallery) if place is Place.NEW else gallery.panel(place, {})
    return HTMLResponse(frames.panel_reply(view, "Memory is on." if gallery.is_on else "Memory is off."))


# Turns.


async def send(request: Request) -> Response:
    """POST of a message, to a new chat or to one that is there."""
    gallery = _gallery(request)
    form = {name: str(value) for name, value in (await request.form()).items()}
    gallery.requests.append(("turns", form))
    said = form.get("message", "")
    conversation = request.path_params.get("id", "")
    refusals = {
        "refused": (409, words.BUSY_ELSEWHERE),
        "broken": (500, "It broke."),
        "expired": (401, words.SIGNED_OUT),
    }
    for word, (status, sentence) in refusals.items():
        if word in said:
            return HTMLResponse(frames.notice(NoticeView(sentence, tone="refused")), status)
    turn = Turn(
        gallery,
        said,
        conversation or "fresh",
        form["key"],
        is_new_chat=not conversation,
        regenerates=form.get("regenerates"),
    )
    if not _is_htmx(request):
        turn.finish(Outcome.COMPLETED)
        return RedirectResponse(f"/chats/{turn.conversation}", 303)
    return StreamingResponse(turn.stream(), media_type="text/event-stream")


async def stop(request: Request) -> Response:
    form = await request.form()
    gallery = _gallery(request)
    gallery.requests.append(("stop", {name: str(value) for name, value in form.items()}))
    event = gallery.stops.get(str(form["key"]))
    if event is not None:
        event.set()
    return Response(status_code=204)


async def release(request: Request) -> Response:
    _gallery(request).releases.setdefault("all", asyncio.Event()).set()
    return Response(status_code=204)


async def turn_now(request: Request) -> Response:
    """The answer as it is: one that is being written elsewhere is whole at the third time of asking."""
    gallery, id = _gallery(request), request.path_params["turn"]
    if id != "trn_else":
        return HTMLResponse(frames.turn_now(gallery.turns[id]))
    gallery.polls += 1
    state = AnswerState.DONE if gallery.polls > 2 else AnswerState.ELSEWHERE
    return HTMLResponse(
        frames.turn_now(_elsewhere(state), announcement="The answer is complete." if state == "done" else "")
    )


async def single(request: Request) -> Response:
    return RedirectResponse("/gallery/error", 303)


def _is_htmx(request: Request) -> bool:
    return request.headers.get("hx-request") == "true"


def create_app() -> Starlette:
    """A gallery of its own, with nothing changed in it yet."""
    post = ["POST"]
    app = Starlette(
        routes=[
            Route("/", index),
            Route("/chats", new_chat),
            Route("/chats", send, methods=post),
            Route("/chats/cancellations", stop, methods=post),
            Route("/chats/{id}", chat),
            Route("/chats/{id}/turns", send, methods=post),
            Route("/chats/{id}/turns/{turn}", turn_now),
            Route("/memory", memory),
            Route("/memory/panel", memory_panel),
            Route("/memory/undos", undo, methods=post),
            Route("/memory/receipts/forgettings", forget_words, methods=post),
            Route("/memory/modes", modes, methods=post),
            Route("/memory/{kind:str}", memory_change, methods=post),
            Route("/gallery/memory/{name}", memory_state),
            Route("/gallery/error", error),
            Route("/gallery/release", release, methods=post),
            Mount("/static", StaticFiles(directory=STATIC)),
        ],
        middleware=[Middleware(ResponseHeaders, uses_https=False)],
    )
    app.state.gallery = Gallery()
    return app


if __name__ == "__main__":
    uvicorn.run(create_app(), host="127.0.0.1", port=int(sys.argv[1]), log_level="warning")
