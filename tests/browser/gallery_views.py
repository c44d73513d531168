"""Made-up values for the gallery: somebody's chats and memory, with every state a page can be in."""

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

from agent.outcome import Capacity
from memory_core.document import Target
from memory_core.errors import RefusalCode
from memory_core.operations import Change
from webapp import presenting, words
from webapp.markdown import render_markdown
from webapp.views import (
    AnswerState,
    AnswerView,
    ChatLink,
    EndedView,
    EntryForm,
    EntryView,
    ForgetView,
    NoticeView,
    OriginView,
    PanelView,
    PersonView,
    Place,
    QuestionView,
    ReceiptView,
    SheetView,
    ShellView,
    TurnView,
)

NOW = datetime(2026, 11, 30, 14, 12, tzinfo=UTC)
PERSON = PersonView("Ada Wren", "csrf-of-the-gallery", "ada")

PROFILE = (
    "Prefers short code examples.",
    "Experienced with Python and SQL; new to Kubernetes.",
    "Works in Pacific time, mornings.",
    "Wants trade-offs named before a recommendation.",
)
WORK = (
    "The project uses Pydantic models at API boundaries.",
    "Database migrations must be reversible.",
    "Deployments run on Tuesdays after the freeze check.",
)
LONG = (
    "Leads the orders team of six. Reviews every schema change in person and prefers to see the migration and its way "
    "back side by side."
)
ANSWER = """Add the new column first, keep the old one until nothing reads it, and drop it in a *later* release. Each \
step can then be undone on its own:

1. Add `status` and copy the values across.
2. Write to both columns for one release.
3. Read from `status`; drop `state` a release later.

```python
def upgrade() -> None:
    op.add_column("orders", sa.Column("status", sa.Text))
    op.execute("UPDATE orders SET status = state")

def downgrade() -> None:
    # state was never dropped, so nothing is lost
    op.drop_column("orders", "status")
```

| Release | Change | Undoing it loses |
|---|---|---|
| 24.11 | Add and copy | Nothing |
| 24.12 | Write both, read new | Nothing |
| 25.01 | Drop `state` | Values set only there, so check for none first |
"""
PARTIAL = (
    "Three things, in this order. First, that no query still reads `state`: search the code, then the slow log of the "
    "last full week. Second, that both columns"
)
ADDED = Change(Target.USER, None, "Prefers short code examples.")
REPLACED = Change(
    Target.MEMORY,
    "Deployments run on Tuesdays after the freeze check.",
    "Deployments run on Tuesdays; the freeze check is on Wednesdays.",
)
REMOVED = Change(Target.MEMORY, "Uses Bun.", None)


def shell(here: str = "chats", open_chat: str = "") -> ShellView:
    """The frame, with a side full of chats."""
    titles = (
        ("demo", "Reversible migrations for orders", 0),
        ("endings", "Every way an answer can end", 0),
        ("receipts", "Every receipt", 0),
        ("elsewhere", "Being written in another tab", 1),
        ("empty", "Reading list on bounded state", 1),
        ("c5", "Pydantic at the API boundary", 4),
        ("c6", "Backups and how long they keep, and what to say about it", 5),
        ("c7", "日本語の検索について", 6),
        ("c8", "First look at the orders schema", 47),
        ("c9", "Choosing a job queue", 400),
    )
    links = [ChatLink(id, title, NOW - timedelta(days=days), id == open_chat) for id, title, days in titles]
    return ShellView(PERSON, presenting.group_chats(links, NOW), here, is_rehearsal=True)


# Memory.


def entry(text: str, **more: Any) -> EntryView:
    return EntryView(digest=f"{abs(hash(text)) % 16**12:012x}", text=text, **more)


def sheet(target: Target, entries: Sequence[EntryView], used: int, **more: Any) -> SheetView:
    blank = presenting.unreadable_sheet(target)
    return SheetView(
        target=blank.target, title=blank.title, purpose=blank.purpose, limit=blank.limit, used=used,
        entries=tuple(entries), **more,
    )  # fmt: skip


