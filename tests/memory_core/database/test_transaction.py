"""transaction(): what it keeps, what it takes back, and what it lets out of a database error."""

import os
import traceback
from contextlib import suppress
from pathlib import Path

import psycopg
import pytest
import sqlalchemy as sa
from sqlalchemy.engine import Engine
from sqlalchemy.exc import DBAPIError

from memory_core.database.tables import owners
from memory_core.database.transaction import Limits, Unit, transaction
from memory_core.errors import CommitUnknown, OperationRefused, RefusalCode, StorageFailed
from tests.database import OrganizationForTests, engine_on
from tests.fakes.database_proxy import DatabaseProxy
from tests.memory_core.database.waiting import WAIT_SECONDS, backend_pid, line_of, terminate
from tests.memory_core.database.work import add_agent, fail_with, names

SENTINEL = "zebra-quartz-5171"


def test_work_that_returns_is_committed(engine: Engine, organization: OrganizationForTests) -> None:
    """What the work returns comes back after the commit, and what it wrote is there for others."""

    def work(unit: Unit) -> str:
        add_agent(unit, organization, "second")
        return "done"

    assert transaction(engine, work) == "done"
    assert names(engine) == ["Remembrancer", "second"]


@pytest.mark.parametrize(
    "error", [OperationRefused(RefusalCode.MATCH_NOT_FOUND), ValueError("unknown"), KeyboardInterrupt()]
)
def test_an_error_of_the_work_passes_unchanged_and_leaves_nothing(
    engine: Engine, organization: OrganizationForTests, error: BaseException
) -> None:
    """The very object the work raised comes out, and its rows are rolled back."""

    def work(unit: Unit) -> None:
        add_agent(unit, organization, "second")
        raise error

    with pytest.raises(type(error)) as raised:
        transaction(engine, work)
    assert raised.value is error
    assert names(engine) == ["Remembrancer"]


def test_timeouts_belong_to_the_transaction_alone(engine: Engine) -> None:
    """Inside, lock, statement, idle time and the whole are bounded; the pooled session keeps nothing of it."""
    asked = (
        "SELECT current_setting('lock_timeout'), current_setting('statement_timeout'), "
        "current_setting('idle_in_transaction_session_timeout'), current_setting('transaction_timeout')"
    )
    limits = Limits(lock_seconds=1.5, statement_seconds=2.5, idle_seconds=4, transaction_seconds=9)
    inside = transaction(engine, lambda unit: tuple(unit.connection.exec_driver_sql(asked).one()), limits=limits)
    with engine.connect() as connection:
        outside = tuple(connection.exec_driver_sql(asked).one())
    assert inside == ("1500ms", "2500ms", "4s", "9s")
    assert outside == ("0", "0", "0", "0")


@pytest.mark.invariant("I37")
def test_a_line_that_breaks_within_a_message_holds_nobody_up(
    engine: Engine, organization: OrganizationForTests
) -> None:
    """Half a message, and no word that its sender is gone: the server ends the transaction, and the owner is free."""
    limits = Limits(transaction_seconds=0.5)
    transaction(engine, lambda unit: None, owner=organization.owner(), create_owner=True)

    def send_half_a_statement(unit: Unit) -> None:
        os.write(line_of(unit.connection).pgconn.socket, b"P" + (1000).to_bytes(4, "big") + b"half")
        transaction(engine, came_after.append, owner=organization.owner())

    came_after: list[Unit] = []
    with pytest.raises(StorageFailed) as raised:
        transaction(engine, send_half_a_statement, owner=organization.owner(), limits=limits)
    assert raised.value.sqlstate == "25P04"
    assert len(came_after) == 1


