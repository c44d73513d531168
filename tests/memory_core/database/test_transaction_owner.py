"""transaction() and its owner: who is locked, who is made, who is gone, and who waits for whom."""

import threading

import pytest
import sqlalchemy as sa
from sqlalchemy.engine import Engine

from memory_core.database.tables import owners
from memory_core.database.transaction import Limits, Unit, transaction
from memory_core.errors import OwnerGone, StorageFailed
from memory_core.owner import LearningMode, MemoryMode
from tests.database import OrganizationForTests, rows
from tests.memory_core.database.waiting import WAIT_SECONDS, until_locked
from tests.memory_core.database.work import threads


class TestOwner:
    """The owner's row."""

    def test_an_owner_who_is_not_stored_is_gone(self, engine: Engine, organization: OrganizationForTests) -> None:
        """Without `create_owner` nobody comes into being, and the work does not run."""
        with pytest.raises(OwnerGone):
            transaction(engine, lambda unit: pytest.fail("ran"), owner=organization.owner())
        assert rows(engine, sa.select(owners.c.id)) == []

    def test_a_new_owner_has_the_defaults_and_the_key_of_the_organization(
        self, engine: Engine, organization: OrganizationForTests
    ) -> None:
        """What the lock brings is the row as stored."""
        made = transaction(engine, lambda unit: unit.locked_owner, owner=organization.owner("Ada"), create_owner=True)
        again = transaction(engine, lambda unit: unit.locked_owner, owner=organization.owner("Ada"))
        assert made == again
        assert (made.subject, made.version, made.digest_key) == ("Ada", 0, organization.digest_key)
        assert (made.memory_mode, made.learning_mode) == (MemoryMode.AUTO, LearningMode.AUTO)
        assert (made.first_activity_at, made.seeded_at) == (None, None)
        assert "Ada" not in repr(made)

    @pytest.mark.invariant("I25")
    def test_subjects_that_differ_in_case_or_normal_form_are_different_people(
        self, engine: Engine, organization: OrganizationForTests
    ) -> None:
        """Subjects are compared code point by code point."""
        subjects = ["ada", "Ada", "ada ", "a\u0301da", "\u00e1da", "x" * 255]
        found = {
            transaction(engine, lambda unit: unit.locked_owner, owner=organization.owner(name), create_owner=True).id
            for name in subjects
        }
        assert len(found) == len(subjects)

    def test_two_who_create_the_same_owner_at_once_share_one(
        self, engine: Engine, organization: OrganizationForTests
    ) -> None:
        """Both are inside before either commits: the second waits, and finds the first one's row."""
        first_is_inside, may_leave = threading.Event(), threading.Event()

        def first(unit: Unit) -> str:
            first_is_inside.set()
            assert may_leave.wait(WAIT_SECONDS)
            return unit.locked_owner.id

        owner = organization.owner()
        with threads() as start:
            one = start(transaction, engine, first, owner=owner, create_owner=True)
            assert first_is_inside.wait(WAIT_SECONDS)
            two = start(transaction, engine, lambda unit: unit.locked_owner.id, owner=owner, create_owner=True)
            until_locked(engine)
            may_leave.set()
            assert one.result(WAIT_SECONDS) == two.result(WAIT_SECONDS)
        assert len(rows(engine, sa.select(owners.c.id))) == 1

    def test_a_reference_to_the_owner_waits_for_an_erasure_only(
        self, engine: Engine, organization: OrganizationForTests
    ) -> None:
        """Writers of other tables who only refer to the owner pass the ordinary lock, not the erasing one."""
        owner = organization.owner()
        owner_id = transaction(engine, lambda unit: unit.locked_owner.id, owner=owner, create_owner=True)

        def refer(outer: Unit) -> str | None:
            assert outer.owner is not None
            try:
                transaction(
                    engine,
                    lambda unit: unit.connection.execute(
                        sa.select(owners.c.id).where(owners.c.id == owner_id).with_for_update(read=True, key_share=True)
                    ),
                    limits=Limits(lock_seconds=0.1),
                )
            except StorageFailed as error:
                return error.sqlstate
            return "passed"

        assert transaction(engine, refer, owner=owner) == "passed"
        assert transaction(engine, refer, owner=owner, erase=True) == "55P03"

    def test_a_unit_without_an_owner_says_so(self, engine: Engine) -> None:
        """Asking for the owner of a transaction that locks none is a mistake of the program."""
        with pytest.raises(RuntimeError):
            transaction(engine, lambda unit: unit.locked_owner)
