"""Every call of the HTTP API, in one table. A resource is a file; a path that is not here does not exist."""

from webapp.api.router import Api
from webapp.api.table import ApiRoute
from webapp.routes.v1 import agents, description, evaluations, memory, sessions, turns

TABLE: tuple[ApiRoute, ...] = (
    *agents.ROUTES,
    *memory.ROUTES,
    *sessions.ROUTES,
    *turns.ROUTES,
    *evaluations.ROUTES,
)


def api() -> Api:
    """The API as one route of the site."""
    return Api(TABLE, description.pages(TABLE))
