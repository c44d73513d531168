"""From the pieces of tool calls that servers send to whole calls. Knows their dialects; judges no arguments.

The rule as written (OpenAI): id and name come first, then pieces of the arguments, told apart by `index`.
What servers do as well, and what is read into it:

    no id                          the index tells calls apart; an id is made up at the end
    no index                       the id does; without both, the piece belongs to the call opened last
    every index 0                  a named piece with another id opens another call
    the name in each piece         the same name again adds nothing
    another id in each piece       without a name it stays with the call of its index
    whole calls, no id, one index  the same name again opens another call once the first one's arguments are complete
    arguments as an object         taken as its JSON
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import orjson

from agent.errors import ModelFault, ModelStreamBroken
from agent.models.event_stream import UNREADABLE, read_json
from agent.models.protocol import ToolCall


@dataclass(slots=True)
class _OpenCall:
    index: int | None
    id: str
    name: str = ""
    arguments: list[str] = field(default_factory=list)

    @property
    def is_complete(self) -> bool:
        written = "".join(self.arguments)
        return written.rstrip().endswith("}") and read_json(written) is not UNREADABLE


#: Calls in one round. No model that is well asks for so many; finding the call of a piece takes time for each.
MOST_CALLS = 128


class ToolCallAssembly:
    """Takes the `tool_calls` of each delta, in order; gives the calls at the round's end."""

    def __init__(self) -> None:
        self._calls: list[_OpenCall] = []

    def add(self, pieces: object) -> None:
        """Raises ModelStreamBroken for a piece that has not the shape of one, and for more than `MOST_CALLS`."""
        for piece in _list(pieces):
            piece = _object(piece)
            function = _object(piece.get("function") or {})
            index = piece.get("index")
            if not isinstance(index, int):
                index = None
            call_id, name = _text(piece.get("id")), _text(function.get("name"))
            arguments = _written(function.get("arguments"))
            call = self._find(index, call_id, name, arguments)
            if call is None:
                if len(self._calls) == MOST_CALLS:
                    raise ModelStreamBroken(ModelFault.TOO_LARGE)
                call = _OpenCall(index, call_id)
                self._calls.append(call)
            call.id = call.id or call_id
            call.name = _merge_name(call, name)
            if arguments:
                call.arguments.append(arguments)

    def finish(self) -> tuple[ToolCall, ...]:
        """All calls in the order they were opened, each with an id of its own. Raises for a call without a name."""
        taken: set[str] = set()
        finished: list[ToolCall] = []
        for number, call in enumerate(self._calls):
            if not call.name:
                raise ModelStreamBroken(ModelFault.MALFORMED)
            call_id = call.id if call.id and call.id not in taken else f"call_{number}"
            while call_id in taken:
                call_id += "_"
            taken.add(call_id)
            finished.append(ToolCall(call_id, call.name, "".join(call.arguments)))
        return tuple(finished)

    def _find(self, index: int | None, call_id: str, name: str, arguments: str) -> _OpenCall | None:
        """The open call a piece belongs to, or None when it opens another."""
        if call_id:
            for call in reversed(self._calls):
                if call.id == call_id and not (name and index is not None and call.index != index):
                    return call
        at_index = self._last_at(index)
        if at_index is None:
            return None
        if call_id and at_index.id and (name or not arguments):
            return None
        return None if _opens_another(at_index, name, arguments) else at_index

    def _last_at(self, index: int | None) -> _OpenCall | None:
        for call in reversed(self._calls):
            if index is None or call.index == index or call.index is None:
                return call
        return None


def _opens_another(call: _OpenCall, name: str, arguments: str) -> bool:
    """Whether a named piece without a new id is another call rather than more of this one."""
    if not name or not call.name:
        return False
    if name != call.name:
        return not name.startswith(call.name)
    return arguments.lstrip().startswith("{") and call.is_complete


def _merge_name(call: _OpenCall, name: str) -> str:
    """A name sent again is the same name, a longer one replaces it, another piece before any arguments continues it."""
    if name.startswith(call.name):
        return name
    return call.name if call.arguments else call.name + name


def _written(value: object) -> str:
    if isinstance(value, str):
        return value
    if value is None:
        return ""
    try:
        return orjson.dumps(value).decode()
    except orjson.JSONEncodeError:  # nested too deeply to be written
        return "null"


def _text(value: object) -> str:
    return value if isinstance(value, str) else ""


def _object(value: object) -> dict[str, Any]:
    if isinstance(value, dict):
        return value
    raise ModelStreamBroken(ModelFault.MALFORMED)


def _list(value: object) -> list[Any]:
    if isinstance(value, list):
        return value
    raise ModelStreamBroken(ModelFault.MALFORMED)
