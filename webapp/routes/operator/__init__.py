"""The operator's pages. To everybody else there is nothing at any of these addresses, by whatever method.

One gate stands before all of them, so that a new page cannot forget it.
"""

from starlette.requests import Request
from starlette.routing import BaseRoute, Route, Router
from starlette.types import ASGIApp, Receive, Scope, Send

from webapp.auth.person import require_operator
from webapp.routes.operator import agents, audit, health, keys, overview, seed, subjects

PAGES: tuple[BaseRoute, ...] = (
    Route("/operator", overview.page, methods=["GET"]),
    Route("/operator/health", health.page, methods=["GET"]),
    Route("/operator/probes", health.probe_now, methods=["POST"]),
    Route("/operator/seed", seed.page, methods=["GET"]),
    Route("/operator/seed", seed.create, methods=["POST"]),
    Route("/operator/subjects", subjects.page, methods=["GET"]),
    Route("/operator/subjects/{owner}", subjects.show, methods=["GET"]),
    Route("/operator/subjects/{owner}/erasures", subjects.erase, methods=["POST"]),
    Route("/operator/agents", agents.page, methods=["GET"]),
    Route("/operator/agents", agents.create, methods=["POST"]),
    Route("/operator/agents/new", agents.new, methods=["GET"]),
    Route("/operator/agents/{agent}", agents.show, methods=["GET"]),
    Route("/operator/agents/{agent}/versions", agents.change, methods=["POST"]),
    Route("/operator/agents/{agent}/versions/{version:int}", agents.version, methods=["GET"]),
    Route("/operator/keys", keys.page, methods=["GET"]),
    Route("/operator/keys", keys.create, methods=["POST"]),
    Route("/operator/keys/{key}", keys.show, methods=["GET"]),
    Route("/operator/keys/{key}/revocations", keys.revoke, methods=["POST"]),
    Route("/operator/audit", audit.page, methods=["GET"]),
)


class OperatorsOnly:
    """ASGI: lets operators pass. Raises SignInNeeded for a stranger and NotFound for everybody else."""

    def __init__(self, app: ASGIApp) -> None:
        self.app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        await require_operator(Request(scope, receive))
        await self.app(scope, receive, send)


_GATE = OperatorsOnly(Router(PAGES, redirect_slashes=False))

#: Every method and every path at and below /operator.
ROUTES: tuple[BaseRoute, ...] = (Route("/operator", _GATE), Route("/operator/{rest:path}", _GATE))
