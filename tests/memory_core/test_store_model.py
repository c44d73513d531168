"""The store held against a model of ten lines, in any order of whatever can happen to one person's memory."""

import itertools
from dataclasses import dataclass, field

import sqlalchemy as sa
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule, run_state_machine_as_test
from sqlalchemy.engine import Engine

from memory_core.database.tables import agent_memory, owners
from memory_core.document import LIMITS, Snapshot, Target, count, render
from memory_core.errors import OperationRefused, ReceiptGone
from memory_core.operations import Change, Operation, apply_operations, ensure_unchanged_since, inverse_operations
from memory_core.owner import Actor
from memory_core.receipts import find_receipts, forget_receipt, sweep_expired_undo
from memory_core.store import change_entry, forget_everything, read_snapshot
from tests.database import OrganizationForTests
from tests.memory_core.keeping import Keeper
from tests.memory_core.strategies import accepted, batches, entries, targets

WILLING = (Actor.AGENT, Actor.PERSON, Actor.OPERATOR, Actor.APPROVAL)


@dataclass
class Model:
    """What should be stored: the documents, each receipt's changes (None: cannot be undone), and what was let go."""

    snapshot: Snapshot = field(default_factory=Snapshot)
    version: int = 0
    receipts: dict[str, tuple[Change, ...] | None] = field(default_factory=dict)
    gone: set[tuple[Target, str]] = field(default_factory=set)

    def change(self, after: Snapshot, changes: tuple[Change, ...]) -> None:
        self.snapshot, self.version = after, self.version + 1
        self.gone |= {(change.target, change.before) for change in changes if change.before is not None}
        self.gone -= {(target, change.after) for change in changes if change.after is not None for target in Target}


