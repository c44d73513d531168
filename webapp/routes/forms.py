"""Reading what a form or script has sent."""

from starlette.datastructures import FormData
from starlette.requests import Request


def text(form: FormData, name: str) -> str:
    """A field's text; empty when it is missing or a file."""
    value = form.get(name)
    return value if isinstance(value, str) else ""


def is_htmx(request: Request) -> bool:
    """Whether script asks, and wants parts of a page rather than a page."""
    return request.headers.get("hx-request") == "true"
