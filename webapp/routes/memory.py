"""Memory as its owner sees it: both documents, what can be done with each entry, undo, export and forgetting.

A change answers script with the parts of the page it concerns, and a plain form with a redirect to a page that shows
its receipt. A refused change comes back with what was typed.
"""

import io
import zipfile
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from urllib.parse import urlencode

from sqlalchemy.engine import Connection
from starlette.datastructures import FormData
from starlette.requests import Request
from starlette.responses import HTMLResponse, RedirectResponse, Response

from agent.transcript import list_conversations, storable
from memory_core.database.transaction import Unit
from memory_core.document import FILENAMES, Target
from memory_core.document import render as render_document
from memory_core.errors import (
    MemoryUnavailable,
    OperationRefused,
    OwnerGone,
    ReceiptGone,
    RefusalCode,
    UnavailableReason,
)
from memory_core.operations import Action, Operation
from memory_core.owner import Actor, MemoryMode, Owner
from memory_core.receipts import Committed, Receipt, find_receipts, forget_receipt, owner_of_receipt, undo_receipt
from memory_core.store import change_entry, commit_batches, set_modes
from memory_core.store import forget_everything as forget_all
from webapp import frames, words
from webapp.auth.person import Person, require_person
from webapp.chat_pages import ChatData, ChatPages
from webapp.errors import NotFound
from webapp.memory_pages import (
    Opened,
    PanelData,
    digest_bytes,
    panel_view,
    read_panel,
    receipt_view,
    refusal_words,
    undo_refusal_words,
)
from webapp.render import render
from webapp.routes.forms import is_htmx, text
from webapp.services import services_of
from webapp.views import EntryForm, NoticeView, PanelView, Place, ReceiptView

#: What confirms that everything is to be forgotten.
CONFIRMATION = "forget"
EXPORT_NAME = "remembrancer-memory.zip"
#: So many changes are listed on the memory page, each with *Undo* and *Forget now*.
RECENT = 20


async def page(request: Request) -> Response:
    """The memory page, with the default agent or the one that ``?agent=`` names. ``?done=`` shows the receipt of a
    change that was made without script.
    """
    query = request.query_params
    opened, done = Opened.from_query(query), storable(query.get("done", ""))
    return await _page(request, await require_person(request), query.get("agent", ""), opened, done=done)


async def panel(request: Request) -> Response:
    """The panel alone, with the form that is asked for open; under the greeting, the memory switch with it."""
    person, query = await require_person(request), request.query_params
    view = await _panel(request, person, query.get("agent", ""), _place(query.get("place")), Opened.from_query(query))
    if view.place is Place.NEW:
        return HTMLResponse(frames.panel_reply(view))
    return HTMLResponse(frames.panel_now(view))


async def export(request: Request) -> Response:
    """Both documents as files, as Hermes keeps them. Raises MemoryUnavailable rather than hand out half of it."""
    person, services = await require_person(request), services_of(request)
    owner = services.owner(person, request.query_params.get("agent", ""))
    memory = (await services.read(lambda connection: read_panel(connection, owner, Opened()))).memory
    if memory.snapshot is None:
        raise MemoryUnavailable(memory.unavailable or UnavailableReason.UNREADABLE)
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as archive:
        for target in Target:
            archive.writestr(FILENAMES[target], render_document(memory.snapshot.of(target)))
    disposition = f'attachment; filename="{EXPORT_NAME}"'
    return Response(packed.getvalue(), media_type="application/zip", headers={"Content-Disposition": disposition})


async def add(request: Request) -> Response:
    """A new entry, written by hand."""
    form = await request.form()
    target, content = text(form, "target"), _content(form)

    def work(unit: Unit) -> Committed | None:
        operation = Operation(_target(target), Action.ADD, content=content)
        return commit_batches(unit, [[operation]], actor=Actor.PERSON, undo_hours=_undo_hours(request))

    return await _change(request, form, work, Opened(add=target, draft=content), writes=True)


async def edit(request: Request) -> Response:
    """An entry in new words. It is named by its digest, so an entry that has changed since is never overwritten."""
    form = await request.form()
    target, digest, content = text(form, "target"), text(form, "digest"), _content(form)

    def work(unit: Unit) -> Committed | None:
        hours = _undo_hours(request)
        return change_entry(unit, _target(target), digest_bytes(digest), content, undo_hours=hours)

    return await _change(request, form, work, Opened(EntryForm.EDIT, digest, draft=content), writes=True)


async def remove(request: Request) -> Response:
    """An entry gone. Allowed also while memory is switched off."""
    form = await request.form()
    target, digest = text(form, "target"), text(form, "digest")

    def work(unit: Unit) -> Committed | None:
        return change_entry(unit, _target(target), digest_bytes(digest), None, undo_hours=_undo_hours(request))

    return await _change(request, form, work, Opened(EntryForm.REMOVE, digest))


