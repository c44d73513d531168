"""From the bytes of a `text/event-stream` to the JSON values in it. Knows framing; knows nothing of models.

Source: WHATWG HTML, "Server-sent events", read more generously, as servers are: a `data:` line that is a complete JSON
value counts at once, without waiting for the blank line; lines that only together make one are joined as the standard
says. `[DONE]` ends the stream; what follows it is not read.
"""

from __future__ import annotations

import json
from typing import Any, Final

import orjson

from agent.errors import ModelError, ModelFault, ModelStreamBroken

MAX_EVENT_BYTES = 16 * 1024 * 1024

UNREADABLE: Final = object()
_BYTE_ORDER_MARK = b"\xef\xbb\xbf"


class EventStream:
    """Feed it bytes as they come; it returns the JSON values that became complete.

    done     `[DONE]` was seen
    fault    an event was no JSON, or over 16 MiB; what came before it was still returned, nothing more is read
    heard    the last feed held more than comments and blank lines (a part of a line counts)
    """

    def __init__(self) -> None:
        self.done = False
        self.fault: ModelError | None = None
        self.heard = False
        self._tail: list[bytes] = []
        self._tail_bytes = 0
        self._return_is_held = False
        self._at_start = True
        self._is_error = False
        self._unfinished: list[bytes] = []
        self._unfinished_bytes = 0

    def feed(self, data: bytes) -> list[Any]:
        """The values that these bytes completed. Never raises: see `fault`."""
        if self._return_is_held or b"\r" in data:
            data = self._without_returns(data)
        self.heard = False
        lines = data.split(b"\n")
        rest = lines.pop()
        if lines:
            lines[0] = self._take_tail() + lines[0]
        values = self._read_lines(lines)
        if rest:
            self._keep(rest)
        return values

    def end(self) -> list[Any]:
        """The bytes are over: the values that an unfinished last line still held."""
        return self._read_lines([self._take_tail(), b""])

    def _without_returns(self, data: bytes) -> bytes:
        """CR LF and a lone CR become LF; a CR at the end waits for what follows it."""
        if self._return_is_held:
            data = b"\r" + data
        self._return_is_held = data.endswith(b"\r")
        if self._return_is_held:
            data = data[:-1]
        return data.replace(b"\r\n", b"\n").replace(b"\r", b"\n")

    def _keep(self, rest: bytes) -> None:
        """Pieces of a long line are joined once, when it ends: a line of 2 MB costs no more than many short ones."""
        self._tail.append(rest)
        self._tail_bytes += len(rest)
        if self._tail_bytes > MAX_EVENT_BYTES:
            self.fault = ModelStreamBroken(ModelFault.TOO_LARGE)
        if not self._tail[0].startswith(b":"):
            self.heard = True

    def _take_tail(self) -> bytes:
        tail = b"".join(self._tail)
        self._tail, self._tail_bytes = [], 0
        return tail

    def _read_lines(self, lines: list[bytes]) -> list[Any]:
        if self._at_start and lines:
            self._at_start = False
            lines[0] = lines[0].removeprefix(_BYTE_ORDER_MARK)
        values: list[Any] = []
        for line in lines:
            if self.done or self.fault is not None:
                break
            if line.startswith(b"data:"):
                self.heard = True
                self._read_data(line[5:], values)
            elif not line:
                self._end_event(values)
            elif line.startswith(b"event:"):
                self._is_error = line[6:].strip() == b"error"
        return values

    def _read_data(self, payload: bytes, values: list[Any]) -> None:
        """One line's data: a value, `[DONE]`, or the beginning of an event that the blank line after it completes."""
        if self._unfinished:
            self._leave_unfinished(payload)
            return
        value = read_json(payload)
        if value is not UNREADABLE:
            values.append({"error": value} if self._is_error else value)
        elif payload.strip() == b"[DONE]":
            self.done = True
        elif payload.strip():
            self._leave_unfinished(payload)

    def _leave_unfinished(self, payload: bytes) -> None:
        self._unfinished.append(payload)
        self._unfinished_bytes += len(payload)
        if self._unfinished_bytes > MAX_EVENT_BYTES:
            self.fault = ModelStreamBroken(ModelFault.TOO_LARGE)

    def _end_event(self, values: list[Any]) -> None:
        if self._unfinished:
            value = read_json(b"\n".join(self._unfinished))
            if value is not UNREADABLE:
                values.append({"error": value} if self._is_error else value)
            else:
                self.fault = ModelStreamBroken(ModelFault.ERROR_IN_STREAM if self._is_error else ModelFault.MALFORMED)
            self._unfinished, self._unfinished_bytes = [], 0
        self._is_error = False


def read_json(data: bytes | str) -> Any:
    """The JSON value, or UNREADABLE. It returns rather than raises: a decoder's error would hold the text.

    Invalid UTF-8 and lone surrogate escapes are read as U+FFFD; nothing that leaves here holds a lone surrogate.
    """
    try:
        return orjson.loads(data)
    except orjson.JSONDecodeError:
        pass
    if isinstance(data, bytes):
        data = data.decode("utf-8", "replace")
    try:
        lenient = json.dumps(json.loads(data), ensure_ascii=False)
        return orjson.loads(lenient.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace"))
    except (ValueError, RecursionError):
        return UNREADABLE
