"""What changes while somebody plays with the gallery: its memory, its turns, and what it was sent."""

import asyncio
from dataclasses import dataclass, field

from memory_core.document import Snapshot, Target, count
from memory_core.operations import Change, Operation, trace_operations
from tests.browser import gallery_views as made
from webapp import presenting, words
from webapp.views import (
    EntryForm,
    ForgetView,
    NoticeView,
    OriginView,
    PanelView,
    Place,
    ReceiptView,
    SheetView,
    TurnView,
)


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
            target, self.memory, digest, opened=opened, draft=None if draft is None else str(draft), problem=problem,
            origin=origin, is_adding=query.get("add") == target,
        )  # fmt: skip


def digest(target: Target, text: str) -> str:
    return f"{target}{text.encode().hex()[-24:]}"
