"""The embedded PostgreSQL: it starts anywhere it can, belongs to one owner, outlives nobody, and says what is wrong."""

import os
import shutil
import signal
import stat
import sys
import tempfile
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import psycopg
import pytest
from sqlalchemy.engine import make_url

from memory_core.database import postgres_user
from memory_core.database.data_folder import SOCKET_NAME, SOCKET_PATH_MAX_BYTES, DataFolder
from memory_core.database.embedded import EmbeddedServer
from memory_core.database.start_errors import (
    BinariesMissing,
    DataFolderNotWritable,
    DataFolderTaken,
    DataVersionDiffers,
    RootNeedsNamespace,
    ServerDidNotStart,
)
from memory_core.errors import DatabaseStartFailed
from tests.memory_core.database.processes import (
    ordinary_user,
    owner_process,
    postmaster_pid,
    processes_in,
    python_for,
    run_sql,
    wait_until_over,
)
from tests.memory_core.database.programs import fake_programs

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(sys.platform != "linux", reason="processes are watched through /proc"),
]
SENTINEL = "zebra-quartz-8842"
as_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root has to become somebody else")


@pytest.fixture(scope="module")
def made_once() -> Iterator[Path]:
    """A data folder in which a server has run before. Copying it is quicker than making one."""
    with tempfile.TemporaryDirectory(prefix="remembrancer-tests-") as folder:
        with EmbeddedServer(Path(folder), durable=False):
            pass
        yield Path(folder)


@pytest.fixture
def folder(made_once: Path, place: Path) -> Path:
    """A data folder of this test's own."""
    copied = place / "data-dir"
    shutil.copytree(made_once, copied)
    return copied


def server(folder: Path, *, attach: bool = False, pg_bin: Path | None = None) -> EmbeddedServer:
    return EmbeddedServer(folder, pg_bin, attach=attach, durable=False)


class TestStart:
    """A start, and the next one."""

    def test_a_first_start_makes_a_database_that_answers_on_a_socket_only(self, place: Path) -> None:
        """From nothing to a query; no port is opened, nobody else can come in, no folder above is touched."""
        before = {path: path.stat().st_mode for path in (place, *place.parents)}
        with server(place / "new" / "folder") as url:
            assert run_sql(url, "SHOW listen_addresses") == [("",)]
            assert run_sql(url, "SELECT current_database()::text, current_user::text") == [("remembrancer", "postgres")]
            place = Path(str(make_url(url).query["host"]))
            assert stat.S_IMODE(place.stat().st_mode) == 0o700
        assert {path: path.stat().st_mode for path in before} == before

    def test_a_second_start_keeps_the_data(self, folder: Path) -> None:
        """What was committed before the stop is there after it."""
        with server(folder) as url:
            run_sql(url, "CREATE TABLE kept AS SELECT 7 AS seven")
        with server(folder) as url:
            assert run_sql(url, "SELECT seven FROM kept") == [(7,)]

    def test_a_stop_leaves_nothing_running_and_lets_the_folder_go(self, folder: Path) -> None:
        """The server shuts down in good order; its socket, its announcement and the lock are gone."""
        first = server(folder)
        url = first.start()
        pid = postmaster_pid(folder)
        first.stop()
        first.stop()
        wait_until_over(pid)
        assert processes_in(folder) == []
        assert "database system is shut down" in (folder / "postgres" / "server.log").read_text()
        assert not (folder / "postgres" / "server.json").exists()
        assert not Path(str(make_url(url).query["host"])).exists()
        assert DataFolder(folder).try_lock(lasting=True)

    @pytest.mark.parametrize("name", ["with spaces, commas", "Gedächtnis", "a" * 90])
    def test_any_name_of_a_folder_will_do(self, folder: Path, name: str) -> None:
        """A path that is too long or too odd for a socket gets one elsewhere, private, and removed at the stop."""
        odd = folder.rename(folder.parent / name)
        with server(odd) as url:
            place = Path(str(make_url(url).query["host"]))
            assert len(os.fsencode(place / SOCKET_NAME)) <= SOCKET_PATH_MAX_BYTES
            assert stat.S_IMODE(place.stat().st_mode) == 0o700
            assert run_sql(url, "SELECT 1") == [(1,)]
        assert not place.exists()

    def test_a_half_made_data_folder_is_made_again(self, place: Path) -> None:
        """initdb was killed in the middle: what it left is never taken for data."""
        half = place / "postgres" / "data.new"
        half.mkdir(parents=True)
        (half / "PG_VERSION").write_text("18")
        with server(place) as url:
            assert run_sql(url, "SELECT 1") == [(1,)]
        assert not half.exists()

    def test_only_the_main_thread_starts_it(self, folder: Path) -> None:
        """The server dies with the thread that started it, so any other thread is refused."""
        with ThreadPoolExecutor(1) as executor, pytest.raises(RuntimeError):
            executor.submit(server(folder).start).result()

    def test_ctrl_c_at_the_terminal_reaches_only_the_owner(self, folder: Path) -> None:
        """The server has a session of its own: its owner first ends the turns, then the server."""
        with server(folder):
            assert os.getsid(postmaster_pid(folder)) != os.getsid(0)

    def test_the_log_holds_no_statement_and_no_value(self, folder: Path) -> None:
        """Failing statements with values in every place leave no trace in the server's own log."""
        statements = [
            f"SELECT '{SENTINEL}'::int",
            f"SELECT '{SENTINEL}' FROM nowhere",
            f"DO $$ BEGIN RAISE WARNING '{SENTINEL}'; RAISE EXCEPTION '{SENTINEL}' USING DETAIL = '{SENTINEL}'; END $$",
            "CREATE TABLE once (word text UNIQUE)",
            f"INSERT INTO once VALUES ('{SENTINEL}'), ('{SENTINEL}')",
        ]
        with server(folder) as url:
            for statement in statements:
                try:
                    run_sql(url, statement)
                except psycopg.Error:
                    continue
        written = "".join(path.read_text() for path in (folder / "postgres").glob("server.log*"))
        assert "ready to accept connections" in written
        assert SENTINEL not in written


