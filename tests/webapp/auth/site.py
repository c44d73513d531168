"""A small site with the real sign-in in front of it, and a browser that is only cookies and addresses."""

import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from html import unescape
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import httpx2
from sqlalchemy.engine import Engine
from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, Response
from starlette.routing import Route

from memory_core.database.transaction import transaction
from memory_core.database.worker import Workers
from tests.webapp.serving import serving
from webapp.auth.csrf import CsrfGuard
from webapp.auth.local_provider import PATH
from webapp.auth.organization import ensure_organization
from webapp.auth.person import require_person
from webapp.auth.services import AuthServices, build_auth, issuer_label
from webapp.error_pages import EXCEPTION_HANDLERS, ServerEdge
from webapp.headers import ResponseHeaders
from webapp.limits import BodyLimit, ForwardedHeaders, HostGuard
from webapp.routes.sign_in import ROUTES
from webapp.settings import Command, load_settings


@dataclass
class Site:
    """A running site: its address, its parts, and the ids of the sessions that it was told have ended."""

    url: str
    app: Starlette
    auth: AuthServices
    ended: list[str] = field(default_factory=list)
    browsers: "list[Browser]" = field(default_factory=list)

    def browser(self) -> "Browser":
        """A new browser, closed with the site."""
        self.browsers.append(Browser(self.url))
        return self.browsers[-1]


class Browser:
    """Keeps cookies, follows redirects, fills in forms, and says where it comes from as browsers do."""

    def __init__(self, url: str) -> None:
        self.url = url
        self.http = httpx2.Client(base_url=url, follow_redirects=True, trust_env=False, verify=False, timeout=20)

    def get(self, path: str, **headers: str) -> httpx2.Response:
        return self.http.get(path, headers={name.replace("_", "-"): value for name, value in headers.items()})

    def step(self, path: str) -> httpx2.Response:
        """One request, redirects left alone."""
        return self.http.get(path, follow_redirects=False)

    def post(
        self, path: str, data: Mapping[str, str | list[str]], *, origin: str | None = None, **more: Any
    ) -> httpx2.Response:
        headers = {"Origin": origin or self.url, **more.pop("headers", {})}
        return self.http.post(path, data=dict(data), headers=headers, **more)

    def submit(self, page: httpx2.Response, **fields: str) -> httpx2.Response:
        """Send the page's form with its hidden fields and these."""
        action = re.search(r'<form[^>]* action="([^"]*)"', page.text)
        target = page.url.join(unescape(action.group(1))) if action else page.url
        return self.post(str(target), hidden(page) | fields, origin=f"{target.scheme}://{target.netloc.decode()}")

    def sign_in(self, subject: str, path: str = "/auth/start") -> httpx2.Response:
        """All the way through the local provider; the page where it ends."""
        form = self.get(path)
        assert "Who is this?" in form.text, form.text
        return self.submit(form, subject=subject)

    def begin(self, next_path: str = "/me") -> dict[str, str]:
        """Set out for the provider, and stop there: the fields of the authorization request."""
        answer = self.http.get("/auth/start", params={"next": next_path}, follow_redirects=False)
        assert answer.status_code == 303, answer.text
        return {name: values[0] for name, values in parse_qs(urlsplit(answer.headers["location"]).query).items()}

    def me(self) -> dict[str, Any] | None:
        """Who the site takes us for."""
        answer = self.http.get("/me", headers={"Accept": "application/json"})
        return answer.json() if answer.status_code == 200 else None

    def cookies(self) -> dict[str, str]:
        return {cookie.name: cookie.value or "" for cookie in self.http.cookies.jar}


def hidden(page: httpx2.Response) -> dict[str, str]:
    """The hidden fields of a page's form."""
    found = re.findall(r'<input type="hidden" name="([^"]*)" value="([^"]*)"', page.text)
    return {unescape(name): unescape(value) for name, value in found}


async def me(request: Request) -> Response:
    person = await require_person(request)
    return JSONResponse(
        {
            "subject": person.subject,
            "name": person.name,
            "label": person.label,
            "session": person.session_id,
            "csrf_token": person.csrf_token,
        }
    )


async def note(request: Request) -> Response:
    person = await require_person(request)
    return PlainTextResponse(f"noted for {person.subject}")


@contextmanager
def running_site(engine: Engine, data_dir: Path, environ: Mapping[str, str] | None = None) -> Iterator[Site]:
    """A site on loopback with the local provider, or with the one that `environ` names."""
    made: list[Site] = []
    workers = Workers(8)

    def make(url: str) -> ResponseHeaders:
        settings = load_settings({"REMEMBRANCER_PUBLIC_URL": url, **(environ or {})}, Command.DEV, data_dir=data_dir)
        organization = transaction(
            engine, lambda unit: ensure_organization(unit.connection, settings.organization, issuer_label(settings))
        )

        async def on_session_ended(session_id: str) -> None:
            made[0].ended.append(session_id)

        auth = build_auth(settings, engine, workers, organization, internal_url=url, on_session_ended=on_session_ended)
        app = Starlette(
            routes=[
                *ROUTES,
                Route("/", me),
                Route("/me", me),
                Route("/notes", note, methods=["POST"]),
                *([auth.local_provider] if auth.local_provider else []),
            ],
            middleware=[
                Middleware(ServerEdge),
                Middleware(ForwardedHeaders, settings.trusted_proxies),
                Middleware(HostGuard, url, internal_url=url, internal_paths=(f"{PATH}/",)),
                Middleware(BodyLimit),
                Middleware(CsrfGuard, url, exempt=(f"{PATH}/",)),
            ],
            exception_handlers=EXCEPTION_HANDLERS,
            lifespan=_closing(auth),
        )
        app.state.auth = auth
        made.append(Site(url, app, auth))
        return ResponseHeaders(app, uses_https=False, form_action_origins=lambda: auth.oidc.form_action_origins)

    with serving(make):
        yield made[0]
        for browser in made[0].browsers:
            browser.http.close()
    workers.close()


def _closing(auth: AuthServices) -> Callable[[Starlette], Any]:
    @asynccontextmanager
    async def lifespan(_: Starlette) -> Any:
        async with AsyncExitStack() as stack:
            stack.push_async_callback(auth.close)
            yield

    return lifespan
