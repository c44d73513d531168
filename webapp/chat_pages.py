"""A chat as views: the list at the side, the conversation, its answers with their receipts, and the panel beside it.

Everything a page shows comes from one read transaction, so that answer, receipt and panel agree.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime

from sqlalchemy.engine import Connection

from agent.outcome import Ending, MemoryOutcome, Outcome
from agent.transcript import (
    Conversation,
    ConversationSummary,
    TurnRecord,
    find_conversation,
    list_conversations,
)
from memory_core.ids import new_id
from memory_core.owner import Owner
from memory_core.receipts import Receipt, find_receipts
from webapp import presenting, words
from webapp.auth.person import Person
from webapp.markdown import render_markdown
from webapp.memory_pages import Opened, PanelData, panel_view, person_view, read_panel, receipt_view
from webapp.settings import Settings
from webapp.views import (
    AnswerState,
    AnswerView,
    ChatGroup,
    ChatLink,
    ChatView,
    NewChatView,
    NoticeView,
    PanelView,
    Place,
    QuestionView,
    ReceiptView,
    ShellView,
    TurnView,
)


@dataclass(frozen=True, slots=True)
class ChatData:
    """What one read brings for a page: the chats, the panel, and the conversation with its receipts if one is open."""

    chats: tuple[ConversationSummary, ...]
    panel: PanelData
    conversation: Conversation | None = None
    receipts: Mapping[str, Receipt] = field(default_factory=dict)

    def turn(self, turn_id: str) -> TurnRecord | None:
        """A turn of the conversation that was read."""
        found = self.conversation.turns if self.conversation is not None else ()
        return next((turn for turn in found if turn.id == turn_id), None)


def read_chat(
    connection: Connection, owner: Owner, conversation_id: str | None, *, around: str | None = None
) -> ChatData:
    """Read a chat page. ``conversation`` is None when there is none of that name for this person.

    The panel is that of the conversation's agent; before a first message, that of the owner's. ``around`` a turn's id:
    only what concerns this turn, and not the list of chats.
    """
    chats = list_conversations(connection, owner) if around is None else ()
    conversation = None
    if conversation_id is not None:
        conversation = find_conversation(connection, owner, conversation_id, around=around)
    if conversation is not None:
        owner = replace(owner, agent_id=conversation.agent_id)
    panel = read_panel(connection, owner, Opened())
    if conversation is None or panel.memory.owner_id is None:
        return ChatData(chats, panel)
    receipts = find_receipts(connection, panel.memory.owner_id, conversation_id=conversation.id)
    beside = {receipt.turn_id or "": receipt.beside(panel.memory.snapshot) for receipt in receipts}
    return ChatData(chats, panel, conversation, beside)


@dataclass(frozen=True, slots=True)
class ChatPages:
    """Makes views for one person, at one moment."""

    settings: Settings
    person: Person
    now: datetime

    @classmethod
    def at_once(cls, settings: Settings, person: Person) -> "ChatPages":
        return cls(settings, person, datetime.now(UTC))

    def shell(self, data: ChatData, here: str = "chats", open_id: str = "") -> ShellView:
        """The frame of a page."""
        return ShellView(
            person=person_view(self.person, self.settings.secret_key),
            groups=self.groups(data, open_id),
            here=here,
            is_rehearsal=self.settings.uses_rehearsal_model,
        )

    def groups(self, data: ChatData, open_id: str = "") -> tuple[ChatGroup, ...]:
        """The chats at the side, by day."""
        links = (
            ChatLink(chat.id, chat.title or words.UNTITLED, chat.updated_at, chat.id == open_id) for chat in data.chats
        )
        return presenting.group_chats(links, self.now)

    def new(self, data: ChatData, *, notice: NoticeView | None = None, draft: str = "") -> NewChatView:
        """The page before the first message."""
        return NewChatView(
            name=self.person.name or "",
            greeting=words.greeting(self.person.name or ""),
            panel=self.panel(data, Place.NEW),
            key=new_id("key"),
            agents=data.panel.choices,
            starters=words.STARTERS,
            notice=notice,
            draft=draft,
        )

    def chat(self, data: ChatData, *, notice: NoticeView | None = None, draft: str = "") -> ChatView:
        """One conversation, whole. ``data.conversation`` must be there."""
        conversation = data.conversation
        if conversation is None:
            raise ValueError("no conversation was read")
        return ChatView(
            id=conversation.id,
            title=conversation.title or words.UNTITLED,
            turns=tuple(self._turns(data, conversation)),
            panel=self.panel(data, Place.SIDE),
            key=new_id("key"),
            notice=notice,
            draft=draft,
        )

    def panel(self, data: ChatData, place: Place) -> PanelView:
        """Memory beside the chat; what this conversation wrote stands out."""
        standing = (receipt for receipt in data.receipts.values() if receipt.undone_at is None)
        written = frozenset(
            (change.target, change.after) for receipt in standing for change in receipt.changes or () if change.after
        )
        return panel_view(data.panel, self.person, place, is_enabled=self.settings.memory_enabled, new_entries=written)

    def turn(self, data: ChatData, turn_id: str, *, is_new: bool = False) -> TurnView | None:
        """One turn of the conversation that was read. ``is_new`` inks its receipt in: only when it has just been
        saved.
        """
        conversation = data.conversation
        found = (
            (view for view in self._turns(data, conversation, new_id=turn_id if is_new else "")) if conversation else ()
        )
        return next((view for view in found if view.id == turn_id), None)

    def unread_answer(self, ending: Ending) -> AnswerView:
        """An answer whose record cannot be read now: how it ended is known all the same, or it is asked for again."""
        if ending.outcome is Outcome.RUNNING:
            return AnswerView(AnswerState.ELSEWHERE, words.LABELS[Outcome.RUNNING])
        return AnswerView(
            state=AnswerState.DONE,
            label=words.LABELS[ending.outcome],
            at=self.now,
            receipt=None,
            ended=presenting.ended(ending, self.now, ended_at=self.now, has_text=True, can_regenerate=False),
        )

    def _turns(self, data: ChatData, conversation: Conversation, new_id: str = "") -> list[TurnView]:
        shown = [turn for turn in conversation.turns if not turn.superseded]
        views, asked = [], 0
        for turn in shown:
            views.append(
                TurnView(
                    id=turn.id,
                    conversation_id=conversation.id,
                    question=QuestionView(turn.question, turn.asked_at) if turn.question_place != asked else None,
                    answer=_with_agent(
                        self._answer(
                            turn,
                            data.receipts.get(turn.id),
                            earlier=self._standing_receipts(data, conversation, turn),
                            is_last=turn.question_place == conversation.last_place and turn is shown[-1],
                            is_new=turn.id == new_id,
                        ),
                        conversation.agent_id,
                    ),
                )
            )
            asked = turn.question_place
        return views

    def _answer(
        self,
        turn: TurnRecord,
        receipt: Receipt | None,
        *,
        earlier: tuple[ReceiptView, ...],
        is_last: bool,
        is_new: bool,
    ) -> AnswerView:
        ending = turn.ending
        if turn.is_running:
            return AnswerView(AnswerState.ELSEWHERE, words.LABELS[Outcome.RUNNING], earlier_receipts=earlier)
        text = turn.answer or ""
        return AnswerView(
            state=AnswerState.DONE,
            label=words.LABELS[ending.outcome],
            prose=render_markdown(text),
            source=text,
            at=turn.ended_at,
            receipt=self._receipt(turn, receipt, is_new=is_new),
            earlier_receipts=earlier,
            ended=presenting.ended(
                ending, self.now, ended_at=turn.ended_at, has_text=bool(text), can_regenerate=is_last
            ),
            can_regenerate=is_last,
        )

    def _receipt(self, turn: TurnRecord, receipt: Receipt | None, *, is_new: bool) -> ReceiptView | None:
        if receipt is not None:
            return receipt_view(receipt, key=turn.id, is_new=is_new)
        memory = turn.ending.memory
        if memory.outcome is MemoryOutcome.COMMITTED:  # its receipt was erased with everything else
            memory = replace(memory, receipt_id=None, changes=(), undo_until=None)
        return presenting.turn_receipt(turn.id, memory, {})

    def _standing_receipts(
        self, data: ChatData, conversation: Conversation, turn: TurnRecord
    ) -> tuple[ReceiptView, ...]:
        """Changes of answers that were written again and could not be taken back: they stay in sight (R24)."""
        return tuple(
            receipt_view(data.receipts[other.id], key=other.id)
            for other in conversation.turns
            if other.superseded
            and other.question_place == turn.question_place
            and other.id in data.receipts
            and data.receipts[other.id].undone_at is None
        )


def _with_agent(answer: AnswerView, agent_id: str) -> AnswerView:
    """The receipts of an answer lead to the memory of the agent that gave it."""
    receipt = replace(answer.receipt, agent_id=agent_id) if answer.receipt is not None else None
    earlier = tuple(replace(receipt, agent_id=agent_id) for receipt in answer.earlier_receipts)
    return replace(answer, receipt=receipt, earlier_receipts=earlier)