class TestFailures:
    """What becomes of a database error."""

    @pytest.mark.invariant("I31")
    @pytest.mark.parametrize("how", ["constraint", "value", "detail", "statement"])
    def test_nothing_of_a_database_error_but_its_code_survives(
        self, engine: Engine, organization: OrganizationForTests, how: str
    ) -> None:
        """A value in a parameter, a message, a DETAIL or the statement is in nothing that hangs on the new error."""

        def work(unit: Unit) -> None:
            run = unit.connection.execute
            if how == "constraint":
                run(sa.insert(owners).values(id=SENTINEL, organization_id=SENTINEL, agent_id=SENTINEL, subject="x"))
            elif how == "value":
                run(sa.select(sa.cast(SENTINEL, sa.Integer)))
            elif how == "detail":
                fail_with(unit, "23000", SENTINEL)
            else:
                unit.connection.exec_driver_sql(f"SELECT '{SENTINEL}' FROM nowhere")

        with pytest.raises(StorageFailed) as failed:
            transaction(engine, work)
        error = failed.value
        told = "".join(traceback.format_exception(error)) + repr(error) + str(vars(error)) + repr(error.args)
        assert SENTINEL not in told
        assert error.__cause__ is None
        assert error.__context__ is None
        assert not any(
            SENTINEL in repr(local)
            for frame, _ in traceback.walk_tb(error.__traceback__)
            for name, local in frame.f_locals.items()
            if frame.f_code.co_name in ("transaction", "run")
        )
        if how == "constraint":
            assert error.constraint == "fk_owners_agent_id" or error.constraint == "fk_owners_organization_id"

    @pytest.mark.invariant("I31")
    def test_an_error_that_the_work_raised_over_a_database_error_forgets_it(self, engine: Engine) -> None:
        """A refusal raised while a database error was handled does not carry that error into a log."""

        def work(unit: Unit) -> None:
            try:
                fail_with(unit, "23000", SENTINEL)
            except DBAPIError:
                raise OperationRefused(RefusalCode.STORAGE)  # noqa: B904 - the very thing that is tested

        with pytest.raises(OperationRefused) as refused:
            transaction(engine, work)
        assert SENTINEL not in "".join(traceback.format_exception(refused.value))

    def test_the_place_of_a_database_error_is_told_without_values(self, engine: Engine) -> None:
        """Whoever reads the log finds the function and the line."""
        with pytest.raises(StorageFailed) as failed:
            transaction(engine, lambda unit: fail_with(unit, "P0001"))
        assert "tests.memory_core.database.work" in failed.value.__notes__[0]
        assert "fail_with" in failed.value.__notes__[0]

    def test_an_error_that_the_work_swallowed_is_not_taken_for_a_commit(
        self, engine: Engine, organization: OrganizationForTests
    ) -> None:
        """PostgreSQL answers COMMIT of a failed transaction with a quiet ROLLBACK; here it is a failure."""

        def work(unit: Unit) -> str:
            add_agent(unit, organization, "second")
            with suppress(DBAPIError):
                fail_with(unit, "23514")
            return "saved"

        with pytest.raises(StorageFailed) as failed:
            transaction(engine, work)
        assert failed.value.sqlstate == "25P02"
        assert names(engine) == ["Remembrancer"]

    def test_a_savepoint_saves_the_rest(self, engine: Engine, organization: OrganizationForTests) -> None:
        """An error inside a savepoint takes back the savepoint only."""

        def work(unit: Unit) -> None:
            add_agent(unit, organization, "kept")
            with suppress(DBAPIError), unit.connection.begin_nested():
                add_agent(unit, organization, "lost")
                fail_with(unit, "23514")

        transaction(engine, work)
        assert names(engine) == ["Remembrancer", "kept"]

    def test_a_connection_lost_in_mid_work_fails_once_and_the_next_transaction_works(
        self, engine: Engine, organization: OrganizationForTests
    ) -> None:
        """A killed backend is a failure without an open question: COMMIT was never sent."""

        def work(unit: Unit) -> None:
            add_agent(unit, organization, "second")
            terminate(engine, unit.connection)
            unit.connection.exec_driver_sql("SELECT 1")

        with pytest.raises(StorageFailed) as failed:
            transaction(engine, work)
        assert not isinstance(failed.value, CommitUnknown)
        transaction(engine, lambda unit: add_agent(unit, organization, "third"))
        assert names(engine) == ["Remembrancer", "third"]

    def test_a_connection_lost_before_the_answer_to_commit_leaves_the_question_open(
        self, database_url: str, engine: Engine, organization: OrganizationForTests, tmp_path: Path
    ) -> None:
        """COMMIT was done and its answer was lost: the caller cannot tell, and finds everything on re-reading."""
        with DatabaseProxy(database_url, tmp_path) as proxy, engine_on(proxy.url) as through_proxy:

            def work(unit: Unit) -> None:
                add_agent(unit, organization, "second")
                proxy.hang_up_after(b"COMMIT")

            with pytest.raises(CommitUnknown):
                transaction(through_proxy, work)
            assert proxy.hung_up.is_set()
        assert names(engine) == ["Remembrancer", "second"]

    def test_a_connection_lost_on_the_way_to_commit_leaves_the_question_open_too(
        self, engine: Engine, organization: OrganizationForTests
    ) -> None:
        """The backend was gone before COMMIT came; the caller cannot tell, and finds nothing on re-reading."""

        def work(unit: Unit) -> None:
            add_agent(unit, organization, "second")
            terminate(engine, unit.connection)

        with pytest.raises(CommitUnknown):
            transaction(engine, work)
        assert names(engine) == ["Remembrancer"]

    def test_a_restarted_server_costs_no_request(self, engine: Engine, organization: OrganizationForTests) -> None:
        """Idle pooled connections that died are replaced before any work runs on them."""
        with engine.connect() as one, engine.connect() as two:
            idle = [backend_pid(one), backend_pid(two)]
        with psycopg.connect(engine.url.set(drivername="postgresql").render_as_string(False)) as outside:
            for pid in idle:
                outside.execute("SELECT pg_terminate_backend(%s, 5000)", [pid])
        transaction(engine, lambda unit: add_agent(unit, organization, "second"))
        assert names(engine) == ["Remembrancer", "second"]


