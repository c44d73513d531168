"""The errors of the web layer, and what every error of the program says to a person.

    WebError
    ├── NotFound                  nothing here, or it is somebody else's: the two look the same
    ├── SignInNeeded              there is no live session
    ├── RequestRefused
    │   ├── CrossOriginRefused    an unsafe request that did not come from our own pages
    │   ├── PageOutdated          its CSRF token is missing or not this session's
    │   ├── WrongHost             asked for under a name that is not ours
    │   ├── BodyTooLarge
    │   ├── TooManySignIns        .retry_after_seconds
    │   ├── ApiKeyRefused         no live API key of this organization came with the request
    │   ├── ScopeMissing          the key may not do that; .scope
    │   ├── TooManyWrongKeys      .retry_after_seconds
    │   ├── BodyMalformed         the body is not the JSON of one value
    │   └── RequestInvalid        parts of the request do not fit; .problems, none of which repeats what was sent
    ├── SignInFailed
    │   ├── ProviderUnreachable   the identity provider gave no usable answer
    │   ├── ProviderRefused       it ended the sign-in itself; .reason is its code
    │   ├── SignInUnknown         the answer belongs to no sign-in that this browser began
    │   └── IdentityInvalid       what it said about the person does not hold; .check names the check
    └── OrganizationMoved         the organization belongs to another issuer (start-up only)

What each of them says to a person stands in `error_words.py`. A class's docstring is its message where none is given.
"""

from dataclasses import dataclass


class WebError(Exception):
    """The request could not be answered."""

    def __init__(self, message: str | None = None) -> None:
        super().__init__(message or (type(self).__doc__ or "").strip().splitlines()[0])


class NotFound(WebError):
    """There is nothing at this address for this person."""


class SignInNeeded(WebError):
    """There is no live session."""


class RequestRefused(WebError):
    """The request was refused before anything was done."""


class CrossOriginRefused(RequestRefused):
    """The request did not come from one of our own pages."""


class PageOutdated(RequestRefused):
    """The CSRF token is missing or belongs to another session."""


class WrongHost(RequestRefused):
    """The request names a host that is not ours."""


class BodyTooLarge(RequestRefused):
    """The request's body is over the limit."""


class TooManySignIns(RequestRefused):
    """Too many sign-ins were begun from one address."""

    def __init__(self, retry_after_seconds: float) -> None:
        super().__init__()
        self.retry_after_seconds = retry_after_seconds


class ApiKeyRefused(RequestRefused):
    """No live API key of this organization came with the request."""


class ScopeMissing(RequestRefused):
    """The API key lacks the scope that this needs."""

    def __init__(self, scope: str) -> None:
        super().__init__()
        self.scope = scope


class TooManyWrongKeys(RequestRefused):
    """Too many wrong API keys came from one address."""

    def __init__(self, retry_after_seconds: float) -> None:
        super().__init__()
        self.retry_after_seconds = retry_after_seconds


class BodyMalformed(RequestRefused):
    """The body is not the JSON of one value, or does not say that it is JSON."""


@dataclass(frozen=True, slots=True)
class Problem:
    """One part of a request that needs a change: where it stands, a code, and what would fit. Never what was sent."""

    path: str
    code: str
    message: str


class RequestInvalid(RequestRefused):
    """Parts of the request do not fit."""

    def __init__(self, *problems: Problem) -> None:
        super().__init__()
        self.problems = problems


class SignInFailed(WebError):
    """Nobody was signed in."""


class ProviderUnreachable(SignInFailed):
    """The identity provider gave no usable answer."""


class ProviderRefused(SignInFailed):
    """The identity provider ended the sign-in."""

    def __init__(self, reason: str) -> None:
        super().__init__(f"the identity provider ended the sign-in: {reason}")
        self.reason = reason


class SignInUnknown(SignInFailed):
    """The answer belongs to no sign-in that this browser began, or to one that is over."""


class IdentityInvalid(SignInFailed):
    """What the identity provider said about the person does not hold."""

    def __init__(self, check: str) -> None:
        super().__init__(f"the identity does not hold: {check}")
        self.check = check


class OrganizationMoved(WebError):
    """The organization belongs to another issuer than the one configured."""
