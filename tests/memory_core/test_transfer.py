"""Documents as files: generous reading, exact round trips, and one in the place of another."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from sqlalchemy.engine import Engine

from memory_core.database.transaction import transaction
from memory_core.document import LIMITS, Snapshot, Target, render
from memory_core.errors import AlreadyInitialized, OperationRefused, RefusalCode
from memory_core.operations import Action, Operation, apply_operations
from memory_core.owner import Actor
from memory_core.receipts import find_latest_import, undo_receipt
from memory_core.seeding import MAX_ENTRIES, seed_memory
from memory_core.store import commit_batches, forget_everything, read_snapshot, set_modes
from memory_core.transfer import read_entries, replace_memory
from tests.database import OrganizationForTests

NEW = {Target.USER: ["Likes tea.", "Keeps bees."], Target.MEMORY: ["Uses make."]}


@given(st.lists(st.text(st.characters(codec="utf-8"), min_size=1, max_size=40), max_size=6))
def test_what_the_rules_store_comes_back_from_its_file(texts: list[str]) -> None:
    """Whatever of it may be stored: rendered and read, entry for entry."""
    snapshot = Snapshot()
    for text in texts:
        try:
            snapshot = apply_operations(snapshot, [Operation(Target.USER, Action.ADD, content=text)])
        except OperationRefused:
            continue
    assert read_entries(render(snapshot.user)) == snapshot.user


@pytest.mark.parametrize(
    ("text", "entries"),
    [
        ("", ()),
        ("\n§\n", ()),
        ("a", ("a",)),
        ("a\r\n§\r\nb\r\n", ("a", "b")),
        ("  a  \n  §  \n\n b\nc \n", ("a", "b\nc")),
        ("§\na\n§\n§\nb\n§", ("a", "b")),
        ("a § b\n§ c", ("a § b\n§ c",)),
    ],
)
def test_files_are_read_generously(text: str, entries: tuple[str, ...]) -> None:
    """Line breaks, white space and empty entries do not matter; a sign within a line is no delimiter."""
    assert read_entries(text) == entries


class TestSeeding:
    """The beginning of a memory."""

    @pytest.mark.invariant("I29")
    def test_a_seed_is_stored_once(self, engine: Engine, organization: OrganizationForTests) -> None:
        """Both documents, by an operator; a second one is refused and changes nothing."""
        owner = organization.owner()
        first = transaction(engine, lambda unit: seed_memory(unit, NEW), owner=owner, create_owner=True)
        assert first.undo_until is None
        with pytest.raises(AlreadyInitialized):
            transaction(engine, lambda unit: seed_memory(unit, {Target.USER: ["Other."]}), owner=owner)
        stored = transaction(engine, lambda unit: read_snapshot(unit.connection, unit.locked_owner.id), owner=owner)
        assert stored == Snapshot(user=("Likes tea.", "Keeps bees."), memory=("Uses make.",))

    @pytest.mark.invariant("I29")
    @pytest.mark.parametrize("earlier", ["entry", "forgotten"])
    def test_whoever_was_here_is_not_seeded(
        self, engine: Engine, organization: OrganizationForTests, earlier: str
    ) -> None:
        """An entry made by hand, also when everything was forgotten since."""
        owner, batch = organization.owner(), [Operation(Target.USER, Action.ADD, content="Hello.")]
        transaction(
            engine,
            lambda unit: commit_batches(unit, [batch], actor=Actor.PERSON, undo_hours=0),
            owner=owner,
            create_owner=True,
        )
        if earlier == "forgotten":
            transaction(engine, forget_everything, owner=owner)
        with pytest.raises(AlreadyInitialized):
            transaction(engine, lambda unit: seed_memory(unit, NEW), owner=owner)

    @pytest.mark.invariant("I29")
    def test_a_choice_of_mode_is_no_activity(self, engine: Engine, organization: OrganizationForTests) -> None:
        """Whoever has only looked around can still be seeded."""
        owner = organization.owner()
        transaction(engine, lambda unit: set_modes(unit, memory_mode=None), owner=owner, create_owner=True)
        assert transaction(engine, lambda unit: seed_memory(unit, NEW), owner=owner) is not None

    @pytest.mark.parametrize(
        ("entries", "target", "index", "code"),
        [
            ({Target.USER: ["a", "b", "x\u200by"]}, Target.USER, 2, RefusalCode.ENTRY_CONTROL),
            ({Target.USER: ["a"], Target.MEMORY: ["b", "  "]}, Target.MEMORY, 1, RefusalCode.ENTRY_EMPTY),
            ({Target.MEMORY: ["x" * (LIMITS[Target.MEMORY] + 1)]}, Target.MEMORY, None, RefusalCode.CAPACITY_EXCEEDED),
            ({Target.USER: ["a"] * (MAX_ENTRIES[Target.USER] + 1)}, Target.USER, None, RefusalCode.BATCH_SIZE),
            ({}, None, None, RefusalCode.BATCH_SIZE),
            ({Target.USER: [], Target.MEMORY: []}, None, None, RefusalCode.BATCH_SIZE),
        ],
    )
    def test_a_refused_seed_names_the_entry_and_leaves_nobody(
        self,
        engine: Engine,
        organization: OrganizationForTests,
        entries: dict[Target, list[str]],
        target: Target | None,
        index: int | None,
        code: RefusalCode,
    ) -> None:
        """The index within its document; and the owner can still be seeded."""
        owner = organization.owner()
        with pytest.raises(OperationRefused) as raised:
            transaction(engine, lambda unit: seed_memory(unit, entries), owner=owner, create_owner=True)
        assert (raised.value.code, raised.value.target, raised.value.operation) == (code, target, index)
        assert transaction(engine, lambda unit: seed_memory(unit, NEW), owner=owner, create_owner=True) is not None

    def test_as_many_entries_as_fit_are_taken(self, engine: Engine, organization: OrganizationForTests) -> None:
        """The most there can be: one character each."""
        most = [chr(0x4E00 + number) for number in range(MAX_ENTRIES[Target.USER])]
        committed = transaction(
            engine, lambda unit: seed_memory(unit, {Target.USER: most}), owner=organization.owner(), create_owner=True
        )
        assert len(committed.after.user) == len(most)


def test_files_take_the_place_of_memory_and_can_be_undone(engine: Engine, organization: OrganizationForTests) -> None:
    """In the order of the file; what was there comes back with Undo; the same again changes nothing."""
    owner = organization.owner()
    before = {Target.USER: ["Likes tea.", "Likes jazz."], Target.MEMORY: ["Old."]}
    transaction(engine, lambda unit: seed_memory(unit, before), owner=owner, create_owner=True)

    changed = transaction(engine, lambda unit: replace_memory(unit, NEW, undo_hours=24), owner=owner)
    again = transaction(engine, lambda unit: replace_memory(unit, NEW, undo_hours=24), owner=owner)

    assert changed is not None
    assert again is None
    assert changed.after == Snapshot(user=("Likes tea.", "Keeps bees."), memory=("Uses make.",))
    told = transaction(engine, lambda unit: find_latest_import(unit.connection, unit.locked_owner.id), owner=owner)
    assert told is not None
    undone = transaction(engine, lambda unit: undo_receipt(unit, told.id), owner=owner)
    assert set(undone.after.user) == set(before[Target.USER])
    assert undone.after.memory == ("Old.",)
    assert (
        transaction(engine, lambda unit: find_latest_import(unit.connection, unit.locked_owner.id), owner=owner) is None
    )


def test_files_that_are_refused_leave_memory_as_it_is(engine: Engine, organization: OrganizationForTests) -> None:
    """The entry is named by its place in its file."""
    owner = organization.owner()
    transaction(engine, lambda unit: seed_memory(unit, NEW), owner=owner, create_owner=True)
    wrong = {Target.USER: ["Fine."], Target.MEMORY: ["Fine.", "<|im_start|>"]}
    with pytest.raises(OperationRefused) as raised:
        transaction(engine, lambda unit: replace_memory(unit, wrong, undo_hours=24), owner=owner)
    assert (raised.value.target, raised.value.operation) == (Target.MEMORY, 1)
    stored = transaction(engine, lambda unit: read_snapshot(unit.connection, unit.locked_owner.id), owner=owner)
    assert stored.user == ("Likes tea.", "Keeps bees.")
