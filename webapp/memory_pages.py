"""The memory panel as a view: what is stored, what the person's address asks to be open, and what was just done."""

import hashlib
import hmac
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime

from sqlalchemy.engine import Connection

from agent.configuration import AgentVersion, find_agent, list_agents
from agent.prompt import is_held_back
from agent.tools.memory_update import capacity_of
from agent.transcript import find_title
from memory_core.document import Target, entry_digest
from memory_core.errors import OperationRefused
from memory_core.origins import origin_of
from memory_core.owner import MemoryMode, Owner
from memory_core.receipts import Receipt, find_latest_import, find_undoable_receipts
from memory_core.store import MemoryView, load_memory
from webapp import presenting, words
from webapp.auth.person import Person
from webapp.views import (
    AgentChoice,
    EntryForm,
    ForgetView,
    NoticeView,
    OriginView,
    PanelView,
    PersonView,
    Place,
    ReceiptView,
    SheetView,
)


@dataclass(frozen=True, slots=True)
class Opened:
    """Which form of the panel is open, and what came back with it. ``digest`` is hex; ``add`` is a document's name."""

    form: EntryForm = EntryForm.NONE
    digest: str = ""
    add: str = ""
    forget: bool = False
    draft: str | None = field(default=None, repr=False)
    problem: str = ""

    @classmethod
    def from_query(cls, query: Mapping[str, str]) -> "Opened":
        """``?edit=``, ``?remove=`` and ``?origin=`` name an entry, ``?add=`` a document, ``?forget=1`` asks for
        everything.
        """
        for form in (EntryForm.EDIT, EntryForm.REMOVE, EntryForm.ORIGIN):
            if digest := query.get(str(form)):
                return cls(form, digest)
        return cls(add=query.get("add", ""), forget=bool(query.get("forget")))


@dataclass(frozen=True, slots=True)
class PanelData:
    """What one read brings for a panel: one agent's memory of a person, and the agents there are."""

    memory: MemoryView
    agent_id: str
    agents: tuple[AgentVersion, ...]
    origin: OriginView | None = None
    imported: Receipt | None = None
    recent: tuple[Receipt, ...] = ()

    @property
    def choices(self) -> tuple[AgentChoice, ...]:
        """The agents to choose from; none where there is no choice."""
        return presenting.agent_choices(self.agents, self.agent_id) if len(self.agents) > 1 else ()

    @property
    def agent_name(self) -> str:
        """Whose memory it is, where that needs saying."""
        return next((agent.name for agent in self.choices if agent.is_chosen), "")


def read_panel(connection: Connection, owner: Owner, opened: Opened, *, recent: int = 0) -> PanelData:
    """Read both documents, where the entry asked about came from, and the last ``recent`` changes that can be undone.

    Raises AgentNotFound.
    """
    memory = load_memory(connection, owner)
    agents = list_agents(connection, owner.organization_id)
    if all(agent.agent_id != owner.agent_id for agent in agents):
        agents += (find_agent(connection, owner.organization_id, owner.agent_id),)
    origin = None
    if opened.form is EntryForm.ORIGIN and memory.owner_id is not None:
        origin = _read_origin(connection, owner, memory, digest_bytes(opened.digest))
    imported: Receipt | None = None
    changes: tuple[Receipt, ...] = ()
    if memory.owner_id is not None:
        imported = _standing(find_latest_import(connection, memory.owner_id), memory)
        kept = find_undoable_receipts(connection, memory.owner_id, limit=recent) if recent else ()
        changes = tuple(receipt.beside(memory.snapshot) for receipt in kept)
    return PanelData(memory, owner.agent_id, agents, origin, imported, changes)


def panel_view(
    data: PanelData,
    person: Person,
    place: Place,
    *,
    is_enabled: bool,
    opened: Opened | None = None,
    new_entries: frozenset[tuple[Target, str]] = frozenset(),
    receipt: ReceiptView | None = None,
    notice: NoticeView | None = None,
) -> PanelView:
    """The panel for a place. ``is_enabled`` is the deployment's flag; ``new_entries`` were written in this
    conversation.
    """
    memory, opened = data.memory, opened or Opened()
    is_on = memory.memory_mode is not MemoryMode.OFF
    receipt = receipt or _imported(data)
    shown = receipt.receipt_id if receipt is not None else None
    return PanelView(
        place=place,
        sheets=tuple(_sheet(target, data, opened, new_entries, can_write=is_enabled) for target in Target),
        mode=presenting.memory_mode(
            is_on=is_on, is_enabled=is_enabled, hint=words.MODE_NEW if place is Place.NEW else words.MODE_ON
        ),
        csrf_token=person.csrf_token,
        memory_id=memory.owner_id or "",
        agent_id=data.agent_id,
        agent_name=data.agent_name,
        notice=notice or _resting(is_on=is_on, is_enabled=is_enabled),
        receipt=receipt,
        recent=tuple(receipt_view(change) for change in data.recent if change.id != shown),
        forget=ForgetView(opened.problem) if opened.forget else None,
    )


