"""Every page and state of the site over made-up values, and turns that are scripted: to be looked at, and to be tested
without the product behind it. Run by hand: ``python -m tests.browser.gallery_app 8900``.

A message decides what its turn does: one with ``remember`` stages and saves; ``hold`` writes a little and waits for
``/gallery/release`` or Stop; ``cut`` loses the connection; ``refused``, ``broken`` and ``expired`` answer 409, 500 and
401. Anything else is answered with the demonstration text.
"""

import asyncio
import secrets
import sys
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field, replace

import uvicorn
from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import HTMLResponse, RedirectResponse, Response, StreamingResponse
from starlette.routing import Mount, Route
from starlette.staticfiles import StaticFiles

from agent.outcome import Ending, MemoryEnding, MemoryOutcome, Outcome
from memory_core.document import Snapshot, Target, count
from memory_core.errors import OperationRefused, RefusalCode
from memory_core.operations import Action, Change, Operation, inverse_operations, trace_operations
from tests.browser import gallery_views as made
from webapp import frames, presenting, words
from webapp.headers import ResponseHeaders
from webapp.markdown import MarkdownStream, render_markdown
from webapp.render import STATIC, render, render_partial
from webapp.views import (
    AnswerState,
    AnswerView,
    ChatView,
    EntryForm,
    ForgetView,
    NewChatView,
    NoticeView,
    OriginView,
    PanelView,
    Place,
    ReceiptView,
    SheetView,
    TurnView,
)

PIECE_CHARS = 12
PIECE_SECONDS = 0.01


@dataclass
class Gallery:
    """What changes while somebody plays with the gallery."""

    memory: Snapshot = field(default_factory=lambda: Snapshot(made.PROFILE, made.WORK))
    is_on: bool = True
    turns: dict[str, TurnView] = field(default_factory=dict)
    receipts: dict[str, tuple[str, tuple[Change, ...], bool]] = field(default_factory=dict)
    stops: dict[str, asyncio.Event] = field(default_factory=dict)
    releases: dict[str, asyncio.Event] = field(default_factory=dict)
    requests: list[tuple[str, dict[str, str]]] = field(default_factory=list)
    polls: int = 0

    def apply(self, *operations: Operation) -> tuple[Change, ...]:
        self.memory, changes = trace_operations(self.memory, operations)
        return changes

    def keep(self, key: str, changes: tuple[Change, ...]) -> str:
        receipt_id = f"rcp_{len(self.receipts) + 1}"
        self.receipts[receipt_id] = (key or receipt_id, changes, False)
        return receipt_id

    def receipt(self, receipt_id: str, *, is_new: bool = False) -> ReceiptView:
        key, changes, is_undone = self.receipts[receipt_id]
        sizes = {change.target: (0, count(self.memory.of(change.target))) for change in changes}
        if is_undone:
            return presenting.undone(key, changes, sizes)
        until = made.NOW.replace(year=2030)
        return presenting.saved(key, receipt_id, changes, sizes, until, is_new=is_new)

    def panel(self, place: Place, query: dict[str, str], **more: object) -> PanelView:
        sheets = tuple(self._sheet(target, query, more) for target in Target)
        return made.panel(
            place,
            *sheets,
            mode=presenting.memory_mode(is_on=self.is_on, is_enabled=True),
            notice=None if self.is_on else NoticeView(words.MEMORY_OFF),
            receipt=more.get("receipt"),
            forget=ForgetView(str(more.get("problem", ""))) if query.get("forget") else None,
        )

    def _sheet(self, target: Target, query: dict[str, str], more: dict[str, object]) -> SheetView:
        forms = {"edit": EntryForm.EDIT, "remove": EntryForm.REMOVE, "origin": EntryForm.ORIGIN}
        opened = next(((query[name], form) for name, form in forms.items() if query.get(name)), None)
        origin = OriginView("The agent saved it from", made.NOW, "demo", "Reversible migrations for orders")
        draft, problem = more.get("draft"), str(more.get("problem", ""))
        return presenting.sheet(
            target, self.memory, _digest, opened=opened, draft=None if draft is None else str(draft), problem=problem,
            origin=origin, is_adding=query.get("add") == target,
        )  # fmt: skip