async def undo(request: Request) -> Response:
    """A change taken back, whole or not at all."""
    person, services = await require_person(request), services_of(request)
    form = await request.form()
    receipt_id, problem = storable(text(form, "receipt")), ""
    try:
        owner = await _owner_of(request, person, receipt_id)
        await services.write(owner, lambda unit: undo_receipt(unit, receipt_id))
    except (ReceiptGone, OwnerGone):
        problem = words.UNDO_GONE
    except OperationRefused as refusal:
        problem = undo_refusal_words(refusal)
    return await _receipt_reply(
        request, person, form, receipt_id, problem=problem, announcement=problem or words.UNDONE
    )


async def forget_words(request: Request) -> Response:
    """*Forget now*: the words of a receipt are deleted, and with them the way back."""
    person, services = await require_person(request), services_of(request)
    form = await request.form()
    receipt_id = storable(text(form, "receipt"))
    try:
        owner = await _owner_of(request, person, receipt_id)
    except ReceiptGone:
        raise NotFound from None
    await services.write(owner, lambda unit: forget_receipt(unit, receipt_id))
    return await _receipt_reply(request, person, form, receipt_id, announcement=words.WORDS_FORGOTTEN)


async def forget_everything(request: Request) -> Response:
    """Both documents, every receipt and its words. Typed confirmation; no way back."""
    person, services = await require_person(request), services_of(request)
    form = await request.form()
    if text(form, "confirmation").strip().casefold() != CONFIRMATION:
        return await _refused(request, person, form, Opened(forget=True, problem=words.TYPE_FORGET))
    with suppress(OwnerGone):  # nobody by that name: there is nothing to forget
        await services.write(_owner(request, person, form), forget_all)
    return await _done(request, person, form, None, announcement=words.FORGOTTEN, notice=NoticeView(words.FORGOTTEN))


async def set_mode(request: Request) -> Response:
    """The memory switch. A first use of it is no activity: the agent can still be given a beginning."""
    person, services = await require_person(request), services_of(request)
    form = await request.form()
    mode = MemoryMode.OFF if text(form, "memory") == MemoryMode.OFF else MemoryMode.AUTO
    owner = _owner(request, person, form)
    await services.write(owner, lambda unit: set_modes(unit, memory_mode=mode), session_id=person.session_id)
    said = words.SWITCHED_OFF if mode is MemoryMode.OFF else words.SWITCHED_ON
    return await _done(request, person, form, None, announcement=said)


async def _change(
    request: Request, form: FormData, work: Callable[[Unit], Committed | None], opened: Opened, *, writes: bool = False
) -> Response:
    """Run a change made by hand, and show what it did, or the form again with what was wrong."""
    person, services = await require_person(request), services_of(request)
    try:
        if writes and not services.settings.memory_enabled:
            raise OperationRefused(RefusalCode.MEMORY_OFF)
        owner = _owner(request, person, form)
        committed = await services.write(owner, work, session_id=person.session_id if opened.add else None)
    except OwnerGone:
        return await _refused(request, person, form, _with_problem(opened, OperationRefused(RefusalCode.CHANGED_SINCE)))
    except OperationRefused as refusal:
        return await _refused(request, person, form, _with_problem(opened, refusal))
    if committed is None:
        notice = NoticeView(words.UNCHANGED)
        return await _done(request, person, form, None, announcement=words.UNCHANGED, notice=notice)
    return await _done(request, person, form, committed.receipt_id, announcement=words.CHANGED)


def _with_problem(opened: Opened, refusal: OperationRefused) -> Opened:
    return replace(opened, problem=refusal_words(refusal))


async def _done(
    request: Request,
    person: Person,
    form: FormData,
    receipt_id: str | None,
    *,
    announcement: str,
    notice: NoticeView | None = None,
) -> Response:
    if not is_htmx(request):
        return _to_page(text(form, "agent"), receipt_id)
    place, agent_id = _place(text(form, "place")), text(form, "agent")
    view = await _panel(request, person, agent_id, place, Opened(), done=receipt_id or "", notice=notice)
    return HTMLResponse(frames.panel_reply(view, announcement))


async def _refused(request: Request, person: Person, form: FormData, opened: Opened) -> Response:
    if not is_htmx(request):
        return await _page(request, person, text(form, "agent"), opened, status=422)
    view = await _panel(request, person, text(form, "agent"), _place(text(form, "place")), opened)
    return HTMLResponse(frames.panel_reply(view, opened.problem), 422)