class TestDeath:
    """Nothing outlives its owner, and nothing that died keeps the next one from starting."""

    def test_a_killed_owner_takes_the_server_with_it(self, folder: Path) -> None:
        """kill -9 of the owner: no process is left, and the next start recovers what was committed."""
        with owner_process(folder) as owner:
            run_sql(owner.told["url"], "CREATE TABLE kept AS SELECT 7 AS seven")
            pid = postmaster_pid(folder)
            owner.kill()
            wait_until_over(pid)
        assert processes_in(folder) == []
        with server(folder) as url:
            assert run_sql(url, "SELECT seven FROM kept") == [(7,)]

    def test_a_killed_server_leaves_a_folder_that_starts_again(self, folder: Path) -> None:
        """kill -9 of the postmaster leaves its pid file behind; the next start is not fooled by it."""
        with owner_process(folder) as owner:
            run_sql(owner.told["url"], "CREATE TABLE kept AS SELECT 7 AS seven")
            pid = postmaster_pid(folder)
            os.kill(pid, signal.SIGKILL)
            owner.kill()
            wait_until_over(pid)
        assert (folder / "postgres" / "data" / "postmaster.pid").exists()
        with server(folder) as url:
            assert run_sql(url, "SELECT seven FROM kept") == [(7,)]

    def test_a_pid_file_that_names_somebody_else_is_no_obstacle(self, folder: Path) -> None:
        """After a restart of the machine the old process id may belong to anyone, here to this test."""
        with server(folder):
            pid_file = (folder / "postgres" / "data" / "postmaster.pid").read_text()
        lines = pid_file.splitlines()
        lines[0] = str(os.getpid())
        (folder / "postgres" / "data" / "postmaster.pid").write_text("\n".join(lines) + "\n")
        with server(folder) as url:
            assert run_sql(url, "SELECT 1") == [(1,)]

    def test_a_server_that_did_outlive_its_owner_is_ended_by_the_next(self, folder: Path) -> None:
        """Where the kernel cannot tie the two together, the folder's next owner clears up."""
        with owner_process(folder, "unbound") as owner:
            run_sql(owner.told["url"], "CREATE TABLE kept AS SELECT 7 AS seven")
            left = postmaster_pid(folder)
            owner.kill()
        assert processes_in(folder) != []
        with server(folder) as url:
            wait_until_over(left)
            assert postmaster_pid(folder) != left
            assert run_sql(url, "SELECT seven FROM kept") == [(7,)]
        assert processes_in(folder) == []


