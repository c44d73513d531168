"""Lists in parts: how many of what, and from where. A cursor is opaque and says only where its own list went on."""

import base64
import binascii
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import TypeVar

import orjson

from webapp.api.outputs import Page
from webapp.errors import Problem, RequestInvalid

DEFAULT_LIMIT = 20
MAX_LIMIT = 100
_LIMIT = re.compile(r"[1-9][0-9]{0,2}")
_MAX_CURSOR_CHARS = 512

Row = TypeVar("Row")
Item = TypeVar("Item")


@dataclass(frozen=True, slots=True)
class Window:
    """Which part of a list is asked for. ``cursor`` is what `page_of` has handed out, or None for the beginning."""

    limit: int = DEFAULT_LIMIT
    cursor: str | None = None

    @property
    def one_more(self) -> int:
        """How many rows to read, so that it shows whether anything follows."""
        return self.limit + 1

    def after(self, list_name: str) -> str | None:
        """Where that list goes on. Raises RequestInvalid for a cursor that is none of it."""
        if self.cursor is None:
            return None
        try:
            padded = self.cursor + "=" * (-len(self.cursor) % 4)
            found = orjson.loads(base64.b64decode(padded, altchars=b"-_", validate=True))
        except (binascii.Error, ValueError):
            found = None
        if not isinstance(found, list) or len(found) != 2 or found[0] != list_name or not isinstance(found[1], str):
            raise _bad_cursor()
        return found[1]

    def after_number(self, list_name: str) -> int | None:
        """The same, for a list that is numbered."""
        after = self.after(list_name)
        if after is None:
            return None
        if not re.fullmatch(r"[0-9]{1,9}", after):
            raise _bad_cursor()
        return int(after)

    def after_moment(self, list_name: str) -> tuple[datetime, str] | None:
        """The same, for a list in the order of time and id."""
        after = self.after(list_name)
        if after is None:
            return None
        at, _, row_id = after.partition(" ")
        try:
            moment = datetime.fromisoformat(at)
        except ValueError:
            raise _bad_cursor() from None
        if moment.tzinfo is None or "\0" in row_id:
            raise _bad_cursor()
        return moment, row_id


def read_window(query: Mapping[str, str]) -> Window:
    """The window that a query asks for. Raises RequestInvalid."""
    limit, cursor = query.get("limit"), query.get("cursor")
    if limit is not None and (not _LIMIT.fullmatch(limit) or int(limit) > MAX_LIMIT):
        raise RequestInvalid(Problem("limit", "out_of_range", f"must be a number from 1 to {MAX_LIMIT}"))
    if cursor is not None and not (0 < len(cursor) <= _MAX_CURSOR_CHARS and cursor.isascii()):
        raise _bad_cursor()
    return Window(DEFAULT_LIMIT if limit is None else int(limit), cursor)


def page_of(
    list_name: str,
    window: Window,
    rows: Sequence[Row],
    view: Callable[[Row], Item],
    place: Callable[[Row], str],
) -> Page[Item]:
    """One part of a list, made of as many rows as `one_more` has asked for. ``place`` says where a row stands."""
    shown = rows[: window.limit]
    goes_on = len(rows) > window.limit
    cursor = _cursor(list_name, place(shown[-1])) if goes_on else None
    return Page(data=[view(row) for row in shown], next_cursor=cursor)


def _cursor(list_name: str, place: str) -> str:
    return base64.urlsafe_b64encode(orjson.dumps([list_name, place])).decode().rstrip("=")


def _bad_cursor() -> RequestInvalid:
    return RequestInvalid(Problem("cursor", "unknown_cursor", "must be a nextCursor of this list"))
