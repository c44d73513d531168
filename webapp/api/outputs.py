"""What callers are sent: the bodies of the API's responses, and the data of a turn's events."""

from collections.abc import Mapping
from typing import Generic, Literal, TypeVar

from pydantic import ConfigDict

from agent.outcome import MemoryOutcome, Outcome, Reason
from memory_core.document import Target
from memory_core.errors import RefusalCode
from webapp.api.base import Moment, Output

Item = TypeVar("Item")


class Page(Output, Generic[Item]):
    """A part of a list. `nextCursor` asks for what comes after it; null: nothing does."""

    data: list[Item]
    next_cursor: str | None


class Problem(Output):
    """One thing in a request that needs a change. What was sent is never repeated."""

    path: str
    code: str
    message: str


class EntryProblem(Output):
    """The entry of a seed that a rule refused; `index` null: the document, or the seed, as a whole."""

    document: Target | None
    index: int | None
    code: RefusalCode
    message: str
    limit: int | None
    needed: int | None


class ErrorBody(Output):
    """What went wrong. `code` is for programs, `message` for people, `requestId` for the operator's log."""

    model_config = ConfigDict(json_schema_serialization_defaults_required=False)

    code: str
    message: str
    request_id: str
    problems: list[Problem | EntryProblem] | None = None


class Error(Output):
    """The envelope of every error."""

    error: ErrorBody


class ToolSwitch(Output):
    """One switch."""

    name: Literal["memory", "session_search", "skills"]
    enabled: bool


class AgentToolset(Output):
    """The switches of an agent's tools."""

    type: Literal["agent_toolset"] = "agent_toolset"
    configs: list[ToolSwitch]


class AgentVersionView(Output):
    """A version of an agent. It never changes; sessions keep the one they began with."""

    agent_id: str
    version: int
    name: str
    instructions: str
    model: str
    fallback_models: list[str]
    tools: AgentToolset
    created_at: Moment


class AgentView(Output):
    """An agent in its current version."""

    id: str
    version: int
    name: str
    instructions: str
    model: str
    fallback_models: list[str]
    tools: AgentToolset
    is_default: bool
    created_at: Moment
    updated_at: Moment


class Store(Output):
    """One of the two documents. Sizes in code points, separators included."""

    store: Literal["user", "memory"]
    filename: str
    purpose: str
    entries: list[str]
    characters: int
    limit: int


class Memory(Output):
    """What an agent remembers about a subject, whole. `updatedAt` null: nothing."""

    memory_id: str
    agent_id: str
    subject_id: str
    stores: list[Store]
    updated_at: Moment | None


class SessionView(Output):
    """A session; in the browser the same thing is a chat."""

    id: str
    agent_id: str
    agent_version: int
    subject_id: str
    title: str
    created_at: Moment
    updated_at: Moment


class MessageView(Output):
    """One message of a session. `active` false: an answer that was written again since."""

    id: str
    turn_id: str
    role: Literal["user", "assistant"]
    content: str
    active: bool
    created_at: Moment


class MemoryEndingView(Output):
    """What became of memory in a turn. Only `committed` means that it changed. `targets` counts the changes of each
    document; null once that is no longer kept.
    """

    outcome: MemoryOutcome
    reason: RefusalCode | None
    receipt_id: str | None
    undo_until: Moment | None
    targets: dict[Literal["user", "memory"], int] | None
    user_characters: int | None
    memory_characters: int | None


class TurnEndedData(Output):
    """`turn.ended`: how the turn stands in the database. Nothing follows."""

    sequence: int
    turn_id: str
    outcome: Outcome
    finish_reason: str | None
    message_id: str | None
    memory: MemoryEndingView


class TurnResult(TurnEndedData):
    """A turn that has ended, for a caller who did not stream: the data of `turn.ended`, and its text."""

    text: str


class TurnView(Output):
    """A turn as it stands. `reason` says why one that failed did."""

    id: str
    session_id: str
    agent_version: int
    outcome: Outcome
    reason: Reason | None
    finish_reason: str | None
    message_id: str | None
    text: str | None
    memory: MemoryEndingView
    started_at: Moment
    ended_at: Moment | None


class Cancellation(Output):
    """What was stopped. `turnId` null: nothing was running."""

    turn_id: str | None
    cancelled: bool


class Evaluation(Output):
    """The memory-free agent's answer. `finishReason` `length` or `content_filter`: it was cut short."""

    text: str
    finish_reason: Literal["stop", "length", "content_filter"]
    model: str


class TurnStartedData(Output):
    """`turn.started`: the turn is on record and the model is about to be asked."""

    sequence: int
    turn_id: str
    session_id: str


class MessageDeltaData(Output):
    """`message.delta`: more of the answer."""

    sequence: int
    turn_id: str
    text: str


class ToolStartedData(Output):
    """`tool.started`: the model has called a tool."""

    sequence: int
    turn_id: str
    tool: str


class MemoryStagedData(Output):
    """`memory.staged`: changes that are kept only if the turn ends well. Counts, never words."""

    sequence: int
    turn_id: str
    operation_count: int
    targets: dict[Literal["user", "memory"], int]


class TurnErrorData(Output):
    """`error`: why the turn failed; `turn.ended` follows."""

    sequence: int
    turn_id: str
    code: Reason
    message: str


#: The events of a turn, in the order in which they can come.
EVENTS: Mapping[str, type[Output]] = {
    "turn.started": TurnStartedData,
    "message.delta": MessageDeltaData,
    "tool.started": ToolStartedData,
    "memory.staged": MemoryStagedData,
    "error": TurnErrorData,
    "turn.ended": TurnEndedData,
}