class TestSharing:
    """One owner, and guests."""

    def test_a_second_owner_is_refused_with_the_first_ones_process(self, folder: Path) -> None:
        """The words name the process; the running server does not notice."""
        with owner_process(folder) as owner:
            url = owner.told["url"]
            with pytest.raises(DataFolderTaken) as refused:
                server(folder).start()
            assert refused.value.pid == owner.process.pid
            assert str(owner.process.pid) in str(refused.value)
            assert run_sql(url, "SELECT 1") == [(1,)]

    def test_a_short_command_is_a_guest_of_the_running_server(self, folder: Path) -> None:
        """It gets the same address, and its end ends nothing."""
        with owner_process(folder) as owner:
            url = owner.told["url"]
            guest = server(folder, attach=True)
            assert guest.start() == url
            assert not guest.is_owner
            guest.stop()
            assert run_sql(url, "SELECT 1") == [(1,)]

    def test_a_short_command_without_a_running_server_owns_one_meanwhile(self, folder: Path) -> None:
        """It starts the server for its own duration."""
        command = server(folder, attach=True)
        with command as url:
            assert command.is_owner
            assert run_sql(url, "SELECT 1") == [(1,)]
        assert processes_in(folder) == []

    def test_two_short_commands_take_turns(self, folder: Path) -> None:
        """The second does not lean on a server that is about to stop: it waits, then starts its own."""
        with owner_process(folder, "attach") as first:
            assert first.told["is_owner"]
            with owner_process(folder, "attach") as second:
                threading.Timer(0.3, first.leave).start()
                assert second.told["is_owner"]
                assert run_sql(second.told["url"], "SELECT 1") == [(1,)]

    def test_a_folder_is_made_once_it_holds_data_or_somebody_makes_them(self, folder: Path, place: Path) -> None:
        """Looking makes nothing, and leaves the lock to others."""
        assert DataFolder(folder).is_made()
        empty = DataFolder(place / "empty")
        assert not empty.is_made()
        assert not (place / "empty").exists()
        empty.prepare()
        assert not empty.is_made()
        assert empty.try_lock(lasting=True)
        assert DataFolder(place / "empty").is_made()
        empty.unlock()
        assert not DataFolder(place / "empty").is_made()
        assert empty.try_lock(lasting=True)
        empty.unlock()

    def test_an_owner_waits_for_a_short_command_to_finish(self, folder: Path) -> None:
        """`dev` right after `migrate` is no conflict."""
        with owner_process(folder, "attach") as command:
            assert command.told["is_owner"]
            threading.Timer(0.3, command.leave).start()
            with server(folder) as url:
                assert run_sql(url, "SELECT 1") == [(1,)]


class TestWords:
    """Every way not to start has its own words."""

    def test_no_programs(self, place: Path) -> None:
        """A folder without initdb and postgres is named, and so are the ways out."""
        with pytest.raises(BinariesMissing) as failed:
            server(place / "data", pg_bin=place / "nothing").start()
        for words in (str(place / "nothing"), "REMEMBRANCER_PG_BIN", "REMEMBRANCER_DATABASE_URL"):
            assert words in str(failed.value)

    def test_data_of_another_major_version(self, folder: Path) -> None:
        """Both versions are named; nothing of the data is touched."""
        (folder / "postgres" / "data" / "PG_VERSION").write_text("12\n")
        with pytest.raises(DataVersionDiffers) as failed:
            server(folder).start()
        assert "PostgreSQL 12" in str(failed.value)
        assert (folder / "postgres" / "data" / "global" / "pg_control").exists()

    def test_a_folder_that_cannot_be_written(self, place: Path) -> None:
        """A file stands where the folder should be."""
        (place / "file").write_text("")
        with pytest.raises(DataFolderNotWritable) as failed:
            server(place / "file").start()
        assert str(place / "file") in str(failed.value)

    def test_a_server_that_gives_up_tells_why_and_lets_the_folder_go(self, folder: Path) -> None:
        """The last line of PostgreSQL's log is in the message, and the next try is free to begin."""
        control = folder / "postgres" / "data" / "global" / "pg_control"
        intact = control.read_bytes()
        control.write_bytes(b"")
        with pytest.raises(ServerDidNotStart) as failed:
            server(folder).start()
        assert "pg_control" in str(failed.value)
        control.write_bytes(intact)
        with server(folder) as url:
            assert run_sql(url, "SELECT 1") == [(1,)]

    def test_initdb_that_fails_tells_why(self, place: Path) -> None:
        """Programs that break off leave nothing that looks like data."""
        programs = fake_programs(place / "bin", "18.1", initdb="echo 'initdb: error: no room' >&2; exit 1")
        with pytest.raises(ServerDidNotStart) as failed:
            server(place / "data", pg_bin=programs).start()
        assert "initdb did not start: initdb: error: no room" in str(failed.value)
        assert not (place / "data" / "postgres" / "data").exists()

    def test_they_are_all_one_kind(self) -> None:
        """Whoever starts a server catches one class."""
        kinds = {BinariesMissing, DataFolderNotWritable, DataFolderTaken, DataVersionDiffers, ServerDidNotStart}
        assert all(issubclass(kind, DatabaseStartFailed) for kind in kinds)


