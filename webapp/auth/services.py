"""What sign-in needs, built once and handed down. Routes and middleware find it as ``request.app.state.auth``."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from datetime import timedelta

import httpx2
from sqlalchemy import Engine
from starlette.requests import Request
from starlette.routing import Mount

from memory_core.database.worker import Workers
from webapp.auth.attempts import ATTEMPT_SECONDS, Attempts
from webapp.auth.cookies import Cookie, make_cookie
from webapp.auth.local_provider import PATH as LOCAL_PROVIDER_PATH
from webapp.auth.local_provider import LocalProvider
from webapp.auth.oidc import HTTP_TIMEOUT_SECONDS, Client, OidcClient
from webapp.auth.organization import LOCAL_ISSUER, Organization
from webapp.auth.provider import Provider
from webapp.auth.sealing import Seal
from webapp.auth.sessions import Lifetime, Sessions
from webapp.limits import Rate
from webapp.settings import Settings

SessionEnded = Callable[[str], Awaitable[None]]


@dataclass(frozen=True, kw_only=True)
class AuthServices:
    """The collaborators of sign-in.

    `on_session_ended` is awaited with a session's id after that session was revoked: its running turns end there.
    `local_provider` is the development provider's routes, and None wherever people sign in somewhere else.
    """

    settings: Settings
    organization: Organization
    oidc: OidcClient
    sessions: Sessions
    attempts: Attempts
    session_cookie: Cookie
    browser_cookie: Cookie
    sign_in_rate: Rate
    on_session_ended: SessionEnded
    local_provider: Mount | None = field(default=None)

    async def close(self) -> None:
        """Close the connections to the identity provider."""
        await self.oidc.close()


def auth_services(request: Request) -> AuthServices:
    services: AuthServices = request.app.state.auth
    return services


def issuer_label(settings: Settings) -> str:
    """The issuer as the organization remembers it."""
    return LOCAL_ISSUER if settings.uses_local_provider else settings.oidc_issuer


def build_auth(
    settings: Settings,
    engine: Engine,
    workers: Workers,
    organization: Organization,
    *,
    internal_url: str,
    on_session_ended: SessionEnded,
) -> AuthServices:
    """Build sign-in for `settings`. `internal_url` is where this process itself listens, such as http://127.0.0.1:8000.

    Nothing is fetched yet: the provider is asked when the first person signs in, or by ``oidc.warm()``.
    """
    local = LocalProvider(settings.public_url, internal_url) if settings.uses_local_provider else None
    lifetime = Lifetime(timedelta(hours=settings.session_hours), timedelta(hours=settings.session_idle_hours))
    return AuthServices(
        settings=settings,
        organization=organization,
        oidc=_oidc_client(settings, local),
        sessions=Sessions(engine, workers, organization.id, lifetime, Seal(settings.secret_key)),
        attempts=Attempts(engine, workers),
        session_cookie=make_cookie(settings.public_url, "", settings.session_hours * 3600),
        browser_cookie=make_cookie(settings.public_url, "-sign-in", ATTEMPT_SECONDS),
        sign_in_rate=Rate(per_minute=120),
        on_session_ended=on_session_ended,
        local_provider=None if local is None else Mount(LOCAL_PROVIDER_PATH, routes=local.routes()),
    )


def _oidc_client(settings: Settings, local: LocalProvider | None) -> OidcClient:
    # A provider on this computer is never asked through a proxy that the environment names for the world outside.
    trust_env = local is None
    tls = httpx2.create_ssl_context(trust_env=trust_env)
    http = httpx2.AsyncClient(timeout=HTTP_TIMEOUT_SECONDS, trust_env=trust_env, follow_redirects=False, verify=tls)
    client = Client(
        client_id=local.client_id if local else settings.oidc_client_id,
        client_secret=local.client_secret if local else settings.oidc_client_secret,
        scopes=settings.oidc_scopes,
        redirect_uri=f"{settings.public_url}/auth/callback",
        signed_out_uri=f"{settings.public_url}/signed-out",
        operators=settings.operators,
    )
    provider = Provider(
        http,
        local.issuer if local else settings.oidc_issuer,
        discovery_url=local.discovery_url if local else None,
    )
    return OidcClient(http, provider, client, tls=tls)