async def _receipt_reply(
    request: Request, person: Person, form: FormData, receipt_id: str, *, announcement: str, problem: str = ""
) -> Response:
    """The receipt as it is now, wherever it stands, and the panel it concerns."""
    status = 422 if problem else 200
    try:
        agent_id = (await _owner_of(request, person, receipt_id)).agent_id
    except ReceiptGone:
        agent_id = text(form, "agent")
    if not is_htmx(request) and not problem:
        return _to_page(agent_id, receipt_id)
    if not is_htmx(request):
        return await _page(request, person, agent_id, Opened(), done=receipt_id, problem=problem, status=status)
    place = _place(text(form, "place"))
    data, receipt = await _read(request, person, agent_id, Opened(), receipt_id)
    in_chat = receipt is not None and receipt.turn_id is not None and place is not Place.PAGE
    strip = None if in_chat or receipt is None else receipt_view(receipt, problem=problem)
    view = panel_view(data, person, place, is_enabled=services_of(request).settings.memory_enabled, receipt=strip)
    shown: list[ReceiptView] = []
    if in_chat and receipt is not None:
        shown.append(receipt_view(receipt, problem=problem, key=receipt.turn_id))
    return HTMLResponse(frames.reply(receipts=shown, panel=view, announcement=announcement), status)


async def _page(
    request: Request,
    person: Person,
    agent_id: str,
    opened: Opened,
    *,
    done: str = "",
    problem: str = "",
    status: int = 200,
) -> Response:
    services = services_of(request)
    owner = services.owner(person)
    data, receipt = await _read(request, person, agent_id, opened, done)
    chats = await services.read(lambda connection: list_conversations(connection, owner))
    shell = ChatPages.at_once(services.settings, person).shell(ChatData(chats, data), here="memory")
    view = panel_view(
        data,
        person,
        Place.PAGE,
        is_enabled=services.settings.memory_enabled,
        opened=opened,
        receipt=receipt_view(receipt, problem=problem) if receipt is not None else None,
    )
    return render(request, "memory/page.html", {"shell": shell, "panel": view, "agents": data.choices}, status)


async def _panel(
    request: Request,
    person: Person,
    agent_id: str,
    place: Place,
    opened: Opened,
    *,
    done: str = "",
    notice: NoticeView | None = None,
) -> PanelView:
    data, receipt = await _read(request, person, agent_id, opened, done)
    strip = receipt_view(receipt) if receipt is not None else None
    enabled = services_of(request).settings.memory_enabled
    return panel_view(data, person, place, is_enabled=enabled, opened=opened, receipt=strip, notice=notice)


async def _read(
    request: Request, person: Person, agent_id: str, opened: Opened, receipt_id: str
) -> tuple[PanelData, Receipt | None]:
    services = services_of(request)
    owner = services.owner(person, agent_id)

    def read(connection: Connection) -> tuple[PanelData, Receipt | None]:
        data = read_panel(connection, owner, opened, recent=RECENT)
        if not receipt_id or data.memory.owner_id is None:
            return data, None
        found = find_receipts(connection, data.memory.owner_id, receipt_ids=[receipt_id])
        return data, next((receipt.beside(data.memory.snapshot) for receipt in found), None)

    return await services.read(read)


def _to_page(agent_id: str, receipt_id: str | None) -> Response:
    """Without script: the page of that agent's memory, with the receipt of what was done."""
    query = urlencode({name: value for name, value in (("agent", agent_id), ("done", receipt_id)) if value})
    return RedirectResponse(f"/memory?{query}" if query else "/memory", status_code=303)


def _owner(request: Request, person: Person, form: FormData) -> Owner:
    """Whose memory a form of the panel means."""
    return services_of(request).owner(person, text(form, "agent"))


async def _owner_of(request: Request, person: Person, receipt_id: str) -> Owner:
    """Whose memory a receipt is of. Raises ReceiptGone."""
    services = services_of(request)
    asked = services.owner(person)
    return await services.read(lambda connection: owner_of_receipt(connection, asked, receipt_id))


def _place(name: str | None) -> Place:
    """Where the panel is drawn; the page is the one that works everywhere."""
    return Place(name) if name in {str(place) for place in Place} else Place.PAGE


def _target(name: str) -> Target:
    """Raises OperationRefused for a document that there is not."""
    if name not in {str(target) for target in Target}:
        raise OperationRefused(RefusalCode.FIELDS_INVALID)
    return Target(name)


def _content(form: FormData) -> str:
    """What was typed. A tab is a space to a person, and a control character to the rules."""
    return text(form, "content").replace("\t", " ")


def _undo_hours(request: Request) -> int:
    return services_of(request).settings.undo_hours
