"""Whether this process lives, whether it can work, and its numbers. None of them leaves anything behind."""

from hmac import compare_digest

from prometheus_client import CONTENT_TYPE_PLAIN_0_0_4
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response

from agent.metrics import exposition
from memory_core.database.migrations import is_ready
from memory_core.errors import StorageFailed
from webapp.errors import NotFound
from webapp.services import services_of
from webapp.setting_values import is_loopback_host

#: What a proxy adds to a request of somebody else.
_FORWARDED = ("forwarded", "x-forwarded-for", "x-forwarded-host", "x-forwarded-proto", "x-real-ip", "via")


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


async def metrics(request: Request) -> Response:
    """Numbers for Prometheus, for whoever has the token; without one, for this machine itself.

    A proxy on this machine asks for somebody else, and says so in a header. Raises NotFound for everybody else.
    """
    settings = services_of(request).settings
    if settings.metrics_token:
        given = request.headers.get("authorization", "")
        is_allowed = compare_digest(given.encode(), f"Bearer {settings.metrics_token}".encode())
    else:
        is_forwarded = any(name in request.headers for name in _FORWARDED)
        is_allowed = request.client is not None and is_loopback_host(request.client.host) and not is_forwarded
    if not is_allowed:
        raise NotFound
    body = await services_of(request).workers.run(lambda: exposition(shared=settings.shares_metrics))
    return Response(body, media_type=CONTENT_TYPE_PLAIN_0_0_4)
