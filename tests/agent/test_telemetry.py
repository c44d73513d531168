"""No remembered word leaves by way of a log: every logger at DEBUG, every switch set, every end a turn can have."""

import asyncio
import io
import logging
import sys
from collections.abc import Iterator
from contextlib import closing
from typing import Any

import pytest
import sqlalchemy as sa
import structlog
from openai._utils import _logs as openai_logs

from agent import telemetry
from agent.errors import KeyReused
from memory_core.database.tables import agent_memory
from memory_core.errors import StorageFailed
from tests.agent.database_steps import DatabaseSteps, break_line
from tests.agent.turning import House, adding, calls, everything_stored, remember, says, stages
from tests.fakes.model_server import chunk, cut, error_status, finish, text, tool, whole

#: Storable and refused, in arguments, in messages, in answers, in a provider's error, in a database's.
REMEMBERED = "Kwagga keeps zebras."
STAGED = "Okapi likes leaves."
CONTROL = "Bongo\x07drum"
SECRET = "Gerenuk"
ASKED = "Duiker asks something."
SAID = "Sitatunga answers."
PROVIDER = "Nyala is what the provider quotes"
KEY = "klipspringer-key"
SENTINELS = ("kwagga", "okapi", "bongo", "gerenuk", "duiker", "sitatunga", "nyala", "klipspringer")


class Everything(logging.Handler):
    """A handler on the root that keeps what it is given, rendered as fully as a handler can."""

    def __init__(self, stderr: io.StringIO) -> None:
        super().__init__(logging.NOTSET)
        self.stderr = stderr
        self.lines: list[str] = []
        self.setFormatter(logging.Formatter("%(name)s %(levelname)s %(message)s"))

    @property
    def told(self) -> str:
        """What went to standard error, and what any other handler on the root could have told."""
        return "\n".join([self.stderr.getvalue(), *self.lines])

    def emit(self, record: logging.LogRecord) -> None:
        self.lines.append(f"{self.format(record)} {record.__dict__}")


@pytest.fixture
def logged(monkeypatch: pytest.MonkeyPatch) -> Iterator[Everything]:
    """Logging as `serve` sets it up, and then every logger there is at DEBUG and every debug switch set."""
    monkeypatch.setenv("OPENAI_LOG", "debug")
    root = logging.getLogger()
    before, level = root.handlers[:], root.level
    levels = {name: logging.getLogger(name).level for name in logging.root.manager.loggerDict}
    propagated = {name: logging.getLogger(name).propagate for name in levels}
    structlog_before = structlog.get_config()
    stderr = io.StringIO()
    monkeypatch.setattr(sys, "stderr", stderr)
    openai_logs.setup_logging()
    telemetry.set_up("json", "debug")
    monkeypatch.setattr(telemetry, "_log", structlog.get_logger("remembrancer"))
    everything = Everything(stderr)
    root.addHandler(everything)
    for name in logging.root.manager.loggerDict:
        logging.getLogger(name).setLevel(logging.DEBUG)
    root.setLevel(logging.DEBUG)
    yield everything
    logging.raiseExceptions = True
    root.handlers = before
    root.setLevel(level)
    for name, was in levels.items():
        logging.getLogger(name).setLevel(was)
        logging.getLogger(name).propagate = propagated[name]
    structlog.configure(**structlog_before)


async def many_turns(house: House, monkeypatch: pytest.MonkeyPatch) -> set[str]:
    """Turns that end in every way that has words near it; returns the outcomes they had."""
    remember(house.engine, house.owner(), REMEMBERED)
    endings = []

    async def say(**more: Any) -> None:
        told = await house.say(ASKED, **more)
        endings.append(told.ending)

    stages(house.model, adding(STAGED), then=SAID)
    await say(key=KEY)
    house.model.play(*calls(adding(CONTROL)))
    house.model.play(*calls({**adding(STAGED), "owner_id": SECRET}))
    house.model.play(tool("memory_update", f"{{{SECRET} is no JSON"), finish("tool_calls"))
    house.model.play(tool(SECRET, {"q": SECRET}), finish("tool_calls"))
    house.model.play(*says(SAID))
    await say()
    for bad_end in (
        [text(SAID), cut()],
        [text(SAID), chunk({"error": {"message": PROVIDER, "code": PROVIDER}})],
        [error_status(400, code=PROVIDER), error_status(400, code=PROVIDER)],
        [whole({"error": {"message": PROVIDER}}, status=429)],
        [whole({"detail": PROVIDER}, status=500)],
        [text(SAID), finish("length")],
    ):
        house.model.play(*calls(adding(STAGED)))
        house.model.play(*bad_end)
        await say()
        house.model._scripts.clear()
    steps = DatabaseSteps(house.engine, monkeypatch, "agent.turn_desk.commit_turn")
    for number, act in ((4, break_line), (6, lambda connection: connection.exec_driver_sql(f"SELECT '{SECRET}'::int"))):
        stages(house.model, adding("Okapi likes grass."), then=SAID)
        steps.before(number, act)
        await say()
    monkeypatch.setattr("agent.conversation._run_tool", fail)
    house.model.play(text(SAID), *calls(adding(STAGED)))
    await say()
    monkeypatch.undo()
    with pytest.raises(KeyReused):
        await house.running.open(house.request("Duiker asks something else.", key=KEY))
    with house.engine.begin() as connection:
        connection.execute(sa.update(agent_memory).values(schema_version=99))
    stages(house.model, adding(STAGED), then=SAID)
    await say()
    return {str(ending.memory.outcome) for ending in endings} | {str(ending.outcome) for ending in endings}


