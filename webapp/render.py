"""Templates to HTML. Owns the Jinja environment and the filters for numbers and times; knows no route and no domain.

Everything is escaped, always. A template that asks for a name it was not given fails instead of printing nothing.
"""

from collections.abc import Mapping
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup
from starlette.requests import Request
from starlette.responses import HTMLResponse


def _folder(name: str) -> Path:
    """A top-level folder of the repository, or the same folder as the wheel carries it inside this package."""
    beside = Path(__file__).parent.parent / name
    inside = Path(__file__).parent / f"_{name}"
    return inside if inside.is_dir() else beside


TEMPLATES = _folder("templates")
STATIC = _folder("static")


def render(request: Request, name: str, context: Mapping[str, Any], status: int = 200) -> HTMLResponse:
    """A whole page. ``no-store``: it shows a person's words, and *Back* after signing out must not."""
    body = _environment().get_template(name).render(request_path=request.url.path, **context)
    return HTMLResponse(body, status_code=status, headers={"Cache-Control": "no-store"})


def render_partial(name: str, **context: Any) -> str:
    """A part of a page. Without white space round it: a morph would add that to the page as text, each time."""
    return _environment().get_template(name).render(**context).strip()


@cache
def _environment() -> Environment:
    environment = Environment(
        loader=FileSystemLoader(TEMPLATES),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        auto_reload=False,
    )
    environment.filters.update(number=number, clock=clock, day=day, moment=moment, until=until)
    return environment


def number(value: int) -> str:
    """``1375`` as ``1,375``."""
    return f"{value:,}"


def clock(at: datetime) -> Markup:
    """The hour, as ``14:02``."""
    return _time(at, "clock", f"{_utc(at):%H:%M} UTC")


def day(at: datetime) -> Markup:
    """The day, as ``30 November``; script adds *Today* and *Yesterday*."""
    return _time(at, "day", f"{_utc(at).day} {_utc(at):%B}")


def moment(at: datetime) -> Markup:
    """Day and hour, as ``30 November, 14:02``."""
    return _time(at, "moment", f"{_utc(at).day} {_utc(at):%B, %H:%M} UTC")


def until(at: datetime) -> Markup:
    """A moment ahead, as ``tomorrow, 14:02`` (script) or with its date."""
    return _time(at, "until", f"{_utc(at).day} {_utc(at):%B, %H:%M} UTC")


def _utc(at: datetime) -> datetime:
    return at.astimezone(UTC)


def _time(at: datetime, style: str, fallback: str) -> Markup:
    """The text is UTC and says so; ``js/times.js`` rewrites it in the reader's own zone."""
    return Markup('<time datetime="{}" data-time="{}">{}</time>').format(_utc(at).isoformat(), style, fallback)