class StoreMachine(RuleBasedStateMachine):
    """One person. Every rule does the same to the store and to the model; every invariant compares them."""

    engine: Engine
    organization: OrganizationForTests
    subjects = itertools.count()

    def __init__(self) -> None:
        super().__init__()
        self.keeper = Keeper(self.engine, self.organization, f"person {next(self.subjects)}")
        self.model = Model()

    @rule(data=st.data(), actor=st.sampled_from(WILLING))
    def commit_what_fits(self, data: st.DataObject, actor: Actor) -> None:
        self._commit(data.draw(accepted(self.model.snapshot)), actor)

    @rule(batch=batches, actor=st.sampled_from(WILLING))
    def commit_anything(self, batch: tuple[Operation, ...], actor: Actor) -> None:
        self._commit(batch, actor)

    def _commit(self, batch: tuple[Operation, ...], actor: Actor) -> None:
        try:
            expected = apply_operations(self.model.snapshot, batch)
        except OperationRefused:
            expected = self.model.snapshot
        try:
            committed = self.keeper.commit(*batch, actor=actor)
        except OperationRefused:
            assert expected == self.model.snapshot
            return
        assert (committed is None) == (set(_pairs(expected)) == set(_pairs(self.model.snapshot)))
        if committed is not None:
            assert (committed.before, committed.after) == (self.model.snapshot, expected)
            self.model.change(expected, committed.changes)
            self.model.receipts[committed.receipt_id] = committed.changes

    @rule(document=targets, place=st.integers(0, 6), content=entries | st.none())
    def edit_or_remove_by_hand(self, document: Target, place: int, content: str | None) -> None:
        stored = self.model.snapshot.of(document)
        text = stored[place] if place < len(stored) else "never stored"
        digest = self.keeper.digest(text, document)
        try:
            committed = self.keeper.do(lambda unit: change_entry(unit, document, digest, content, undo_hours=24))
        except OperationRefused:
            return
        assert place < len(stored)
        if committed is not None:
            kept = [content if entry == text else entry for entry in stored]
            expected = self.model.snapshot.with_(document, [entry for entry in kept if entry is not None])
            assert committed.after == expected
            self.model.change(expected, committed.changes)
            self.model.receipts[committed.receipt_id] = committed.changes

    @precondition(lambda self: self.model.receipts)
    @rule(data=st.data())
    def undo(self, data: st.DataObject) -> None:
        receipt_id = data.draw(st.sampled_from(list(self.model.receipts)))
        changes = self.model.receipts[receipt_id]
        try:
            undone = self.keeper.undo(receipt_id)
        except ReceiptGone:
            assert changes is None
        except OperationRefused:
            assert changes is not None
            assert self._refuses(changes)
        else:
            assert changes is not None
            assert not self._refuses(changes)
            self.model.change(undone.after, undone.changes)
            self.model.receipts[receipt_id] = None
            self.model.receipts[undone.receipt_id] = None

    @precondition(lambda self: self.model.receipts)
    @rule(data=st.data())
    def forget_a_receipt(self, data: st.DataObject) -> None:
        receipt_id = data.draw(st.sampled_from(list(self.model.receipts)))
        changes = self.model.receipts[receipt_id] or ()
        self.keeper.do(lambda unit: forget_receipt(unit, receipt_id))
        self.model.receipts[receipt_id] = None
        words = {(change.target, text) for change in changes for text in (change.before, change.after) if text}
        dead = words - set(_pairs(self.model.snapshot))
        for other, theirs in self.model.receipts.items():
            if theirs and any((change.target, change.after) in dead for change in theirs):
                self.model.receipts[other] = None

    @precondition(lambda self: self.model.receipts)
    @rule(data=st.data(), sweeps=st.booleans())
    def let_time_pass(self, data: st.DataObject, sweeps: bool) -> None:
        expired = data.draw(st.lists(st.sampled_from(list(self.model.receipts)), unique=True))
        self.keeper.expire(expired)
        self.model.receipts |= dict.fromkeys(expired)
        if sweeps:
            sweep_expired_undo(self.engine)

    @rule()
    def forget_everything(self) -> None:
        self.model.gone |= set(_pairs(self.model.snapshot))
        assert self.keeper.do(forget_everything) == len(_pairs(self.model.snapshot))
        self.model.snapshot, self.model.version, self.model.receipts = Snapshot(), self.model.version + 1, {}

    @invariant()
    def everything_is_as_the_model_says(self) -> None:
        with self.engine.connect() as connection:
            assert read_snapshot(connection, self.keeper.id) == self.model.snapshot
            stored = {
                row.memory_type: row.content
                for row in connection.execute(sa.select(agent_memory).where(agent_memory.c.user_id == self.keeper.id))
            }
            version = connection.execute(sa.select(owners.c.version).where(owners.c.id == self.keeper.id)).scalar()
            receipts = {
                receipt.id: receipt
                for receipt in find_receipts(connection, self.keeper.id, receipt_ids=self.model.receipts)
            }
            tombstones = self.keeper.tombstones
        kept = {target: self.model.snapshot.of(target) for target in Target if self.model.snapshot.of(target)}
        assert stored == {str(target): render(texts) for target, texts in kept.items()}
        assert all(count(texts) <= LIMITS[target] for target, texts in kept.items())
        assert version == self.model.version
        assert tombstones == {self.keeper.digest(text, target) for target, text in self.model.gone}
        assert receipts.keys() == self.model.receipts.keys()
        for receipt_id, changes in self.model.receipts.items():
            assert receipts[receipt_id].can_be_undone == (changes is not None)
            assert changes is None or receipts[receipt_id].changes == changes

    def _refuses(self, changes: tuple[Change, ...]) -> bool:
        """Whether today's rules refuse to take these changes back."""
        try:
            ensure_unchanged_since(self.model.snapshot, changes)
            apply_operations(self.model.snapshot, inverse_operations(changes))
        except OperationRefused:
            return True
        return False


def _pairs(snapshot: Snapshot) -> list[tuple[Target, str]]:
    return [(target, text) for target in Target for text in snapshot.of(target)]


def test_the_store_is_its_model(engine: Engine, organization: OrganizationForTests) -> None:
    """Commits, edits by hand, undos, forgetting, time and sweeps in any order leave what the model says."""
    machine = type("Machine", (StoreMachine,), {"engine": engine, "organization": organization})
    run_state_machine_as_test(
        machine,
        settings=settings(
            max_examples=30,
            stateful_step_count=25,
            deadline=None,
            suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
        ),
    )
