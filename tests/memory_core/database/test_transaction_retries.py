"""transaction() tried again: after a deadlock or a serialization failure, for so long, and after nothing else."""

import threading
from collections.abc import Callable

import pytest
import sqlalchemy as sa
from sqlalchemy.engine import Connection, Engine

from memory_core.database.tables import agents
from memory_core.database.transaction import Limits, Unit, transaction
from memory_core.errors import MemoryCoreError, OperationRefused, RefusalCode, StorageFailed
from tests.database import OrganizationForTests, engine_on, make_organization, rows
from tests.memory_core.database.waiting import WAIT_SECONDS
from tests.memory_core.database.work import add_agent, fail_with, names, threads


class TestRetries:
    """Exactly two SQLSTATEs are worth another try, of everything."""

    @pytest.mark.invariant("I17")
    def test_a_real_deadlock_runs_the_whole_of_one_transaction_again(self, engine: Engine) -> None:
        """Two lock two rows crosswise; PostgreSQL ends one; it starts over, and both get what they wanted."""
        first, second = make_organization(engine, "first"), make_organization(engine, "second")
        both_hold_one = threading.Barrier(2)
        seen: list[int] = []

        def crosswise(mine: str, other: str) -> Callable[[Unit], int]:
            def work(unit: Unit) -> int:
                seen.append(unit.tries)
                _rename(unit.connection, mine)
                if unit.tries == 1:
                    both_hold_one.wait(WAIT_SECONDS)
                _rename(unit.connection, other)
                return unit.tries

            return work

        with threads() as start:
            one = start(transaction, engine, crosswise(first.agent_id, second.agent_id))
            two = start(transaction, engine, crosswise(second.agent_id, first.agent_id))
            tries = sorted((one.result(WAIT_SECONDS), two.result(WAIT_SECONDS)))
        assert tries == [1, 2]
        assert sorted(seen) == [1, 1, 2]
        assert names(engine) == ["Remembrancer++", "Remembrancer++"]

    @pytest.mark.invariant("I17")
    def test_a_real_serialization_failure_runs_the_whole_transaction_again(
        self, engine: Engine, database_url: str
    ) -> None:
        """Under SERIALIZABLE two read the sum and add to it: one is refused, and adds to the other's sum."""
        agent_id = make_organization(engine).agent_id
        both_have_read = threading.Barrier(2)

        def add_one(unit: Unit) -> int:
            version = agents.c.current_version
            where = agents.c.id == agent_id
            found = unit.connection.execute(sa.select(version).where(where)).scalar_one()
            if unit.tries == 1:
                both_have_read.wait(WAIT_SECONDS)
            unit.connection.execute(sa.update(agents).where(where).values(current_version=found + 1))
            return unit.tries

        with engine_on(database_url, isolation_level="SERIALIZABLE") as serializable, threads() as start:
            running = [start(transaction, serializable, add_one) for _ in range(2)]
            tries = sorted(future.result(WAIT_SECONDS) for future in running)
        assert tries[0] == 1
        assert tries[1] > 1
        assert rows(engine, sa.select(agents.c.current_version)) == [{"current_version": 3}]

    @pytest.mark.invariant("I17")
    @pytest.mark.parametrize("state", ["40001", "40P01"])
    def test_tries_are_limited(self, engine: Engine, organization: OrganizationForTests, state: str) -> None:
        """The fifth failure is the last, and nothing of the five is stored."""
        tries: list[int] = []

        def work(unit: Unit) -> None:
            tries.append(unit.tries)
            add_agent(unit, organization, "second")
            fail_with(unit, state)

        with pytest.raises(StorageFailed) as failed:
            transaction(engine, work)
        assert failed.value.sqlstate == state
        assert tries == [1, 2, 3, 4, 5]
        assert names(engine) == ["Remembrancer"]

    @pytest.mark.invariant("I17")
    def test_tries_end_when_their_time_is_over(self, engine: Engine) -> None:
        """With no time left for another one, the first failure is the last."""
        tries: list[int] = []

        def work(unit: Unit) -> None:
            tries.append(unit.tries)
            fail_with(unit, "40001")

        with pytest.raises(StorageFailed):
            transaction(engine, work, limits=Limits(retry_seconds=0))
        assert tries == [1]

    @pytest.mark.invariant("I17")
    @pytest.mark.parametrize("state", ["23505", "23514", "22001", "42P01", "55P03", "57014", "53300", "40003", "P0001"])
    def test_no_other_database_error_is_tried_again(self, engine: Engine, state: str) -> None:
        """Every other SQLSTATE ends the transaction at once, under its own name."""
        tries: list[int] = []

        def work(unit: Unit) -> None:
            tries.append(unit.tries)
            fail_with(unit, state)

        with pytest.raises(StorageFailed) as failed:
            transaction(engine, work)
        assert (failed.value.sqlstate, tries) == (state, [1])

    @pytest.mark.invariant("I17")
    @pytest.mark.parametrize(
        "error", [OperationRefused(RefusalCode.CAPACITY_EXCEEDED), ValueError(), MemoryCoreError()]
    )
    def test_a_refusal_or_an_unknown_error_is_never_tried_again(self, engine: Engine, error: Exception) -> None:
        """What the rules say does not change by asking again; what nobody knows might be done twice."""
        tries: list[int] = []

        def work(unit: Unit) -> None:
            tries.append(unit.tries)
            raise error

        with pytest.raises(type(error)):
            transaction(engine, work)
        assert tries == [1]


def _rename(connection: Connection, agent_id: str) -> None:
    connection.execute(sa.update(agents).where(agents.c.id == agent_id).values(name=agents.c.name + "+"))
