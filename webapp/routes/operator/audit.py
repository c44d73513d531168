"""The audit log: who did what, newest first, each line in words."""

from sqlalchemy.engine import Connection
from starlette.requests import Request
from starlette.responses import Response

from webapp.audit import list_audit
from webapp.auth.person import require_operator
from webapp.operator_pages.frame import operator_page
from webapp.operator_pages.log import LogLine, read_lines
from webapp.services import services_of

PAGE_LINES = 50


async def page(request: Request) -> Response:
    """A stretch of the log; ``?before=`` is the number of the line it ends before."""
    operator, services = await require_operator(request), services_of(request)
    organization_id, before = services.organization.id, _number(request.query_params.get("before", ""))

    def read(connection: Connection) -> tuple[LogLine, ...]:
        records = list_audit(connection, organization_id, limit=PAGE_LINES + 1, before=before)
        return read_lines(connection, organization_id, records)

    lines = await services.read(read)
    shown = lines[:PAGE_LINES]
    view = {"lines": shown, "older": shown[-1].id if len(lines) > PAGE_LINES else 0, "is_first": before is None}
    return await operator_page(request, operator, "audit", view, tab="/operator/audit")


def _number(text: str) -> int | None:
    """The number of a line as an address brings it; None for every other text."""
    return int(text) if text.isascii() and text.isdigit() and len(text) < 19 else None
