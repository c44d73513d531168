"""Whether this process lives, and whether it can work. Neither leaves anything behind."""

from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response

from memory_core.database.migrations import is_ready
from memory_core.errors import StorageFailed
from webapp.services import services_of


async def live(request: Request) -> Response:
    """The process answers."""
    return PlainTextResponse("ok\n")


async def ready(request: Request) -> Response:
    """The database answers, and its schema is at or past the oldest revision this release works with."""
    services = services_of(request)
    try:
        is_ok = await services.workers.run(lambda: is_ready(services.engine))
    except StorageFailed:
        is_ok = False
    if is_ok:
        return PlainTextResponse("ready\n")
    return PlainTextResponse("not ready: the database does not answer, or its schema is too old\n", 503)