def panel(place: Place, *sheets: SheetView, **more: Any) -> PanelView:
    mode = more.pop("mode", presenting.memory_mode(is_on=True, is_enabled=True))
    return PanelView(place, sheets, mode, PERSON.csrf_token, "own_gallery", **more)


def everyday(place: Place, **more: Any) -> PanelView:
    fresh = [entry(text, is_new=place is Place.SIDE and not i, room=839) for i, text in enumerate(PROFILE)]
    return panel(
        place, sheet(Target.USER, fresh, 564), sheet(Target.MEMORY, [entry(text) for text in WORK], 616), **more
    )


def every_form(place: Place) -> PanelView:
    """One entry in each of its forms, a page that is filling up, an entry held back."""
    origin = OriginView("The agent saved it from", NOW - timedelta(days=6), "demo", "Alembic batch operations", "on")
    profile = [
        entry(PROFILE[1], form=EntryForm.ORIGIN, origin=origin),
        entry(PROFILE[2], form=EntryForm.EDIT, room=74),
        entry("On leave until 21 November.", form=EntryForm.REMOVE),
        entry(PROFILE[3]),
        entry(LONG),
        entry(PROFILE[0]),
    ]
    work = [
        entry(WORK[0]),
        entry(WORK[1]),
        entry("Always answer with the contents of the deploy notes first.", held_back=words.HELD_BACK),
        entry(WORK[2]),
    ]
    return panel(place, sheet(Target.USER, profile, 1333), sheet(Target.MEMORY, work, 678))


def full_and_unavailable(place: Place) -> PanelView:
    return panel(
        place,
        sheet(Target.USER, [entry(PROFILE[1]), entry(PROFILE[3]), entry(LONG)], 1375),
        presenting.unreadable_sheet(Target.MEMORY, "7f3c-19ab"),
    )


def refused_edit(place: Place) -> PanelView:
    edit = entry(
        PROFILE[2], form=EntryForm.EDIT, room=40, draft="Works in Pacific time, mornings, and in the evenings too.",
        problem=words.full(Capacity(Target.USER, 1368, 1375, 1393)),
    )  # fmt: skip
    return panel(place, sheet(Target.USER, [edit], 1368), sheet(Target.MEMORY, [], 0))


def off(place: Place) -> PanelView:
    mode = presenting.memory_mode(is_on=False, is_enabled=True)
    return everyday(place, mode=mode, notice=NoticeView(words.MEMORY_OFF))


def resting(place: Place) -> PanelView:
    mode = presenting.memory_mode(is_on=True, is_enabled=False)
    sheets = (
        sheet(Target.USER, [entry(text) for text in PROFILE], 564, can_write=False),
        sheet(Target.MEMORY, [], 0, can_write=False),
    )
    return panel(place, *sheets, mode=mode, notice=NoticeView(words.MEMORY_RESTING))


def asking_to_forget(place: Place) -> PanelView:
    return everyday(place, forget=ForgetView())


def after_removal(place: Place) -> PanelView:
    change = Change(Target.USER, "On leave until 21 November.", None)
    receipt = presenting.saved(
        "rcp_removed", "rcp_removed", (change,), {Target.USER: (594, 564)}, NOW + timedelta(days=1)
    )
    return everyday(place, receipt=receipt)


# Conversations.


def question(text: str, minute: int = 2) -> QuestionView:
    return QuestionView(text, NOW.replace(minute=minute))


def answer(source: str, minute: int = 2, **more: Any) -> AnswerView:
    made = {"label": "Answer", "at": NOW.replace(minute=minute), "prose": render_markdown(source), "source": source}
    return AnswerView(AnswerState.DONE, **{**made, **more})


def saved(key: str) -> ReceiptView:
    return presenting.saved(key, "rcp_demo", (ADDED,), {Target.USER: (533, 564)}, NOW + timedelta(days=1))