def _digest(target: Target, text: str) -> str:
    return f"{target}{text.encode().hex()[-24:]}"


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
    sheets = tuple(presenting.sheet(target, few, _digest, can_write=False) for target in Target)
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
        "text": "The chat may have been deleted, the address mistyped, or it belongs to someone else. "
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
    text = next((text for text in gallery.memory.of(target) if _digest(target, text) == form.get("digest")), None)
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


class Turn:
    """One scripted turn."""

    def __init__(
        self, gallery: Gallery, said: str, conversation: str, key: str, *, is_new_chat: bool, regenerates: str | None
    ) -> None:
        self.gallery, self.said, self.conversation = gallery, said, conversation
        self.is_new_chat, self.regenerates = is_new_chat, regenerates
        self.id = f"trn_{len(gallery.turns) + 1}"
        self.stopped = gallery.stops.setdefault(key, asyncio.Event())
        self.released = gallery.releases.setdefault("all", asyncio.Event())
        self.text = ""
        self.changes: tuple[Change, ...] = ()
        self.question = None if regenerates else made.question(said, 30)

    async def stream(self) -> AsyncIterator[bytes]:
        try:
            async for frame in self._frames():
                yield frame
        except (asyncio.CancelledError, GeneratorExit):
            self.finish(Outcome.INTERRUPTED)
            raise

    async def _frames(self) -> AsyncIterator[bytes]:
        yield self._started()
        await asyncio.sleep(PIECE_SECONDS * 5)
        if "remember" in self.said.lower() and not self.said.lower().startswith("what"):
            self.changes = (Change(Target.USER, None, self.said),)
            yield frames.step(self.id, words.step("memory_update"))
            yield frames.receipt(presenting.waiting(self.id, self.changes))
            yield frames.step(self.id, "")
        markdown = MarkdownStream()
        for start in range(0, len(made.ANSWER), PIECE_CHARS):
            piece = made.ANSWER[start : start + PIECE_CHARS]
            self.text += piece
            change = markdown.feed(piece)
            yield frames.text(self.id, change.frozen, change.live)
            await self._pause(start)
            if self.stopped.is_set():
                yield self._ended(Outcome.STOPPED)
                return
        yield self._ended(Outcome.COMPLETED)

    async def _pause(self, start: int) -> None:
        if "cut" in self.said and start > 200:
            self.finish(Outcome.INTERRUPTED)
            raise ConnectionResetError
        if "hold" in self.said and start > 200:
            waits = {asyncio.ensure_future(event.wait()) for event in (self.stopped, self.released)}
            await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
            for wait in waits:
                wait.cancel()
        await asyncio.sleep(PIECE_SECONDS)

    def _started(self) -> bytes:
        turn = made.shell_of(self.id, self.conversation, self.question)
        if not self.is_new_chat:
            return frames.started(turn)
        view = ChatView(self.conversation, self.said[:40], (), self.gallery.panel(Place.SIDE, {}), "")
        return frames.started(turn, chat=view, groups=made.shell(open_chat="demo").groups)

    def _ended(self, outcome: Outcome) -> bytes:
        turn, memory = self.finish(outcome)
        ending = Ending(outcome, None, None, None, memory)
        return frames.ended(
            turn, words.announcement(ending), outcome=outcome, memory=memory.outcome,
            panel=self.gallery.panel(Place.SIDE, {}) if memory.outcome is MemoryOutcome.COMMITTED else None,
            replaces=[self.regenerates] if self.regenerates and outcome is Outcome.COMPLETED else [],
        )  # fmt: skip

    def finish(self, outcome: Outcome) -> tuple[TurnView, MemoryEnding]:
        memory, receipt = MemoryEnding(MemoryOutcome.NONE), None
        if self.changes and outcome is Outcome.COMPLETED:
            self.gallery.apply(Operation(Target.USER, Action.ADD, None, self.said))
            receipt = self.gallery.receipt(self.gallery.keep(self.id, self.changes), is_new=True)
            memory = MemoryEnding(MemoryOutcome.COMMITTED, changes=self.changes)
        elif self.changes:
            receipt = presenting.not_saved(self.id, RefusalCode(outcome))
        ended = presenting.ended(
            Ending(outcome, None, None, None, memory), made.NOW, ended_at=made.NOW, has_text=True, can_regenerate=True
        )
        view = made.answer(
            self.text or made.ANSWER, 30, receipt=receipt, ended=ended, label=words.LABELS[outcome], can_regenerate=True
        )
        turn = TurnView(self.id, self.conversation, view, self.question)
        self.gallery.turns[self.id] = turn
        return turn, memory


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