def person_view(person: Person, secret_key: bytes) -> PersonView:
    """The person as a page shows them; drafts are kept under a name that says nothing about them."""
    scope = hmac.new(secret_key, b"draft\0" + person.subject.encode(), hashlib.sha256).hexdigest()[:16]
    return PersonView(person.label, person.csrf_token, scope, person.is_operator)


def _standing(receipt: Receipt | None, memory: MemoryView) -> Receipt | None:
    """A receipt, unless memory has moved on from it: then it is one of the earlier changes."""
    beside = receipt.beside(memory.snapshot) if receipt is not None else None
    return None if beside is None or beside.has_changed_since else beside


def _imported(data: PanelData) -> ReceiptView | None:
    """An operator has put other pages in the place of these: the person is told, as long as they can undo it."""
    return None if data.imported is None else replace(receipt_view(data.imported), title=words.IMPORTED)


def receipt_view(receipt: Receipt, *, problem: str = "", is_new: bool = False, key: str | None = None) -> ReceiptView:
    """A stored receipt: what was saved, or that it was undone. The words are shown while they are kept."""
    sizes = {
        Target.USER: (receipt.user_before, receipt.user_after),
        Target.MEMORY: (receipt.memory_before, receipt.memory_after),
    }
    sizes = {target: pair for target, pair in sizes.items() if pair[0] != pair[1]}
    name = key or receipt.id
    if receipt.undone_at is not None:
        return presenting.undone(name, receipt.changes, sizes)
    until = receipt.undo_until if receipt.can_be_undone else None
    return presenting.saved(
        name,
        receipt.id,
        receipt.changes,
        sizes,
        until,
        problem=problem,
        is_new=is_new,
        has_changed_since=receipt.has_changed_since,
    )


def refusal_words(refusal: OperationRefused) -> str:
    """Why a change made by hand was not saved."""
    return words.form_refusal(refusal.code, capacity_of(refusal))


def undo_refusal_words(refusal: OperationRefused) -> str:
    return words.undo_refusal(refusal.code, capacity_of(refusal))


def digest_bytes(text: str) -> bytes:
    """An entry's digest as a form brings it; what is none names no entry."""
    try:
        return bytes.fromhex(text)
    except ValueError:
        return b""


def _read_origin(connection: Connection, owner: Owner, memory: MemoryView, digest: bytes) -> OriginView:
    found = origin_of(connection, memory.owner_id or "", digest)
    if found is None:
        return presenting.unknown_origin(memory.updated_at or datetime.now(UTC))
    written, edited = found.written, found.edited
    chat = find_title(connection, owner, written.conversation_id) if written.conversation_id else None
    return presenting.origin(
        written.actor,
        written.at,
        chat_id=written.conversation_id or "" if chat is not None else "",
        chat_title=chat or "",
        edited_at=edited.at if edited is not None else None,
    )


def _sheet(
    target: Target, data: PanelData, opened: Opened, new_entries: frozenset[tuple[Target, str]], *, can_write: bool
) -> SheetView:
    memory = data.memory
    if memory.snapshot is None:
        return presenting.unreadable_sheet(target)
    return presenting.sheet(
        target,
        memory.snapshot,
        lambda target, text: entry_digest(memory.digest_key, target, text).hex(),
        can_write=can_write,
        opened=(opened.digest, opened.form) if opened.form is not EntryForm.NONE else None,
        draft=opened.draft,
        problem=opened.problem,
        origin=data.origin,
        is_adding=opened.add == target and can_write,
        new_texts={text for where, text in new_entries if where is target},
        held_back={text: words.HELD_BACK for text in memory.snapshot.of(target) if is_held_back(text)},
    )


def _resting(*, is_on: bool, is_enabled: bool) -> NoticeView | None:
    """Why the agent does nothing with memory, if so."""
    if not is_enabled:
        return NoticeView(words.MEMORY_RESTING, tone="caution")
    return None if is_on else NoticeView(words.MEMORY_OFF)
