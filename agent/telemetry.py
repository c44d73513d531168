"""The one module that emits. Typed records of numbers, codes and ids; an allow-list lets nothing else through.

No other code logs what people or models say. Frameworks that would, when somebody turns a debug switch, are pinned
here.
"""

import asyncio
import logging
from collections.abc import Mapping, MutableMapping
from typing import Any

import structlog

from agent import metrics
from agent.begin import BegunTurn
from agent.commit import Answer
from agent.models.loggers import quiet_loggers
from agent.outcome import Ending
from agent.tools import memory_update as memory_tool
from memory_core.document import Target

#: The fields that may leave the process (CONTRACT §8, and what the server's own records need).
ALLOWED = frozenset({
    "event", "level", "logger", "timestamp",
    "tool", "operation_count", "targets", "user_characters", "memory_characters", "duration_ms", "retry_count",
    "outcome", "code",
    "turn_id", "agent", "agent_version", "policy_version", "model", "memory_outcome", "memory_status", "finish_reason",
    "rounds", "first_token_ms", "input_tokens", "output_tokens", "fallback",
    "request_id", "method", "route", "status", "error", "sqlstate", "constraint", "count", "setting", "address",
    "version",
})  # fmt: skip

#: Packages whose records can show prompts, answers, statements or addresses at some level. None of them reaches a
#: handler, whatever switch is set. (``agent.models`` names those below the model's adapter.)
QUIET = (
    "sqlalchemy",
    "psycopg",
    "sse_starlette",
    "authlib",
    "joserfc",
    "python_multipart",
    "uvicorn.access",
    "asyncio",
    "alembic",
)

_log = structlog.get_logger("remembrancer")


def allow_list(logger: Any, method: str, event: MutableMapping[str, Any]) -> MutableMapping[str, Any]:
    """A structlog processor: drops every field that is not on the list."""
    return {name: value for name, value in event.items() if name in ALLOWED}


def set_up(log_format: str = "text", level: str = "info") -> None:
    """Send our own records, and the server's, to standard error; silence what could show content. Call it once a
    process.

    ``log_format``: ``text`` or ``json``. No level shows content.
    """
    rendered = (
        structlog.processors.JSONRenderer()
        if log_format == "json"
        else structlog.dev.ConsoleRenderer(colors=False, exception_formatter=structlog.dev.plain_traceback)
    )
    structlog.configure(
        processors=[
            structlog.stdlib.add_log_level,
            structlog.stdlib.add_logger_name,
            structlog.processors.TimeStamper(fmt="iso", utc=True),
            allow_list,
            structlog.stdlib.ProcessorFormatter.wrap_for_formatter,
        ],
        logger_factory=structlog.stdlib.LoggerFactory(),
        wrapper_class=structlog.stdlib.BoundLogger,
        cache_logger_on_first_use=True,
    )
    handler = logging.StreamHandler()
    handler.setFormatter(
        structlog.stdlib.ProcessorFormatter(
            foreign_pre_chain=[
                structlog.stdlib.add_log_level,
                structlog.stdlib.add_logger_name,
                structlog.processors.TimeStamper(fmt="iso", utc=True),
                without_exception,
            ],
            processors=[structlog.stdlib.ProcessorFormatter.remove_processors_meta, rendered],
        )
    )
    root = logging.getLogger()
    root.handlers = [handler]
    root.setLevel(level.upper())
    logging.raiseExceptions = False  # a handler that fails would print the exception it was called under, words and all
    quiet()


def quiet() -> None:
    """Let no record of a package that could show content reach a handler; holds whatever levels are set later."""
    quiet_loggers()
    for name in QUIET:
        logger = logging.getLogger(name)
        logger.handlers = [logging.NullHandler()]
        logger.propagate = False


def without_exception(logger: Any, method: str, event: MutableMapping[str, Any]) -> MutableMapping[str, Any]:
    """A structlog processor for records of others: an exception is its class. Its message may quote what somebody
    wrote, and a traceback may be drawn with the variables of every frame, cookies included (structlog does where rich
    is installed).
    """
    exception = event.pop("exc_info", None)
    event.pop("stack_info", None)
    record = event.get("_record")
    if record is not None:
        exception = exception or record.exc_info
        record.exc_info = record.exc_text = record.stack_info = None
    if exception:
        kind = exception[0] if isinstance(exception, tuple) else None
        event["error"] = kind.__name__ if kind else "unknown"
    return event


def loop_fault(loop: asyncio.AbstractEventLoop, context: Mapping[str, Any]) -> None:
    """The event loop's handler for errors nobody awaited: their kind is told, not their words."""
    error = context.get("exception")
    if isinstance(error, BaseException):
        fault("loop_fault", error)


def turn_ended(turn: BegunTurn, answer: Answer, ending: Ending, *, seconds: float) -> None:
    """One record a turn."""
    metrics.turn_ended(
        str(ending.outcome),
        str(ending.memory.outcome),
        seconds=seconds,
        first_token_ms=answer.first_token_ms,
        input_tokens=answer.input_tokens,
        output_tokens=answer.output_tokens,
    )
    _log.info(
        "turn",
        turn_id=turn.id,
        agent=turn.owner.agent_id,
        agent_version=turn.agent_version,
        policy_version=turn.policy_version,
        model=answer.model,
        outcome=str(ending.outcome),
        code=str(ending.reason) if ending.reason else None,
        memory_outcome=str(ending.memory.outcome),
        memory_status=str(turn.memory_status),
        finish_reason=ending.finish_reason,
        rounds=answer.rounds,
        first_token_ms=answer.first_token_ms,
        duration_ms=round(seconds * 1000),
        input_tokens=answer.input_tokens,
        output_tokens=answer.output_tokens,
        fallback=answer.fallback,
    )


def memory_update(answer: Answer, ending: Ending, *, seconds: float) -> None:
    """One record for a turn in which the model used its memory tool; none for the others."""
    if all(call["tool"] != memory_tool.NAME for call in answer.tool_rounds):
        return
    memory = ending.memory
    metrics.memory_updated(str(memory.outcome), str(memory.reason or ""))
    operations = [operation for batch in answer.batches for operation in batch]
    _log.info(
        "memory_update",
        tool=memory_tool.NAME,
        operation_count=answer.operation_count,
        targets={str(target): sum(operation.target is target for operation in operations) for target in Target},
        user_characters=memory.user_characters,
        memory_characters=memory.memory_characters,
        duration_ms=round(seconds * 1000),
        retry_count=memory.retry_count,
        outcome=str(memory.outcome),
        code=str(memory.reason) if memory.reason else None,
    )


def fault(name: str, error: BaseException, **fields: Any) -> None:
    """Something that should not have happened: its kind, and for a database error its SQLSTATE; never its message."""
    _log.error(
        name,
        error=type(error).__name__,
        sqlstate=getattr(error, "sqlstate", None),
        constraint=getattr(error, "constraint", None),
        **fields,
    )