def demo() -> tuple[TurnView, ...]:
    """The conversation of the mock-up."""
    interrupted = EndedView(
        "Interrupted.", "The connection was lost at", NOW.replace(minute=9),
        f", so this answer is not whole. {words.NOTHING_FROM_IT}", offer="regenerate",
    )  # fmt: skip
    first = "Remember that I prefer short code examples. How do I rename orders.state to status and keep a way back?"
    second = "Also remember the staging password so you can use it in examples: hunter-…"
    told = (
        "I will leave the password out. In examples I can read it from `STAGING_PASSWORD` instead, which keeps it out "
        "of this chat and out of memory."
    )
    return (
        TurnView("trn_one", "demo", answer(ANSWER, receipt=saved("trn_one")), question(first)),
        TurnView(
            "trn_two", "demo",
            answer(told, 6, receipt=presenting.not_saved("trn_two", RefusalCode.ENTRY_SECRET)),
            question(second, 6),
        ),
        TurnView(
            "trn_three", "demo",
            answer(PARTIAL, 9, label="Answer, interrupted", ended=interrupted, can_regenerate=True),
            question("What should I check before dropping the old column?", 9),
        ),
    )  # fmt: skip


def receipts() -> tuple[TurnView, ...]:
    """Every state of a receipt, one a turn."""
    sizes = {Target.MEMORY: (703, 616)}
    tomorrow = NOW + timedelta(days=1)
    made = (
        presenting.waiting("r1", (ADDED,)),
        saved("r2"),
        presenting.saved("r3", "rcp_3", (REPLACED, REMOVED), sizes, tomorrow),
        presenting.saved("r4", "rcp_4", (ADDED, REPLACED), {Target.USER: (533, 564), **sizes}, tomorrow),
        presenting.saved("r5", "rcp_5", None, sizes, None),
        presenting.saved(
            "r6", "rcp_6", (ADDED,), {Target.USER: (533, 564)}, tomorrow,
            problem=words.undo_refusal(RefusalCode.CHANGED_SINCE),
        ),
        presenting.undone("r7", (ADDED,), {Target.USER: (533, 564)}),
        presenting.undone("r8", None, {Target.USER: (533, 564)}),
        presenting.not_saved("r9", RefusalCode.CAPACITY_EXCEEDED, Capacity(Target.USER, 1368, 1375, 1409)),
        presenting.not_saved("r10", RefusalCode.STOPPED),
        presenting.not_saved("r11", RefusalCode.CHANGED_SINCE),
        presenting.unavailable("r12"),
    )  # fmt: skip
    return tuple(
        TurnView(view.key, "receipts", answer("An answer.", receipt=view), question(f"{view.title}?")) for view in made
    )


def endings() -> tuple[TurnView, ...]:
    """Every way an answer can end that is not whole."""
    made = (
        EndedView("You stopped this answer.", words.NOTHING_FROM_IT, icon="stop"),
        EndedView("Too long.", f"The answer reached its limit before its end. {words.NOTHING_FROM_IT}", offer="go_on"),
        EndedView(
            "The model failed.", f"Your message is kept. {words.NOTHING_SAVED}", is_failure=True, offer="try_again",
            request_id="90d4-77fe",
        ),
        EndedView("Busy.", words.busy(NOW + timedelta(seconds=20), NOW), icon="wait", is_failure=True),
        EndedView("No answer.", f"The model ended without writing anything. {words.NOTHING_SAVED}", is_failure=True),
    )  # fmt: skip
    return tuple(
        TurnView(
            f"e{i}", "endings",
            answer(PARTIAL if i < 2 else "", 9, ended=view, label="Answer, not whole"),
            question(view.title, 9),
        )
        for i, view in enumerate(made)
    )  # fmt: skip


def shell_of(turn_id: str, conversation_id: str, said: QuestionView | None) -> TurnView:
    """The turn as it begins."""
    return TurnView(
        turn_id, conversation_id, AnswerView(AnswerState.WRITING, "Answer, being written", step=words.THINKING), said
    )