@pytest.mark.invariant("I37")
class TestBounds:
    """No wait without an end."""

    def test_a_lock_is_waited_for_until_its_timeout(self, engine: Engine, organization: OrganizationForTests) -> None:
        """Somebody who keeps the owner's row costs the next one the lock timeout, not more."""
        owner = organization.owner()
        transaction(engine, lambda unit: None, owner=owner, create_owner=True)

        def hold(_: Unit) -> str | None:
            with pytest.raises(StorageFailed) as failed:
                transaction(engine, lambda unit: None, owner=owner, limits=Limits(lock_seconds=0.1))
            return failed.value.sqlstate

        assert transaction(engine, hold, owner=owner) == "55P03"

    def test_a_slow_statement_ends_at_its_timeout(self, engine: Engine) -> None:
        """The server itself ends it."""
        with pytest.raises(StorageFailed) as failed:
            transaction(
                engine,
                lambda unit: unit.connection.exec_driver_sql("SELECT pg_sleep(60)"),
                limits=Limits(statement_seconds=0.1),
            )
        assert failed.value.sqlstate == "57014"

    def test_a_pool_without_a_free_connection_is_a_storage_failure(self, database_url: str) -> None:
        """Nobody queues for a connection for longer than the checkout's limit."""
        with engine_on(database_url, 1, checkout_seconds=0.1) as engine:
            with engine.connect(), pytest.raises(StorageFailed) as failed:
                transaction(engine, lambda unit: pytest.fail("ran"))
            assert failed.value.sqlstate is None

    def test_a_session_that_idles_inside_its_transaction_is_ended_and_its_lock_freed(
        self, engine: Engine, organization: OrganizationForTests
    ) -> None:
        """A stuck process cannot keep an owner locked: the server hangs up on it."""
        owner = organization.owner()
        transaction(engine, lambda unit: None, owner=owner, create_owner=True)

        def idle(_: Unit) -> None:
            transaction(engine, lambda unit: None, owner=owner, limits=Limits(lock_seconds=WAIT_SECONDS))

        with pytest.raises(CommitUnknown):
            transaction(engine, idle, owner=owner, limits=Limits(idle_seconds=0.1))