@as_root
class TestRoot:
    """PostgreSQL refuses to be root."""

    def test_root_keeps_every_file_in_a_folder_only_root_can_enter(self, place: Path) -> None:
        """Inside a user namespace root is an ordinary user, and outside of it the files are still root's."""
        closed = place / "closed"
        closed.mkdir(mode=0o700)
        with server(closed):
            owners = {path.stat().st_uid for path in closed.rglob("*")}
        assert owners == {0}
        assert stat.S_IMODE(closed.stat().st_mode) == 0o700

    def test_without_namespaces_another_user_runs_it_where_that_user_can_reach(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """In a folder of ours under one that anybody may enter; the next start stays with that user."""
        prefix = ordinary_user()
        binaries = postgres_user.choose_user(Path("/nonexistent"), Path("/"))
        assert binaries.prefix
        monkeypatch.setattr(postgres_user, "_namespace", lambda: None)
        with tempfile.TemporaryDirectory(prefix="remembrancer-tests-") as name:
            Path(name).chmod(0o755)
            try:
                with server(Path(name)) as url:
                    assert run_sql(url, "SELECT 1") == [(1,)]
                    pid = postmaster_pid(Path(name))
                    assert Path(f"/proc/{pid}").stat().st_uid != 0
            except RootNeedsNamespace:
                pytest.skip("nobody cannot reach the programs here")
            monkeypatch.undo()
            with server(Path(name)) as url:
                assert Path(f"/proc/{postmaster_pid(Path(name))}").stat().st_uid != 0
            assert prefix is not None

    def test_without_namespaces_a_closed_folder_is_refused_and_stays_closed(
        self, place: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """No folder is opened for anybody; the words say what to do."""
        monkeypatch.setattr(postgres_user, "_namespace", lambda: None)
        closed = place / "closed"
        closed.mkdir(mode=0o700)
        with pytest.raises(RootNeedsNamespace) as failed:
            server(closed / "data").start()
        assert "ordinary user" in str(failed.value)
        assert stat.S_IMODE(closed.stat().st_mode) == 0o700

    def test_an_ordinary_user_starts_it_as_themselves(self) -> None:
        """The same program, by somebody without any rights, in a folder of theirs."""
        prefix = ordinary_user()
        python = python_for(prefix) if prefix else None
        if prefix is None or python is None:
            pytest.skip("no interpreter here that an ordinary user can start")
        with tempfile.TemporaryDirectory(prefix="remembrancer-tests-") as name:
            shutil.chown(name, "nobody")
            with owner_process(Path(name), prefix=prefix, python=python) as owner:
                assert "url" in owner.told, owner.told
                pid = postmaster_pid(Path(name))
                assert Path(f"/proc/{pid}").stat().st_uid != 0
                owner.kill()
                wait_until_over(pid)
            assert processes_in(Path(name)) == []

    def test_an_ordinary_user_is_told_of_a_folder_that_is_roots(self) -> None:
        """A folder made by root is refused in words."""
        prefix = ordinary_user()
        python = python_for(prefix) if prefix else None
        if prefix is None or python is None:
            pytest.skip("no interpreter here that an ordinary user can start")
        with tempfile.TemporaryDirectory(prefix="remembrancer-tests-") as name:
            Path(name).chmod(0o755)
            with owner_process(Path(name) / "data", prefix=prefix, python=python) as owner:
                assert owner.told["error"] == "DataFolderNotWritable"
                assert "--data-dir" in owner.told["message"]
