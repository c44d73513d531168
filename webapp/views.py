"""What the templates need, and nothing else: frozen values without SQL, HTTP or decisions.

Sentences arrive finished (``words.py`` chooses them); times arrive with their zone and are shown in the reader's own.
Where a field holds a person's words its ``repr`` leaves them out. ``presenting.py`` makes these values from the
domain's; the browser tests make them up.
"""

from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum

from markupsafe import Markup

# Around every page.


@dataclass(frozen=True, slots=True)
class PersonView:
    """Who is signed in. ``draft_scope`` is opaque and stable: unsent messages are kept under it, so that the next
    person at the same tab does not meet them."""

    name: str
    csrf_token: str = field(repr=False)
    draft_scope: str = ""
    is_operator: bool = False


@dataclass(frozen=True, slots=True)
class ChatLink:
    """One conversation in the navigation; ``at`` is its last turn."""

    id: str
    title: str = field(repr=False)
    at: datetime
    is_open: bool = False


@dataclass(frozen=True, slots=True)
class ChatGroup:
    """Conversations of one stretch of time, newest first."""

    label: str
    chats: tuple[ChatLink, ...]


@dataclass(frozen=True, slots=True)
class ShellView:
    """The frame of every page behind sign-in. ``here`` is ``chats``, ``memory`` or ``operator``."""

    person: PersonView
    groups: tuple[ChatGroup, ...] = ()
    here: str = "chats"
    is_rehearsal: bool = False


@dataclass(frozen=True, slots=True)
class NoticeView:
    """A sentence with a mark. ``tone``: plain, record, caution or refused."""

    text: str
    title: str = ""
    tone: str = "plain"
    request_id: str = ""


# Memory: receipts.


class ReceiptState(StrEnum):
    """One picture each; the word beside it always says the same."""

    WAITING = "waiting"
    SAVED = "saved"
    REFUSED = "refused"
    UNDONE = "undone"
    UNAVAILABLE = "unavailable"


@dataclass(frozen=True, slots=True)
class ChangeView:
    """One entry added (no ``before``), replaced or removed (no ``after``). ``document`` is named where several are."""

    before: str | None = field(repr=False)
    after: str | None = field(repr=False)
    document: str = ""


@dataclass(frozen=True, slots=True)
class SizeView:
    """A document before and after a change, in code points."""

    title: str
    before: int
    after: int
    limit: int


@dataclass(frozen=True, slots=True)
class ReceiptView:
    """What happened to memory. ``key`` is the turn's id, or the receipt's own id for a change made by hand.

    ``lead`` goes before the linked ``documents`` ("to", "2 changes to"). ``is_new`` inks it in once, and only on the
    change from waiting to saved. ``can_undo`` and ``can_forget`` are claims of the server, judged again when used.
    ``link`` and ``link_text`` lead on from a refusal. ``agent_id`` is whose memory it concerns.
    """

    key: str
    state: ReceiptState
    title: str
    lead: str = ""
    documents: tuple[tuple[str, str], ...] = ()
    changes: tuple[ChangeView, ...] = ()
    sizes: tuple[SizeView, ...] = ()
    note: str = ""
    link: str = ""
    link_text: str = ""
    problem: str = ""
    receipt_id: str | None = None
    can_undo: bool = False
    can_forget: bool = False
    undo_until: datetime | None = None
    is_new: bool = False
    agent_id: str = ""


# Conversations: questions and answers.


@dataclass(frozen=True, slots=True)
class QuestionView:
    """What the person said."""

    text: str = field(repr=False)
    at: datetime


@dataclass(frozen=True, slots=True)
class EndedView:
    """Why an answer is not whole. ``before`` · ``at`` · ``after`` is one sentence round a time (or none).

    ``offer``: ``regenerate``, ``try_again``, ``go_on`` or nothing.
    """

    title: str
    before: str
    at: datetime | None = None
    after: str = ""
    icon: str = "warn"
    is_failure: bool = False
    offer: str = ""
    request_id: str = ""


class AnswerState(StrEnum):
    """``WRITING``: a stream fills it. ``ELSEWHERE``: it is being written, and this page asks once a second."""

    WRITING = "writing"
    ELSEWHERE = "elsewhere"
    DONE = "done"


@dataclass(frozen=True, slots=True)
class AnswerView:
    """The agent's side of a turn. ``prose`` comes from the sanitizer; ``source`` is the Markdown that *Copy* takes;
    ``step`` is said until the first words come."""

    state: AnswerState
    label: str
    prose: Markup = field(default=Markup(""), repr=False)
    source: str = field(default="", repr=False)
    at: datetime | None = None
    step: str = ""
    receipt: ReceiptView | None = None
    earlier_receipts: tuple[ReceiptView, ...] = ()
    ended: EndedView | None = None
    can_regenerate: bool = False


