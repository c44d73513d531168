"""The overview: health, how turns ended, and what they come to."""

from sqlalchemy.engine import Connection
from starlette.requests import Request
from starlette.responses import Response

from agent.statistics import Statistics, read_statistics
from webapp.auth.person import require_operator
from webapp.operator_pages.frame import operator_page
from webapp.operator_pages.health import DatabaseState, health_of, read_database
from webapp.operator_pages.overview import charts_of, totals_of
from webapp.services import services_of


async def page(request: Request) -> Response:
    """Counts and states of the last days."""
    operator, services = await require_operator(request), services_of(request)

    def read(connection: Connection) -> tuple[DatabaseState, Statistics]:
        return read_database(connection), read_statistics(connection, services.organization.id)

    database, statistics = await services.read(read)
    view = {
        "readings": health_of(services, database, statistics),
        "charts": charts_of(statistics),
        "totals": totals_of(statistics),
    }
    return await operator_page(request, operator, "overview", view, tab="/operator")