def fail(*_: object) -> str:
    raise ZeroDivisionError(SECRET)


@pytest.mark.invariant("I31")
async def test_no_word_is_in_any_log(
    house: House, logged: Everything, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Neither what is stored nor what was refused, neither a message nor an answer nor an error's text; and the records
    that are meant to be there are there.
    """
    outcomes = await many_turns(house, monkeypatch)

    told = (logged.told + "".join(capfd.readouterr())).lower()
    assert [word for word in SENTINELS if word in told] == []
    assert told.count('"event": "turn"') >= 11
    assert {"completed", "failed", "committed", "refused", "discarded", "unavailable"} <= outcomes


@pytest.mark.invariant("I31")
async def test_the_words_are_where_they_belong(house: House, monkeypatch: pytest.MonkeyPatch) -> None:
    """The search above could have found something: the same turns left their words in the database and the model."""
    await many_turns(house, monkeypatch)

    found = (str([request.body for request in house.model.requests]) + everything_stored(house.engine)).lower()
    meant_to_be_there = [word for word in SENTINELS if word not in ("nyala", "klipspringer")]
    assert [word for word in meant_to_be_there if word in found] == meant_to_be_there


@pytest.mark.invariant("I31")
def test_a_record_of_ours_that_held_a_word_would_be_found(logged: Everything) -> None:
    """The capture is no dead end: what goes through the root is seen, twice over."""
    logging.getLogger("somebody.else").debug("Kwagga")

    assert "Kwagga" in "\n".join(logged.lines)
    assert "Kwagga" in logged.stderr.getvalue()


@pytest.mark.invariant("I31")
@pytest.mark.parametrize("name", [*telemetry.QUIET, "openai", "openai._base_client", "httpx2", "httpcore2", "aiohttp"])
def test_a_framework_cannot_be_made_to_speak(logged: Everything, name: str) -> None:
    """Whatever level is set on it or on a child of it."""
    for logger in (logging.getLogger(name), logging.getLogger(f"{name}.child")):
        logger.setLevel(logging.DEBUG)
        logger.critical("Kwagga")

    assert "Kwagga" not in logged.told


@pytest.mark.invariant("I31")
def test_a_field_that_is_not_on_the_list_is_dropped(logged: Everything) -> None:
    """A record is made of the fields the contract names; a new one has to be thought about."""
    telemetry._log.info("turn", turn_id="trn_1", text="Kwagga", message="Kwagga", outcome="completed")

    told = logged.stderr.getvalue()
    assert '"turn_id": "trn_1"' in told
    assert "Kwagga" not in logged.told


@pytest.mark.invariant("I31")
@pytest.mark.parametrize("log_format", ["json", "text"])
def test_an_exception_in_a_record_of_others_is_its_class(
    logged: Everything, monkeypatch: pytest.MonkeyPatch, log_format: str
) -> None:
    """A server logs `exc_info`: the class is told, the message and the values in its frames are not."""
    monkeypatch.setattr(sys, "stderr", logged.stderr)
    telemetry.set_up(log_format, "info")
    try:
        raise ValueError("Kwagga")
    except ValueError:
        logging.getLogger("uvicorn.error").exception("Exception in ASGI application")

    told = logged.stderr.getvalue()
    assert "ValueError" in told
    assert "Kwagga" not in told


@pytest.mark.invariant("I31")
def test_a_fault_of_the_database_is_its_code(logged: Everything) -> None:
    """SQLSTATE and constraint, as far as they are known."""
    telemetry.fault("turn_fault", StorageFailed("23505", "uq_turns_key"), turn_id="trn_1")

    told = logged.stderr.getvalue()
    assert '"sqlstate": "23505"' in told
    assert '"constraint": "uq_turns_key"' in told


@pytest.mark.invariant("I31")
def test_an_error_nobody_awaited_is_told_by_its_kind(logged: Everything) -> None:
    """The event loop's own handler would print the message and the task."""
    with closing(asyncio.new_event_loop()) as loop:
        telemetry.loop_fault(loop, {"message": "Kwagga", "exception": ValueError("Kwagga")})

    told = logged.stderr.getvalue()
    assert "ValueError" in told
    assert "Kwagga" not in told


class Full(io.StringIO):
    """A disk that is full."""

    def write(self, text: str) -> int:
        raise OSError(28, "No space left on device")


@pytest.mark.invariant("I31")
def test_a_log_that_cannot_be_written_tells_nothing_instead(
    logged: Everything, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Python's own way is to print the exception that is being handled, with its message, to standard error."""
    [handler] = [one for one in logging.getLogger().handlers if type(one) is logging.StreamHandler]
    handler.setStream(Full())
    monkeypatch.setattr(sys, "stderr", logged.stderr)
    try:
        raise ValueError("Kwagga")
    except ValueError as error:
        telemetry.fault("turn_fault", error)

    assert "Kwagga" not in logged.stderr.getvalue()