@dataclass(frozen=True, slots=True)
class TurnView:
    """One question with its answer; a regenerated answer has no question of its own."""

    id: str
    conversation_id: str
    answer: AnswerView
    question: QuestionView | None = None


@dataclass(frozen=True, slots=True)
class AgentChoice:
    """An agent one can talk to."""

    id: str
    name: str
    is_chosen: bool = False


@dataclass(frozen=True, slots=True)
class ChatView:
    """One conversation, with one agent. ``key`` is a fresh idempotency key for the next message."""

    id: str
    title: str = field(repr=False)
    turns: tuple[TurnView, ...]
    panel: "PanelView"
    key: str
    notice: NoticeView | None = None
    draft: str = field(default="", repr=False)


@dataclass(frozen=True, slots=True)
class NewChatView:
    """The page before the first message. ``name`` is what to greet with, or nothing; a starter is sent as it reads.

    ``agents``: those to choose from, if there is a choice.
    """

    name: str
    greeting: str
    panel: "PanelView"
    key: str
    agents: tuple[AgentChoice, ...] = ()
    starters: tuple[str, ...] = ()
    notice: NoticeView | None = None
    draft: str = field(default="", repr=False)


# Memory: the two documents.


@dataclass(frozen=True, slots=True)
class OriginView:
    """Where an entry came from: ``before`` · the chat (if it is still there) · ``after`` · the time · ``last``."""

    before: str
    at: datetime
    chat_id: str = ""
    chat_title: str = field(default="", repr=False)
    after: str = "on"
    last: str = ""


class EntryForm(StrEnum):
    """Which form of an entry is open."""

    NONE = "none"
    EDIT = "edit"
    REMOVE = "remove"
    ORIGIN = "origin"


@dataclass(frozen=True, slots=True)
class EntryView:
    """One entry. ``digest`` names it without its place; ``draft`` and ``problem`` come back with a refused edit.

    ``room``: code points its text may have at most.
    """

    digest: str
    text: str = field(repr=False)
    form: EntryForm = EntryForm.NONE
    room: int = 0
    is_new: bool = False
    held_back: str = ""
    origin: OriginView | None = None
    draft: str | None = field(default=None, repr=False)
    problem: str = ""


@dataclass(frozen=True, slots=True)
class AddView:
    """The open form for a new entry, with what was typed if it was refused."""

    room: int
    draft: str = field(default="", repr=False)
    problem: str = ""


class Metered:
    """What has a meter: ``used`` of a ``limit``, in code points; None: not known. The colours turn alike everywhere."""

    __slots__ = ()
    used: int | None
    limit: int

    @property
    def low(self) -> int:
        """Where the rule turns to ochre: 85 %, floored."""
        return self.limit * 85 // 100

    @property
    def high(self) -> int:
        """Where it turns to red: 98.5 %, floored."""
        return self.limit * 985 // 1000


@dataclass(frozen=True, slots=True)
class SheetView(Metered):
    """One document as a sheet. ``target`` is ``user`` or ``memory``; unavailable sheets have no size and no acts."""

    target: str
    title: str
    purpose: str
    limit: int
    used: int = 0
    entries: tuple[EntryView, ...] = ()
    adding: AddView | None = None
    is_available: bool = True
    can_write: bool = True
    request_id: str = ""

    @property
    def free(self) -> int:
        return max(0, self.limit - self.used)

    @property
    def is_filling(self) -> bool:
        return self.low < self.used <= self.high

    @property
    def is_full(self) -> bool:
        return self.used > self.high

    @property
    def is_shut(self) -> bool:
        """Not even one character fits beside the separator it would need."""
        return bool(self.entries) and self.free < 4


class Place(StrEnum):
    """Where a panel is drawn: beside a chat, as the whole page, or under the greeting (to read only)."""

    SIDE = "side"
    PAGE = "page"
    NEW = "new"


@dataclass(frozen=True, slots=True)
class ModeView:
    """The memory switch. ``hint`` says what it does, or why it rests."""

    is_on: bool
    hint: str
    is_resting: bool = False


@dataclass(frozen=True, slots=True)
class ForgetView:
    """The open question *Forget everything?*, with its problem if the word was not typed."""

    problem: str = ""


@dataclass(frozen=True, slots=True)
class PanelView:
    """Both sheets and what can be done with them. ``receipt`` is the change just made here, with *Undo*; ``recent``
    are earlier ones that can still be undone.

    ``agent_id`` is whose memory it is; ``agent_name`` says so where there are several agents.
    """

    place: Place
    sheets: tuple[SheetView, ...]
    mode: ModeView
    csrf_token: str = field(repr=False)
    memory_id: str = ""
    agent_id: str = ""
    agent_name: str = ""
    notice: NoticeView | None = None
    receipt: ReceiptView | None = None
    recent: tuple[ReceiptView, ...] = ()
    forget: ForgetView | None = None
