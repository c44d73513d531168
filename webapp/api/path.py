"""The path of a request as it was sent, segment by segment, each decoded by itself.

A subject may hold any character, ``/`` as ``%2F`` too, so a path that was decoded before it was taken apart no longer
tells where a segment ends. ``scope["raw_path"]`` still does.
"""

import re
from collections.abc import Sequence
from urllib.parse import quote, unquote_to_bytes

from starlette.types import Scope

#: A percent sign that escapes nothing: whoever sends one has forgotten to encode.
_BROKEN_ESCAPE = re.compile(rb"%(?![0-9A-Fa-f]{2})")


def sent_segments(scope: Scope) -> tuple[bytes, ...]:
    """What stands between the slashes of the path, still encoded: ``/v1/a%2Fb`` gives ``v1`` and ``a%2Fb``."""
    raw: bytes = scope.get("raw_path") or quote(scope["path"]).encode()
    return tuple(raw.partition(b"?")[0].removeprefix(b"/").split(b"/"))


def match(template: Sequence[str], segments: Sequence[bytes]) -> dict[str, bytes] | None:
    """The encoded values of a template's ``{names}``; None when the path is another one.

    A fixed segment may be encoded as well; a name may stand for nothing, which whoever reads it has to refuse.
    """
    if len(template) != len(segments):
        return None
    values: dict[str, bytes] = {}
    for part, segment in zip(template, segments, strict=True):
        if part.startswith("{"):
            values[part[1:-1]] = segment
        elif unquote_to_bytes(segment) != part.encode():
            return None
    return values


def decoded(segment: bytes) -> str | None:
    """The text of one segment; None when it is no percent-encoded UTF-8."""
    if _BROKEN_ESCAPE.search(segment):
        return None
    try:
        return unquote_to_bytes(segment).decode()
    except UnicodeDecodeError:
        return None
