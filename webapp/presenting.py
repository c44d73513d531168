"""From the domain's values to the templates' views. Pure: no SQL, no HTTP, and the clock is handed in."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import UTC, datetime, timedelta

from agent.configuration import AgentVersion
from agent.outcome import CUT_SHORT, Capacity, Ending, MemoryEnding, MemoryOutcome, Outcome, Reason
from memory_core.document import LIMITS, PURPOSES, TITLES, Snapshot, Target, usage
from memory_core.errors import RefusalCode
from memory_core.operations import Change
from memory_core.owner import Actor
from webapp import words
from webapp.views import (
    AddView,
    AgentChoice,
    ChangeView,
    ChatGroup,
    ChatLink,
    EndedView,
    EntryForm,
    EntryView,
    ModeView,
    OriginView,
    ReceiptState,
    ReceiptView,
    SheetView,
    SizeView,
)

#: Code points before and after a change, of each document it touched.
Sizes = Mapping[Target, tuple[int, int]]

SEPARATOR_CHARS = 3


# Receipts.


def waiting(turn_id: str, changes: Sequence[Change]) -> ReceiptView:
    """Staged: the words that would be kept, if this answer ends well."""
    return ReceiptView(
        key=turn_id,
        state=ReceiptState.WAITING,
        title="Waiting for the answer",
        lead=_lead("for", changes),
        documents=_documents(changes),
        changes=_changes(changes),
        note="Kept only if this answer ends well. Stop it, and nothing changes.",
    )


def saved(
    key: str,
    receipt_id: str,
    changes: Sequence[Change] | None,
    sizes: Sizes,
    undo_until: datetime | None,
    *,
    is_new: bool = False,
    problem: str = "",
    has_changed_since: bool = False,
) -> ReceiptView:
    """Committed. ``changes`` is ``None`` when the words are no longer kept; then nothing can be undone either, and a
    change that left every size as it was no longer says where it was made.

    A change made by hand has its receipt's own id for a key, and says what was done; the agent's says that it is saved.
    """
    title, lead = ("Saved", _saved_lead(changes or ())) if key != receipt_id else _by_hand(changes or ())
    documents = _documents(changes) if changes else _touched(sizes)
    return ReceiptView(
        key=key,
        state=ReceiptState.SAVED,
        title=title,
        lead=lead if documents else "",
        documents=documents,
        changes=_changes(changes or ()),
        sizes=_sizes(sizes),
        note=(words.CHANGED_SINCE if has_changed_since else "") if changes else words.WORDS_GONE,
        problem=problem,
        receipt_id=receipt_id,
        can_undo=bool(changes) and undo_until is not None,
        can_forget=bool(changes),
        undo_until=undo_until if changes else None,
        is_new=is_new,
    )


def undone(key: str, changes: Sequence[Change] | None, sizes: Sizes) -> ReceiptView:
    """Taken back. ``sizes`` are those of the undone change: they name its documents when its words are gone."""
    targets = {change.target for change in changes or ()} or set(sizes)
    verb = "hold what they held" if len(targets) > 1 else "holds what it held"
    return ReceiptView(
        key=key,
        state=ReceiptState.UNDONE,
        title="Undone",
        lead=f"{words.listed(targets)} {verb} before",
        changes=_changes(changes or ()),
    )


def not_saved(key: str, code: RefusalCode, capacity: Capacity | None = None) -> ReceiptView:
    """Refused or let go, and why; with the way to the page that was full or has changed."""
    link, link_text = "", ""
    if code is RefusalCode.CAPACITY_EXCEEDED and capacity is not None:
        link, link_text = f"/memory#sheet-{capacity.target}", f"Open {TITLES[capacity.target]}"
    elif code in (RefusalCode.CHANGED_SINCE, RefusalCode.MATCH_NOT_FOUND):
        link, link_text = "/memory", "See it as it is now"
    sentence = words.refusal(code, capacity)
    return ReceiptView(
        key=key, state=ReceiptState.REFUSED, title="Not saved", note=sentence, link=link, link_text=link_text
    )


def unavailable(key: str) -> ReceiptView:
    """Memory could not be read in this turn."""
    return ReceiptView(key=key, state=ReceiptState.UNAVAILABLE, title="Memory is unavailable", note=words.UNAVAILABLE)


def turn_receipt(
    turn_id: str, memory: MemoryEnding, sizes: Sizes, *, is_new: bool = False, is_undone: bool = False
) -> ReceiptView | None:
    """What became of memory in a turn; ``None`` when nothing was proposed and nothing failed.

    A committed change without a receipt was forgotten with everything else.
    """
    if memory.outcome is MemoryOutcome.COMMITTED and is_undone:
        return undone(turn_id, memory.changes or None, sizes)
    if memory.outcome is MemoryOutcome.COMMITTED:
        if memory.receipt_id is None:
            return ReceiptView(turn_id, ReceiptState.UNDONE, "Forgotten", words.FORGOTTEN_SINCE)
        return saved(turn_id, memory.receipt_id, memory.changes or None, sizes, memory.undo_until, is_new=is_new)
    if memory.outcome in (MemoryOutcome.REFUSED, MemoryOutcome.DISCARDED) and memory.reason is not None:
        return not_saved(turn_id, memory.reason, memory.capacity)
    if memory.outcome is MemoryOutcome.UNAVAILABLE:
        return unavailable(turn_id)
    return None


def _lead(word: str, changes: Sequence[Change]) -> str:
    return word if len(changes) < 2 else f"{len(changes)} changes {word}"


def _saved_lead(changes: Sequence[Change]) -> str:
    if len(changes) != 1 or changes[0].before is None:
        return _lead("to", changes)
    return "a removal from" if changes[0].after is None else "a change to"


def _by_hand(changes: Sequence[Change]) -> tuple[str, str]:
    if len(changes) != 1:
        return "Saved", _lead("to", changes)
    if changes[0].before is None:
        return "Added", "to"
    return ("Removed", "from") if changes[0].after is None else ("Changed", "in")


def _documents(changes: Iterable[Change]) -> tuple[tuple[str, str], ...]:
    touched = {change.target for change in changes}
    return tuple((str(target), TITLES[target]) for target in Target if target in touched)


def _touched(sizes: Sizes) -> tuple[tuple[str, str], ...]:
    return tuple((str(target), TITLES[target]) for target in Target if target in sizes)


def _changes(changes: Sequence[Change]) -> tuple[ChangeView, ...]:
    are_several = len({change.target for change in changes}) > 1
    return tuple(
        ChangeView(change.before, change.after, TITLES[change.target] if are_several else "") for change in changes
    )


def _sizes(sizes: Sizes) -> tuple[SizeView, ...]:
    return tuple(
        SizeView(TITLES[target], *sizes[target], LIMITS[target])
        for target in Target
        if target in sizes and sizes[target][0] != sizes[target][1]
    )


# Answers.


def ended(
    ending: Ending,
    now: datetime,
    *,
    ended_at: datetime | None,
    has_text: bool,
    can_regenerate: bool,
    request_id: str = "",
) -> EndedView | None:
    """Why an answer is not whole; ``None`` for one that is."""
    if ending.outcome in (Outcome.COMPLETED, Outcome.RUNNING):
        return None
    again = "regenerate" if can_regenerate else ""
    if ending.outcome is Outcome.STOPPED:
        return EndedView("You stopped this answer.", words.NOTHING_FROM_IT, icon="stop", offer=again)
    if ending.outcome is Outcome.INTERRUPTED:
        lost = "The connection was lost"
        tail = f"so this answer is not whole. {words.NOTHING_FROM_IT}"
        if ended_at is None:
            return EndedView("Interrupted.", f"{lost}, {tail}", offer=again)
        return EndedView("Interrupted.", f"{lost} at", ended_at, f", {tail}", offer=again)
    retry = "try_again" if can_regenerate else ""
    if ending.reason is Reason.BUSY:
        return EndedView("Busy.", words.busy(ending.retry_at, now), icon="wait", is_failure=True, offer=retry)
    title, text = words.halt(ending.reason, has_text)
    if ending.reason is Reason.TOO_LONG and can_regenerate:
        return EndedView(title, text, offer="go_on")
    return EndedView(title, text, is_failure=ending.reason not in CUT_SHORT, offer=retry, request_id=request_id)


# The two documents.


def sheet(
    target: Target,
    snapshot: Snapshot,
    digest: Callable[[Target, str], str],
    *,
    can_write: bool = True,
    opened: tuple[str, EntryForm] | None = None,
    draft: str | None = None,
    problem: str = "",
    origin: OriginView | None = None,
    is_adding: bool = False,
    new_texts: Iterable[str] = (),
    held_back: Mapping[str, str] | None = None,
) -> SheetView:
    """One document. ``digest`` names an entry (hex); ``opened`` is the digest and the form of the one that is open.

    ``draft`` and ``problem`` belong to the open form: of ``opened``, or of the new entry when ``is_adding``.
    """
    size = usage(snapshot, target)
    fresh, held = set(new_texts), held_back or {}

    def entry(text: str) -> EntryView:
        name = digest(target, text)
        form = opened[1] if opened is not None and opened[0] == name else EntryForm.NONE
        return EntryView(
            digest=name,
            text=text,
            form=form,
            room=size.limit - size.used + len(text),
            is_new=text in fresh,
            held_back=held.get(text, ""),
            origin=origin if form is EntryForm.ORIGIN else None,
            draft=draft if form is EntryForm.EDIT else None,
            problem=problem if form is not EntryForm.NONE else "",
        )

    entries = tuple(entry(text) for text in snapshot.of(target))
    room = max(0, size.limit - size.used - (SEPARATOR_CHARS if entries else 0))
    return SheetView(
        target=str(target),
        title=TITLES[target],
        purpose=PURPOSES[target],
        limit=size.limit,
        used=size.used,
        entries=entries,
        adding=AddView(room, draft or "", problem) if is_adding else None,
        can_write=can_write,
    )


def unreadable_sheet(target: Target, request_id: str = "") -> SheetView:
    """A document that cannot be read: no size, no entries, no acts; and never drawn as empty."""
    return SheetView(
        target=str(target),
        title=TITLES[target],
        purpose=PURPOSES[target],
        limit=LIMITS[target],
        is_available=False,
        can_write=False,
        request_id=request_id,
    )


def memory_mode(*, is_on: bool, is_enabled: bool, hint: str = words.MODE_ON) -> ModeView:
    """The memory switch; ``is_enabled`` is the installation's flag, and off outweighs the person's choice."""
    return ModeView(is_on and is_enabled, hint if is_enabled else words.MODE_RESTING, is_resting=not is_enabled)


#: Who wrote an entry: what is said before the chat it came from, and without one.
ORIGINS: dict[Actor, tuple[str, str]] = {
    Actor.AGENT: ("The agent saved it from", "The agent saved it"),
    Actor.PERSON: ("You wrote it here, from", "You wrote it here"),
    Actor.OPERATOR: ("An operator gave it, with", "An operator gave it"),
    Actor.REVIEW: ("A background review saved it from", "A background review saved it"),
    Actor.IMPORT: ("It was imported with", "It was imported"),
    Actor.UNDO: ("It came back by Undo in", "It came back by Undo"),
    Actor.APPROVAL: ("You approved it from", "You approved it"),
}


def origin(
    actor: Actor, at: datetime, *, chat_id: str = "", chat_title: str = "", edited_at: datetime | None = None
) -> OriginView:
    """Which conversation, when and by whom. A deleted conversation is left out."""
    with_chat, alone = ORIGINS[actor]
    last = "You edited it later." if edited_at is not None else ""
    return OriginView(with_chat if chat_id else alone, at, chat_id, chat_title, "on", last)


def unknown_origin(at: datetime) -> OriginView:
    """An entry whose change is not on record."""
    return OriginView("It is not on record where this came from. It was there", at)


# The chats at the side.


def group_chats(chats: Iterable[ChatLink], now: datetime) -> tuple[ChatGroup, ...]:
    """By day, newest first, as ``js/chats.js`` does again in the reader's own zone."""
    groups: dict[str, list[ChatLink]] = {}
    for chat in chats:
        groups.setdefault(_stretch(chat.at.astimezone(UTC), now.astimezone(UTC)), []).append(chat)
    return tuple(ChatGroup(label, tuple(links)) for label, links in groups.items())


def _stretch(at: datetime, now: datetime) -> str:
    days = (now.date() - at.date()) // timedelta(days=1)
    if days <= 0:
        return "Today"
    if days == 1:
        return "Yesterday"
    if days < 7:
        return "Last seven days"
    return f"{at:%B}" if at.year == now.year else f"{at:%B %Y}"


def agent_choices(agents: Iterable[AgentVersion], chosen: str) -> tuple[AgentChoice, ...]:
    """The agents of a combobox, one of them chosen."""
    return tuple(AgentChoice(agent.agent_id, agent.configuration.name, agent.agent_id == chosen) for agent in agents)
