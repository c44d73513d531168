"""From what the SDK and its transport raise to our errors. Nothing of the original survives but codes and counts.

A provider's message may quote the request, and so may an exception's attributes. Callers therefore only *make* the
error inside their `except` block and raise it outside: `raise … from None` would keep the original as `__context__`.
"""

from __future__ import annotations

import math
import time
from collections.abc import Mapping
from email.utils import parsedate_to_datetime
from typing import Final

import aiohttp
import httpx2
import openai

from agent.errors import ModelBusy, ModelError, ModelFault, ModelRejected, ModelUnreachable

TRANSPORT_ERRORS: Final = (
    openai.OpenAIError,
    httpx2.HTTPError,
    httpx2.InvalidURL,
    aiohttp.ClientError,
    OSError,
    RuntimeError,
)
"""What can come out of the SDK, httpx2's layer or aiohttp's below it while a request is made or a body is read.
aiohttp's errors are not all mapped by the layer above. TimeoutError and ssl errors are OSErrors; a client that was
closed meanwhile says so with a RuntimeError."""

UNSENDABLE_ERRORS: Final = (TypeError, ValueError)
"""A request that has no JSON or no UTF-8 form. Python's own error holds the whole text."""

_KNOWN_CODES: Final = {
    "insufficient_quota": ModelFault.QUOTA_EXHAUSTED,
    "context_length_exceeded": ModelFault.CONTEXT_TOO_LONG,
    "string_above_max_length": ModelFault.CONTEXT_TOO_LONG,
    "exceed_context_size_error": ModelFault.CONTEXT_TOO_LONG,
    "model_not_found": ModelFault.NOT_FOUND,
    "content_filter": ModelFault.CONTENT_REFUSED,
    "content_policy_violation": ModelFault.CONTENT_REFUSED,
}

_BY_STATUS: Final = {
    401: ModelFault.UNAUTHORIZED,
    402: ModelFault.QUOTA_EXHAUSTED,
    403: ModelFault.FORBIDDEN,
    404: ModelFault.NOT_FOUND,
    413: ModelFault.CONTEXT_TOO_LONG,
}

_PASSING_4XX: Final = frozenset({408, 409, 425})


def status_fault(error: openai.APIStatusError) -> ModelError:
    """The error for an HTTP status; the provider's own code refines it where it is one of the few we know."""
    status = error.status_code
    wait = retry_after_seconds(error.response.headers, now=time.time())
    known = next((_KNOWN_CODES[code] for code in (error.code, error.type) if code in _KNOWN_CODES), None)
    if status == 429:
        return ModelBusy(known or ModelFault.BUSY, status=status, retry_after_seconds=wait)
    if status < 400 or status >= 500 or status in _PASSING_4XX:
        return ModelUnreachable(ModelFault.SERVER_ERROR, status=status, retry_after_seconds=wait)
    return ModelRejected(known or _BY_STATUS.get(status, ModelFault.REQUEST_INVALID), status=status)


def retry_after_seconds(headers: Mapping[str, str], *, now: float) -> float | None:
    """How long `Retry-After` (or OpenAI's `retry-after-ms`) asks to wait: seconds, never below 0. None without one.

    A date is measured against the response's own `Date`, or against `now` (a Unix time) when it has none.
    """
    milliseconds = _number(headers.get("retry-after-ms"))
    if milliseconds is not None:
        return milliseconds / 1000
    value = headers.get("retry-after")
    seconds = _number(value)
    if seconds is not None:
        return seconds
    until = _unix_time(value)
    if until is None:
        return None
    return max(0.0, until - (_unix_time(headers.get("date")) or now))


def _number(value: str | None) -> float | None:
    try:
        number = float(value or "")
    except ValueError:
        return None
    return max(0.0, number) if math.isfinite(number) else None


def _unix_time(value: str | None) -> float | None:
    try:
        return parsedate_to_datetime(value or "").timestamp()
    except (ValueError, OverflowError):
        return None
