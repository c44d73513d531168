"""Reading a tool call's arguments, as models really write them. Judges nothing: each tool has its own field rules."""

from __future__ import annotations

from agent.models.event_stream import UNREADABLE, read_json
from agent.models.protocol import ToolCall


def tool_arguments(call: ToolCall) -> object:
    """The value the call's arguments stand for; to be asked only after the round has ended.

    Nothing (or white space) is `{}`. JSON inside a JSON string is read once more. What is no object comes back as it
    is (a list, a number, a string), and text that is no JSON as None: no tool accepts those, so its field rules refuse
    them with its own code and the model learns in the ordinary way. Never raises.
    """
    value = _read(call.arguments)
    if isinstance(value, str):
        inner = _read(value)
        value = value if inner is UNREADABLE else inner
    return None if value is UNREADABLE else value


def _read(written: str) -> object:
    return read_json(written) if written.strip() else {}
