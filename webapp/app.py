"""The composition root: everything is built here, once, and handed down. Nothing else makes an engine or a client."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager

from sqlalchemy.engine import Engine
from starlette.applications import Starlette
from starlette.middleware import Middleware

from agent import telemetry
from agent.configuration import load_configuration
from agent.conversation import Limits
from agent.discard import stop_session
from agent.models.chat_completions import ChatCompletions
from agent.models.protocol import ChatModel
from agent.models.rehearsal import MODEL_NAME as REHEARSAL_MODEL
from agent.models.rehearsal import RehearsalServer
from agent.outcome import Outcome
from agent.process import Process
from agent.prompt import load_policy
from agent.running import RunningTurns
from agent.runtime import AgentRuntime
from agent.turn_desk import TurnDesk
from memory_core.database.engine import make_engine
from memory_core.database.transaction import transaction
from memory_core.database.worker import Workers
from memory_core.ids import new_id
from webapp.auth.csrf import CsrfGuard
from webapp.auth.local_provider import PATH as LOCAL_PROVIDER_PATH
from webapp.auth.organization import ensure_organization
from webapp.auth.services import AuthServices, build_auth, issuer_label
from webapp.error_pages import EXCEPTION_HANDLERS, ServerEdge
from webapp.headers import ResponseHeaders
from webapp.limits import BodyLimit, ForwardedHeaders, HostGuard
from webapp.routes import routes
from webapp.services import Services
from webapp.settings import Settings

POLICY_VERSION = "memory_v1"
OPENAI_URL = "https://api.openai.com/v1"
#: Connections to the model's API at once: more than the streams one process can hold.
MODEL_CONNECTIONS = 5_000


def create_app(settings: Settings, *, database_url: str, direct_url: str, internal_url: str) -> Starlette:
    """The application for these settings and this database, which must be migrated.

    ``direct_url`` goes past a pooler; ``internal_url`` is where this process itself listens. Raises OrganizationMoved,
    StorageFailed. Connections are opened when the application starts and closed when it ends.
    """
    engine = make_engine(database_url, max(settings.pool_size, 2))
    heart = Workers(1)
    workers = Workers(max(settings.pool_size - 1, 1))
    organization = transaction(
        engine, lambda unit: ensure_organization(unit.connection, settings.organization, issuer_label(settings))
    )
    model = _Model(settings)
    agents = AgentRuntime(
        model.connect,
        lambda agent_id, version: workers.run(
            lambda: transaction(engine, lambda unit: load_configuration(unit.connection, agent_id, version))
        ),
        model=model.name,
        fallback_models=() if settings.uses_rehearsal_model else settings.fallback_models,
        policy=load_policy(POLICY_VERSION),
    )
    desk = TurnDesk(engine, workers, memory_enabled=lambda: settings.memory_enabled, undo_hours=settings.undo_hours)
    running = RunningTurns(desk, agents, Limits(settings.turn_seconds, settings.tool_rounds))
    process = Process(new_id("prc"), engine, workers, heart, running, direct_url)
    auth = build_auth(
        settings,
        engine,
        workers,
        organization,
        internal_url=internal_url,
        on_session_ended=_stop_turns_of(engine, workers, running),
    )
    services = Services(
        settings=settings,
        engine=engine,
        workers=workers,
        organization=organization,
        agents=agents,
        running=running,
        process=process,
    )
    app = Starlette(
        routes=routes(auth.local_provider),
        middleware=_middleware(settings, auth, internal_url),
        exception_handlers=EXCEPTION_HANDLERS,
        lifespan=_lifespan(services, auth, model),
    )
    app.state.services, app.state.auth = services, auth
    return app


class _Model:
    """The connection to the model's API, or the rehearsal model with a server of its own."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._rehearsal: RehearsalServer | None = None
        if settings.uses_rehearsal_model:
            self._rehearsal = RehearsalServer(pace_seconds=settings.rehearsal_pace_ms / 1000)

    @property
    def name(self) -> str:
        return REHEARSAL_MODEL if self._rehearsal else self._settings.model

    async def connect(self) -> ChatModel:
        base_url = await self._rehearsal.start() if self._rehearsal else self._settings.openai_base_url
        return ChatCompletions(
            base_url or OPENAI_URL,
            self._settings.openai_api_key,
            first_token_seconds=self._settings.first_token_seconds,
            stall_seconds=self._settings.stall_seconds,
            max_connections=MODEL_CONNECTIONS,
        )

    async def close(self) -> None:
        if self._rehearsal:
            await self._rehearsal.close()


def _stop_turns_of(engine: Engine, workers: Workers, running: RunningTurns) -> Callable[[str], Awaitable[None]]:
    """Sign-out: the session's running turns are stopped, here and in every other process."""

    async def stop(session_id: str) -> None:
        for turn_id in await workers.run(lambda: stop_session(engine, session_id)):
            running.interrupt(turn_id, Outcome.STOPPED)

    return stop


def _middleware(settings: Settings, auth: AuthServices, internal_url: str) -> list[Middleware]:
    """From the outside in. All of it is plain ASGI: nothing wraps a stream."""
    return [
        Middleware(
            ResponseHeaders, uses_https=settings.uses_https, form_action_origins=lambda: auth.oidc.form_action_origins
        ),
        Middleware(ForwardedHeaders, settings.trusted_proxies),
        Middleware(
            HostGuard, settings.public_url, internal_url=internal_url, internal_paths=(f"{LOCAL_PROVIDER_PATH}/",)
        ),
        Middleware(ServerEdge),
        Middleware(BodyLimit),
        Middleware(CsrfGuard, settings.public_url, exempt=(f"{LOCAL_PROVIDER_PATH}/", "/v1/")),
    ]


def _lifespan(
    services: Services, auth: AuthServices, model: _Model
) -> Callable[[Starlette], AbstractAsyncContextManager[None]]:
    @asynccontextmanager
    async def lifespan(app: Starlette) -> AsyncIterator[None]:
        asyncio.get_running_loop().set_exception_handler(telemetry.loop_fault)
        async with AsyncExitStack() as closing:
            closing.callback(services.engine.dispose)
            closing.callback(services.workers.close)
            closing.push_async_callback(model.close)
            closing.push_async_callback(services.agents.close)
            closing.push_async_callback(auth.close)
            await services.process.start()
            closing.push_async_callback(services.process.close)
            if auth.local_provider is None:
                # The provider's addresses stand in every page's policy: asked for before the first page, if it answers.
                warming = asyncio.create_task(auth.oidc.warm())
                closing.callback(warming.cancel)
            yield

    return lifespan
