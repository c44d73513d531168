"""From the bytes of a chat completion to its text, its tool calls and its end. The hot path: one call per read.

Typed chunks are never built: a read's lines are parsed with orjson and only the fields that matter are looked at.
Reading is generous where nothing can be lost (unknown fields and chunks without `choices` are passed over) and strict
where something would be (an event that is no JSON, a field that matters in the wrong shape). An error object counts as
one wherever it stands. U+0000 is dropped from text: no document, page or database wants it.
"""

from __future__ import annotations

from typing import Any

from agent.errors import ModelError, ModelFault, ModelStreamBroken
from agent.models.event_stream import UNREADABLE, EventStream, read_json
from agent.models.protocol import RoundEnd
from agent.models.tool_calls import ToolCallAssembly


class ChunkDecoder:
    """One answer. Feed it the body as it comes, then ask for `finish`.

    has_begun    the model has given something: text, a refusal, reasoning, a piece of a tool call, a finish reason
    fault        what ended the answer badly; the text before it, from the same read too, was still returned
    """

    def __init__(self) -> None:
        self.has_begun = False
        self.fault: ModelError | None = None
        self._events = EventStream()
        self._tool_calls = ToolCallAssembly()
        self._finish_reason: str | None = None
        self._input_tokens: int | None = None
        self._output_tokens: int | None = None
        self._model: str | None = None

    @property
    def is_done(self) -> bool:
        """`[DONE]` was seen or a fault: nothing more is to be read."""
        return self._events.done or self.fault is not None

    @property
    def has_finish_reason(self) -> bool:
        """The model has named its reason: the answer is whole, only counts may follow."""
        return self._finish_reason is not None

    @property
    def heard(self) -> bool:
        """The last feed held more than comments, which servers send while nothing happens."""
        return self._events.heard

    def feed(self, data: bytes) -> str:
        """The text these bytes completed, often "". Never raises: see `fault`."""
        return self._read(self._events.feed(data))

    def feed_whole(self, body: bytes) -> str:
        """The text of a body that is one JSON completion and no stream."""
        value = read_json(body)
        if value is UNREADABLE:
            self.fault = ModelStreamBroken(ModelFault.MALFORMED)
            return ""
        return self._read([value])

    def end(self) -> str:
        """The body is over: the text that an unfinished last line still held."""
        return self._read(self._events.end())

    def finish(self) -> RoundEnd:
        """The round as it was read. Raises ModelStreamBroken for a tool call without a name."""
        calls = self._tool_calls.finish()
        return RoundEnd(self._finish_reason, calls, self._input_tokens, self._output_tokens, self._model)

    def _read(self, values: list[Any]) -> str:
        texts: list[str] = []
        try:
            for value in values:
                texts.append(self._read_chunk(value))  # noqa: PERF401 - what came before a fault must not be lost
        except ModelStreamBroken as fault:
            self.fault = fault
        self.fault = self.fault or self._events.fault
        text = "".join(texts)
        return text.replace("\x00", "") if "\x00" in text else text

    def _read_chunk(self, chunk: Any) -> str:
        if not isinstance(chunk, dict):
            raise ModelStreamBroken(ModelFault.MALFORMED)
        error = chunk.get("error")
        if error or error == {} or chunk.get("object") == "error":
            raise ModelStreamBroken(ModelFault.ERROR_IN_STREAM, status=_status(error))
        if self._model is None:
            self._model = _string(chunk.get("model"))
        if usage := chunk.get("usage"):
            self._read_usage(usage)
        choices = chunk.get("choices")
        if not choices:
            return ""
        if not isinstance(choices, list) or not isinstance(choices[0], dict):
            raise ModelStreamBroken(ModelFault.MALFORMED)
        return self._read_choice(choices[0])

    def _read_choice(self, choice: dict[str, Any]) -> str:
        """The only choice: we never ask for more. A whole completion has a `message` where chunks have a delta."""
        delta = choice.get("delta") or choice.get("message") or {}
        if not isinstance(delta, dict):
            raise ModelStreamBroken(ModelFault.MALFORMED)
        text = _spoken(delta.get("content"))
        if refusal := delta.get("refusal"):
            text += _spoken(refusal)
        if tool_calls := delta.get("tool_calls"):
            self._tool_calls.add(tool_calls)
        if reason := _string(choice.get("finish_reason")):
            self._finish_reason = reason
        if reason == "error":
            raise ModelStreamBroken(ModelFault.ERROR_IN_STREAM)
        if not self.has_begun:
            reasoning = delta.get("reasoning_content") or delta.get("reasoning")
            self.has_begun = bool(text or tool_calls or reason or reasoning)
        return text

    def _read_usage(self, usage: Any) -> None:
        """Counts may come in any chunk, also again and again: the last ones hold."""
        if isinstance(usage, dict):
            self._input_tokens = _count(usage.get("prompt_tokens"), self._input_tokens)
            self._output_tokens = _count(usage.get("completion_tokens"), self._output_tokens)


def _spoken(content: Any) -> str:
    """Content is a string, nothing, or (some servers) a list of parts of which the text ones are spoken."""
    if isinstance(content, str):
        return content
    if content is None:
        return ""
    if not isinstance(content, list):
        raise ModelStreamBroken(ModelFault.MALFORMED)
    texts = [part.get("text") for part in content if isinstance(part, dict) and part.get("type") == "text"]
    return "".join([text for text in texts if isinstance(text, str)])


def _string(value: Any) -> str | None:
    return value if isinstance(value, str) and value else None


def _count(value: Any, otherwise: int | None) -> int | None:
    return value if isinstance(value, int) and value >= 0 else otherwise


def _status(error: Any) -> int | None:
    """The HTTP status some gateways put into an error's `code`."""
    code = error.get("code") if isinstance(error, dict) else None
    return code if isinstance(code, int) and 400 <= code <= 599 else None
