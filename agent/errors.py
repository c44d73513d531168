"""The errors of the agent layer.

    AgentError
    ├── MessageRefused          what was sent cannot be a message; .why
    ├── AgentNotFound           no such agent, or no such version of it
    ├── ConversationNotFound    no such conversation, or somebody else's
    ├── TurnNotFound            no such turn, or somebody else's
    ├── TurnInProgress          the conversation is being answered already
    ├── TooManyTurns            the owner has as many answers under way as are allowed; .at_once
    ├── TurnRepeated            the key names an earlier turn, which is the answer; .turn_id, .conversation_id
    ├── KeyReused               the key was used for another message
    ├── ConversationWentOn      more was said since the answer that is to be written again
    ├── SessionEnded            whoever asks has signed out meanwhile
    ├── TurnClaimed             somebody else has ended this turn; nothing of it may be committed
    ├── TurnInterrupted         a person, a lost client or a closing process ends the turn; .outcome
    ├── EndedBadly              the model's answer is not a good end; .reason
    └── ModelError              a model could not give its answer
        ├── ModelBusy           it has no room now (429)
        ├── ModelUnreachable    it gave nothing: no connection, a 5xx, no first token in time
        ├── ModelRejected       it refused the request itself (any other 4xx)
        └── ModelStreamBroken   its answer began and then broke off

A model error carries codes and counts only: what a provider wrote may quote the request, and the request holds
what people said. Whoever raises one does so outside the `except` block, so that no `__context__` keeps the original.
"""

from __future__ import annotations

from enum import StrEnum

from agent.outcome import Outcome, Reason


class AgentError(Exception):
    """The agent could not do what was asked."""


class ModelFault(StrEnum):
    """What exactly went wrong between us and a model: the whole vocabulary of `ModelError.code`."""

    BUSY = "busy"
    QUOTA_EXHAUSTED = "quota_exhausted"

    CONNECTION_FAILED = "connection_failed"
    SERVER_ERROR = "server_error"
    NO_ANSWER = "no_answer"

    REQUEST_INVALID = "request_invalid"
    UNAUTHORIZED = "unauthorized"
    FORBIDDEN = "forbidden"
    NOT_FOUND = "not_found"
    CONTEXT_TOO_LONG = "context_too_long"
    CONTENT_REFUSED = "content_refused"

    CUT = "cut"
    STALLED = "stalled"
    ERROR_IN_STREAM = "error_in_stream"
    MALFORMED = "malformed"
    TOO_LARGE = "too_large"
    NOT_A_STREAM = "not_a_stream"


class ModelError(AgentError):
    """The model could not answer.

    code                  a `ModelFault`
    status                the HTTP status, when there was one
    retry_after_seconds   how long the server asked to wait, when it said so (never below 0)
    retryable             another model, or this one later, may do better with the same request. Whether one may be
                          tried at all (only before the first token and before anything is staged) is the turn's rule.
    """

    def __init__(
        self, code: ModelFault, *, status: int | None = None, retry_after_seconds: float | None = None
    ) -> None:
        super().__init__(code.value, status)
        self.code = code
        self.status = status
        self.retry_after_seconds = retry_after_seconds

    @property
    def retryable(self) -> bool:
        return True

    def __str__(self) -> str:
        summary = (type(self).__doc__ or "").partition("\n")[0].rstrip(".")
        detail = self.code.value if self.status is None else f"{self.code.value}, {self.status}"
        return f"{summary} ({detail})."


class ModelBusy(ModelError):
    """The model has no room for this request now."""


class ModelUnreachable(ModelError):
    """The model could not be reached."""


class ModelRejected(ModelError):
    """The model refused the request."""

    @property
    def retryable(self) -> bool:
        """Another model helps where this one is unknown to the server or closed to us."""
        return self.code in {ModelFault.NOT_FOUND, ModelFault.FORBIDDEN}


class ModelStreamBroken(ModelError):
    """The model's answer broke off."""


class MessageRefused(AgentError):
    """This cannot be sent as a message. ``why`` is ``empty``, ``control`` or ``too_long``."""

    def __init__(self, why: str, limit: int | None = None, chars: int | None = None) -> None:
        super().__init__(f"a message was refused: {why}")
        self.why = why
        self.limit = limit
        self.chars = chars


class AgentNotFound(AgentError):
    """There is no such agent, or no such version of it."""


class ConversationNotFound(AgentError):
    """There is no such conversation for this person."""


class TurnNotFound(AgentError):
    """There is no such turn for this person."""


class TurnInProgress(AgentError):
    """An answer is still being written in this conversation."""


class TooManyTurns(AgentError):
    """As many answers as are allowed at once are being written for this person."""

    def __init__(self, at_once: int) -> None:
        super().__init__(f"{at_once} turns are under way")
        self.at_once = at_once


class TurnRepeated(AgentError):
    """The same key and message were sent before: the earlier turn is the answer."""

    def __init__(self, turn_id: str, conversation_id: str) -> None:
        super().__init__(f"repeats {turn_id}")
        self.turn_id = turn_id
        self.conversation_id = conversation_id


class KeyReused(AgentError):
    """The key was used before, for another message."""


class ConversationWentOn(AgentError):
    """More was said since the answer that is to be written again."""


class SessionEnded(AgentError):
    """The session that asks was signed out."""


class TurnClaimed(AgentError):
    """The turn has been ended by somebody else."""


class TurnInterrupted(AgentError):
    """The turn is to end now, without saving anything. ``outcome`` is *stopped* or *interrupted*."""

    def __init__(self, outcome: Outcome) -> None:
        super().__init__(str(outcome))
        self.outcome = outcome


class EndedBadly(AgentError):
    """The model came to a halt, but not at a good end. ``reason`` says how."""

    def __init__(self, reason: Reason) -> None:
        super().__init__(str(reason))
        self.reason = reason
