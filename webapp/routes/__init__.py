"""Every route of the site, on one screen. A resource is a file; what it does is a verb of HTTP."""

from collections.abc import Sequence

from starlette.routing import BaseRoute, Mount, Route
from starlette.staticfiles import StaticFiles

from webapp.render import STATIC
from webapp.routes import chats, health, memory, operator, sign_in
from webapp.routes.v1 import api


def routes(local_provider: Mount | None = None) -> Sequence[BaseRoute]:
    """``local_provider``: the development provider's own routes, where it is the one that signs people in."""
    site: list[BaseRoute] = [
        Route("/", chats.home),
        Route("/chats", chats.new, methods=["GET"]),
        Route("/chats", chats.create, methods=["POST"]),
        Route("/chats/cancellations", chats.cancel, methods=["POST"]),
        Route("/chats/{chat}", chats.show, methods=["GET"]),
        Route("/chats/{chat}/turns", chats.answer, methods=["POST"]),
        Route("/chats/{chat}/turns/{turn}", chats.show_turn, methods=["GET"]),
        Route("/memory", memory.page, methods=["GET"]),
        Route("/memory/panel", memory.panel, methods=["GET"]),
        Route("/memory/export", memory.export, methods=["GET"]),
        Route("/memory/entries", memory.add, methods=["POST"]),
        Route("/memory/edits", memory.edit, methods=["POST"]),
        Route("/memory/removals", memory.remove, methods=["POST"]),
        Route("/memory/undos", memory.undo, methods=["POST"]),
        Route("/memory/receipts/forgettings", memory.forget_words, methods=["POST"]),
        Route("/memory/forgettings", memory.forget_everything, methods=["POST"]),
        Route("/memory/modes", memory.set_mode, methods=["POST"]),
        *operator.ROUTES,
        *sign_in.ROUTES,
        Route("/healthz", health.live, methods=["GET"]),
        Route("/readyz", health.ready, methods=["GET"]),
        Route("/metrics", health.metrics, methods=["GET"]),
        api(),
        Mount("/static", StaticFiles(directory=STATIC), name="static"),
    ]
    return [*site, local_provider] if local_provider is not None else site
