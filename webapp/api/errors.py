"""How an error of the API reaches its caller: one envelope, a code for programs, words for people.

Status, code and ``Retry-After`` are those of the pages (``error_words``). What a page says to the person in front of it
is said here to whoever wrote the program.
"""

from collections.abc import Mapping
from types import MappingProxyType

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response

from agent import errors as agent_errors
from memory_core import errors as core_errors
from memory_core.errors import OperationRefused, RefusalCode
from webapp.api.outputs import EntryProblem, Error, ErrorBody, Problem
from webapp.error_pages import note, request_id, words_for
from webapp.errors import ApiKeyRefused, BodyTooLarge, NotFound, RequestInvalid, ScopeMissing
from webapp.words import REFUSALS

_NOT_FOUND = "There is nothing by this name, or it belongs to another organization."
_STORAGE = "The database does not answer. Nothing was changed; try again in a moment."
_MODEL = "The model gave no answer. Try again in a moment."

#: For an error and those below it. What is not listed says what a page says.
MESSAGES: Mapping[type[Exception], str] = MappingProxyType(
    {
        NotFound: _NOT_FOUND,
        agent_errors.AgentNotFound: _NOT_FOUND,
        agent_errors.ConversationNotFound: _NOT_FOUND,
        agent_errors.TurnNotFound: _NOT_FOUND,
        core_errors.OwnerGone: _NOT_FOUND,
        core_errors.StorageFailed: _STORAGE,
        core_errors.CommitUnknown: "The database stopped answering at the last step. The change may have been made or "
        "not: read it again to know.",
        core_errors.MemoryUnavailable: "The stored memory cannot be read right now. It was left as it is.",
        core_errors.AlreadyInitialized: "This subject has begun already: there is memory, or was, or a session was "
        "created. Nothing was changed.",
        agent_errors.MessageRefused: "The message is empty, too long for this installation, or holds characters that "
        "cannot be stored. Nothing was sent.",
        agent_errors.TurnInProgress: "A turn is running in this session. Nothing was sent: wait for its end, or cancel "
        "it first.",
        agent_errors.TooManyTurns: "As many turns as are allowed at once are running. Nothing was sent: wait for the "
        "end of one.",
        agent_errors.KeyReused: "This Idempotency-Key was used with another body in this session. Nothing was sent.",
        agent_errors.EndedBadly: "The model ended without a whole answer.",
        agent_errors.ModelError: _MODEL,
        agent_errors.ModelBusy: "The model takes no more requests right now. Come back after Retry-After.",
        BodyTooLarge: "The body is over the limit. Nothing was done.",
    }
)
_HTTP: Mapping[int, str] = MappingProxyType(
    {
        404: "There is nothing at this address.",
        405: "This address does not take that method; Allow lists those it takes.",
    }
)


def error_response(request: Request, error: Exception) -> Response:
    """The envelope for ``error``, with the headers that its status asks for."""
    if isinstance(error, agent_errors.SessionEnded):
        error = ApiKeyRefused()  # the key was revoked while the request was under way
    words = words_for(error)
    note(request, error, words)
    code = "validation_error" if isinstance(error, OperationRefused) else words.code
    body = ErrorBody(
        code=code,
        message=_message(error, words.text),
        request_id=request_id(request),
        problems=_problems(error),
    )
    left_out = {"error": {"problems"}} if body.problems is None else None
    content = Error(error=body).model_dump_json(by_alias=True, exclude=left_out)
    response = Response(content, words.status, media_type="application/json")
    if isinstance(error, HTTPException) and error.headers:
        response.headers.update(error.headers)
    if words.retry_after_seconds is not None:
        response.headers["Retry-After"] = str(words.retry_after_seconds)
    if words.status == 401:
        response.headers["WWW-Authenticate"] = 'ApiKey realm="Remembrancer", header="x-api-key"'
    return response


def _message(error: Exception, otherwise: str) -> str:
    if isinstance(error, HTTPException):
        return _HTTP.get(error.status_code, otherwise)
    if isinstance(error, ScopeMissing):
        return f"This key lacks the scope {error.scope}. Nothing was done."
    if isinstance(error, OperationRefused):
        return f"The seed does not fit the rules of memory, so none of it was written. {_why(error)}"
    return next((MESSAGES[kind] for kind in type(error).__mro__ if kind in MESSAGES), otherwise)


def _problems(error: Exception) -> list[Problem | EntryProblem] | None:
    if isinstance(error, RequestInvalid):
        return [Problem(path=each.path, code=each.code, message=each.message) for each in error.problems]
    if isinstance(error, OperationRefused):
        return [
            EntryProblem(
                document=error.target,
                index=error.operation,
                code=error.code,
                message=_why(error),
                limit=error.limit,
                needed=error.needed,
            )
        ]
    return None


def _why(refusal: OperationRefused) -> str:
    """What a rule said to an entry, or to the seed as a whole."""
    if refusal.code is RefusalCode.BATCH_SIZE:
        return "A seed has at least one entry." if refusal.needed == 0 else "There are more entries than can fit."
    return REFUSALS[refusal.code]
