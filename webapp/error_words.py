"""What every error of the program says to a person: one table over the error trees of all three layers.

An entry holds for its class and for those below it, unless they have one of their own; a test walks every class.
A sentence says what happened, what was and was not saved, and what to do next. `error_pages.py` makes the responses.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

from agent import errors as agent_errors
from memory_core import errors as core_errors
from webapp.errors import (
    ApiKeyRefused,
    BodyMalformed,
    BodyTooLarge,
    CrossOriginRefused,
    IdentityInvalid,
    NotFound,
    OrganizationMoved,
    PageOutdated,
    ProviderRefused,
    ProviderUnreachable,
    RequestInvalid,
    ScopeMissing,
    SignInNeeded,
    SignInUnknown,
    TooManySignIns,
    TooManyWrongKeys,
    WrongHost,
)


@dataclass(frozen=True, slots=True)
class Words:
    """What is said of an error: what happened, what was not done, what to do next. `action` is a label and a path."""

    status: int
    code: str
    title: str
    text: str
    action: tuple[str, str] = ("Go to your chats", "/chats")
    retry_after_seconds: int | None = None


_SIGN_IN = ("Sign in", "/sign-in")
_AGAIN = ("Try again", "/sign-in")

UNEXPECTED = Words(
    500,
    "internal_error",
    "Something went wrong here",
    "The fault is ours, and it has been noted under the request number below. "
    "What was saved before is still there; whether the last step was, a reload will show.",
)

_STORAGE = Words(
    503,
    "storage",
    "The database does not answer",
    "Nothing was changed. Try again in a moment; what you wrote is still on the page you came from.",
    retry_after_seconds=5,
)

_NOT_FOUND = Words(
    404,
    "not_found",
    "There is nothing at this address",
    "It may have been deleted, the address may be mistyped, or it is not yours to see. Nothing of yours was changed.",
)

_SIGNED_OUT = Words(
    401,
    "sign_in_needed",
    "You have been signed out",
    "Your session ended, so nothing was sent or changed. Sign in again; what you wrote stays on the page.",
    _SIGN_IN,
)

_ENDED = Words(
    409,
    "turn_ended",
    "This answer has ended",
    "It was stopped or ended somewhere else, and nothing of it was saved to memory. Reload the page to see it.",
)

_MODEL_FAILED = Words(
    503,
    "model_failed",
    "The model failed",
    "Your message was not answered, and nothing was saved to memory. Try again in a moment.",
    retry_after_seconds=5,
)

WORDS: Mapping[type[Exception], Words] = MappingProxyType(
    {
        # memory_core
        core_errors.OperationRefused: Words(
            422, "operation_refused", "Not saved", "The change does not fit the rules of memory. Nothing in it changed."
        ),
        core_errors.AlreadyInitialized: Words(
            409,
            "memory_already_initialized",
            "Not seeded",
            "This person has begun already: there is memory, or was, or somebody has talked with the agent. "
            "Nothing was changed.",
        ),
        core_errors.MemoryUnavailable: Words(
            503,
            "memory_unavailable",
            "Memory cannot be read right now",
            "It was left exactly as it is, so nothing is lost or overwritten. Try again in a moment.",
            retry_after_seconds=5,
        ),
        core_errors.StorageFailed: _STORAGE,
        core_errors.CommitUnknown: Words(
            503,
            "storage",
            "The database stopped answering at the last step",
            "The change may or may not have been saved. Reload the page: it shows what is true.",
            retry_after_seconds=5,
        ),
        core_errors.TransactionCancelled: Words(
            503,
            "cancelled",
            "The request was stopped",
            "Nothing was changed. Try again if you still want it.",
            retry_after_seconds=1,
        ),
        core_errors.OwnerGone: Words(
            404,
            "not_found",
            "There is nothing here any more",
            "What was remembered for this person has been erased. Nothing was changed.",
        ),
        core_errors.ReceiptGone: Words(
            409,
            "changed_since",
            "This can no longer be undone",
            "It was undone already, or its time is over. Nothing was changed; memory is as the page shows it.",
        ),
        core_errors.DatabaseStartFailed: _STORAGE,
        # agent
        agent_errors.MessageRefused: Words(
            422,
            "message_refused",
            "Not sent",
            "This cannot be sent as a message. What you wrote is still on the page.",
        ),
        agent_errors.AgentNotFound: _NOT_FOUND,
        agent_errors.ConversationNotFound: _NOT_FOUND,
        agent_errors.TurnNotFound: _NOT_FOUND,
        agent_errors.TurnInProgress: Words(
            409,
            "turn_in_progress",
            "Not sent",
            "An answer is still being written in this chat. What you wrote is kept; send it when the answer has ended, "
            "or stop the answer first.",
        ),
        agent_errors.TooManyTurns: Words(
            429,
            "too_many_turns",
            "Not sent",
            "As many answers as are allowed at once are being written for you. What you wrote is kept; "
            "send it when one of them has ended.",
            retry_after_seconds=5,
        ),
        agent_errors.TurnRepeated: Words(
            409,
            "turn_repeated",
            "Sent already",
            "This message was sent before, and its answer is in the chat. It was not sent a second time.",
        ),
        agent_errors.KeyReused: Words(
            422,
            "key_reused",
            "Not sent",
            "This page has sent another message meanwhile. Reload it and send this one again; copy it first.",
        ),
        agent_errors.ConversationWentOn: Words(
            409,
            "conversation_went_on",
            "Not written again",
            "More was said in this chat since, perhaps in another tab. Reload the page to see it.",
        ),
        agent_errors.SessionEnded: _SIGNED_OUT,
        agent_errors.TurnClaimed: _ENDED,
        agent_errors.TurnInterrupted: _ENDED,
        agent_errors.EndedBadly: _MODEL_FAILED,
        agent_errors.ModelError: _MODEL_FAILED,
        agent_errors.ModelBusy: Words(
            503,
            "model_busy",
            "Busy",
            "The model takes no more messages right now. Your message was not answered, "
            "and nothing was saved to memory.",
            retry_after_seconds=20,
        ),
        # webapp
        NotFound: _NOT_FOUND,
        SignInNeeded: _SIGNED_OUT,
        CrossOriginRefused: Words(
            403,
            "cross_origin",
            "This request came from somewhere else",
            "Only Remembrancer’s own pages may change anything here, so nothing was changed. "
            "Open the page itself and try again.",
        ),
        PageOutdated: Words(
            403,
            "page_outdated",
            "This page is out of date",
            "You have signed in again since it was opened, so nothing was sent or changed. "
            "Reload it and try again; copy what you wrote first.",
        ),
        WrongHost: Words(
            421,
            "wrong_host",
            "Remembrancer is not at this address",
            "Nothing was changed. Use the address this site is known by. If you run it: the proxy in front must pass "
            "the Host header on, and REMEMBRANCER_PUBLIC_URL must be what browsers see.",
        ),
        BodyTooLarge: Words(
            413,
            "too_large",
            "That is too much at once",
            "What was sent is over the limit, so nothing was sent on or saved. Shorten it and try again.",
        ),
        TooManySignIns: Words(
            429,
            "too_many_sign_ins",
            "Too many sign-ins at once",
            "Many sign-ins were begun from your address within a minute. You are not signed in; "
            "wait a little and try again.",
            _AGAIN,
            retry_after_seconds=30,
        ),
        ApiKeyRefused: Words(
            401,
            "api_key_refused",
            "Not let in",
            "This needs a valid API key in the header x-api-key. Nothing was done.",
        ),
        ScopeMissing: Words(
            403,
            "scope_missing",
            "Not allowed",
            "This API key was made for other things. Nothing was done; make a key with the scope that this needs.",
        ),
        TooManyWrongKeys: Words(
            429,
            "too_many_wrong_keys",
            "Too many wrong keys",
            "Many wrong API keys came from your address within a minute. Nothing was done. "
            "Wait, then use the right one.",
            retry_after_seconds=30,
        ),
        BodyMalformed: Words(
            400,
            "malformed_body",
            "That could not be understood",
            "The body must be one JSON object in UTF-8, and be sent as application/json. Nothing was done.",
        ),
        RequestInvalid: Words(
            422,
            "validation_error",
            "That does not fit",
            "Parts of the request need a change. Nothing was done.",
        ),
        ProviderUnreachable: Words(
            503,
            "provider_unreachable",
            "The sign-in page of your organization does not answer",
            "You are not signed in. Nothing else is wrong here: try again in a moment, "
            "and tell your operator if it stays so.",
            _AGAIN,
            retry_after_seconds=10,
        ),
        ProviderRefused: Words(
            403,
            "provider_refused",
            "You were not signed in",
            "Your organization’s sign-in page ended the sign-in, or you cancelled it there. Nothing was changed.",
            _AGAIN,
        ),
        SignInUnknown: Words(
            400,
            "sign_in_unknown",
            "This sign-in could not be finished here",
            "It took too long, was finished already, or was begun in another browser. You are not signed in. "
            "If it happens again, let this site set cookies.",
            _AGAIN,
        ),
        IdentityInvalid: Words(
            403,
            "identity_invalid",
            "You were not signed in",
            "What your organization’s sign-in page said could not be trusted, so nobody was signed in. "
            "Try again, and tell your operator if it stays so.",
            _AGAIN,
        ),
        OrganizationMoved: Words(
            503,
            "organization_moved",
            "Remembrancer cannot start",
            "It belongs to another identity provider than the one configured. Nothing was changed.",
            retry_after_seconds=60,
        ),
    }
)

HTTP_WORDS: Mapping[int, Words] = MappingProxyType(
    {
        400: Words(
            400,
            "bad_request",
            "That could not be understood",
            "The request was not in a form this page knows. Nothing was changed.",
        ),
        404: WORDS[NotFound],
        405: Words(
            405,
            "method_not_allowed",
            "This address does not take that kind of request",
            "Nothing was changed.",
        ),
        413: WORDS[BodyTooLarge],
    }
)
