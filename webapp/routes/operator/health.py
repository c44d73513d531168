"""Health as a page of its own, and the probe: a write that is rolled back, when somebody asks for it."""

from sqlalchemy.engine import Connection
from starlette.requests import Request
from starlette.responses import HTMLResponse, Response

from agent.statistics import Statistics, read_statistics
from webapp.auth.person import Person, require_operator
from webapp.operator_pages.frame import operator_page
from webapp.operator_pages.health import DatabaseState, ProbeView, health_of, read_database, try_to_write
from webapp.render import render_partial
from webapp.routes.forms import is_htmx
from webapp.services import services_of


async def page(request: Request) -> Response:
    """What this process sees."""
    return await _page(request, await require_operator(request), None)


async def probe_now(request: Request) -> Response:
    """Write, read, change and roll back; then say how it went."""
    operator, services = await require_operator(request), services_of(request)
    probe = await services.workers.run(lambda: try_to_write(services))
    if is_htmx(request):
        return HTMLResponse(render_partial("operator/_probe.html", probe=probe))
    return await _page(request, operator, probe)


async def _page(request: Request, operator: Person, probe: ProbeView | None) -> Response:
    services = services_of(request)

    def read(connection: Connection) -> tuple[DatabaseState, Statistics]:
        return read_database(connection), read_statistics(connection, services.organization.id)

    database, statistics = await services.read(read)
    view = {"readings": health_of(services, database, statistics), "probe": probe}
    return await operator_page(request, operator, "health", view, tab="/operator/health")
