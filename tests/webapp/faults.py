"""Every way in which a model server can fail a turn: what becomes of the answer, of memory, and what the page says.

In its first round the model has staged a change; the fault meets its second one. ``docs/faults.md`` is this table.
"""

from dataclasses import dataclass, field

from tests.fakes.model_server import (
    Script,
    chunk,
    cut,
    delta,
    error_status,
    finish,
    no_done,
    raw,
    reset,
    stall,
    text,
    tool,
    usage,
    whole,
)

FAILED = "The answer failed, so nothing was saved."
CUT_OFF = "The answer was cut off before its end, so nothing was saved."


@dataclass(frozen=True)
class Fault:
    """One row. ``says`` is on the page after a reload, and so is ``receipt``."""

    name: str
    script: Script = field(repr=False)
    says: str
    receipt: str
    outcome: str = "failed"
    memory: str = "discarded"


@dataclass(frozen=True)
class Oddity(Fault):
    """A server that is merely strange: the turn ends well."""

    says: str = "Half a word"
    receipt: str = "Saved"
    outcome: str = "completed"
    memory: str = "committed"


BROKEN = "The model failed."
SOME = text("Half a ", "word")
END = finish("stop")
ERROR_INSIDE = {"error": {"message": "synthetic", "type": "server_error", "code": "synthetic"}}
WHOLE = {"choices": [{"index": 0, "message": {"role": "assistant", "content": "Half a word"}, "finish_reason": "stop"}]}

FAULTS: tuple[Fault, ...] = (
    Fault("500 before the answer", (error_status(500),), "The model could not be reached.", FAILED),
    Fault("502 before the answer", (error_status(502),), "The model could not be reached.", FAILED),
    Fault("503 before the answer", (error_status(503),), "The model could not be reached.", FAILED),
    Fault("429 that asks for 20 seconds", (error_status(429, retry_after=20),), "Busy.", FAILED),
    Fault("429 that asks for an hour", (error_status(429, retry_after=3600),), "Busy.", FAILED),
    Fault("400, the request is refused", (error_status(400),), "The model refused the request.", FAILED),
    Fault("401, the key is refused", (error_status(401),), "The model refused the request.", FAILED),
    Fault("404, no such model", (error_status(404),), "The model refused the request.", FAILED),
    Fault("no answer at all", (stall(),), "The model could not be reached.", FAILED),
    Fault("a stall in mid-answer", (SOME, stall()), BROKEN, FAILED),
    Fault("the connection is closed in mid-answer", (SOME, cut()), BROKEN, FAILED),
    Fault("the connection is reset in mid-answer", (SOME, reset()), BROKEN, FAILED),
    Fault("a line that is no JSON", (SOME, raw(b"data: {oo\n\n"), END), BROKEN, FAILED),
    Fault("an error object inside the 200", (SOME, chunk(ERROR_INSIDE)), BROKEN, FAILED),
    Fault("finish reason length", (SOME, finish("length")), "Too long.", CUT_OFF),
    Fault("finish reason content_filter", (SOME, finish("content_filter")), "Cut off.", CUT_OFF),
    Fault("the stream ends without a finish reason", (SOME,), "Cut off.", CUT_OFF),
    Fault("an empty answer, twice", (END,), "No answer.", CUT_OFF),
    Oddity("no [DONE] at the end", (SOME, END, no_done())),
    Oddity("a chunk without choices", (SOME, chunk({"object": "something"}), END)),
    Oddity("usage in a chunk of its own", (SOME, END, usage(10, 3))),
    Oddity("null and absent content", (delta({"content": None}), delta({}), SOME, END)),
    Oddity("CRLF line ends and comments", (raw(b": hello\r\n\r\n"), SOME, raw(b":\r\n\r\n"), END)),
    Oddity("`data:[DONE]` without a space", (SOME, END, raw(b"data:[DONE]\n\n"), no_done())),
    Oddity("a whole completion instead of a stream", (whole(WHOLE),)),
)

#: What the model sends in its first round.
STAGES: Script = (
    tool("memory_update", {"operations": [{"target": "user", "action": "add", "content": "Likes green tea."}]}),
    finish("tool_calls"),
)


def faults_table() -> str:
    """The table as ``docs/faults.md`` shows it."""
    lines = ["| the model's server | the turn | memory | the page says | its receipt |", "|---|---|---|---|---|"]
    lines += [f"| {row.name} | {row.outcome} | {row.memory} | {row.says} | {row.receipt} |" for row in FAULTS]
    return "\n".join(lines)
