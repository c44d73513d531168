"""The whole product on loopback, as a person meets it: its own server, a scripted model, and browsers that are cookies.

with running_product(database_url, tmp_path, model.base_url) as product:
    ada = product.sign_in("ada")
    ada.say("Hello").ended["outcome"]
"""

import re
import secrets
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from html import unescape
from pathlib import Path
from typing import Any

import httpx2
import orjson
from starlette.applications import Starlette

from tests.webapp.auth.site import Browser
from tests.webapp.serving import Server, serving
from webapp.app import create_app
from webapp.services import Services
from webapp.settings import Command, load_settings

_EVENT = re.compile(r"event: turn\.(started|ended)\ndata: (.*)\n")
_CSRF = re.compile(r'name="csrf_token" value="([^"]+)"')


@dataclass
class Said:
    """What one message brought back: the stream whole, and what it told script."""

    status: int
    body: str = field(repr=False)
    started: Mapping[str, str] = field(default_factory=dict)
    ended: Mapping[str, str] = field(default_factory=dict)


class Signed(Browser):
    """Somebody who has signed in. Forms carry their CSRF token by themselves."""

    csrf_token: str = ""

    def post_form(self, path: str, fields: Mapping[str, str], *, script: bool = True, **more: Any) -> httpx2.Response:
        """Send a form, as script does or without it."""
        headers = {"HX-Request": "true"} if script else {}
        return self.post(path, {"csrf_token": self.csrf_token, **fields}, headers=headers, **more)

    def say(self, message: str, chat: str | None = None, *, key: str | None = None, **fields: str) -> Said:
        """Send a message with script, and read its stream to the end."""
        path = "/chats" if chat is None else f"/chats/{chat}/turns"
        answer = self.post_form(path, {"message": message, "key": key or secrets.token_hex(8), **fields})
        told = {name: orjson.loads(data) for name, data in _EVENT.findall(answer.text)}
        return Said(answer.status_code, answer.text, told.get("started", {}), told.get("ended", {}))

    def memory_page(self) -> str:
        return unescape(self.get("/memory").text)


@dataclass
class Product:
    """A running product."""

    url: str
    app: Starlette
    browsers: list[Signed] = field(default_factory=list)
    servers: list[Server] = field(default_factory=list)

    def drop_connections(self) -> None:
        """Cut every line to the product."""
        self.servers[0].drop_connections()

    @property
    def services(self) -> Services:
        services: Services = self.app.state.services
        return services

    def sign_in(self, subject: str) -> Signed:
        """A new browser in which somebody has signed in."""
        browser = Signed(self.url)
        self.browsers.append(browser)
        page = browser.sign_in(subject, "/auth/start?next=/chats")
        found = _CSRF.search(page.text)
        assert found is not None, page.text
        browser.csrf_token = found.group(1)
        return browser


@contextmanager
def running_product(
    database_url: str, data_dir: Path, model_url: str = "", environ: Mapping[str, str] | None = None
) -> Iterator[Product]:
    """The product on this database. Without a model's address the rehearsal model answers."""
    made: list[Product] = []
    servers: list[Server] = []

    def make(url: str) -> Starlette:
        given = {"REMEMBRANCER_PUBLIC_URL": url, "OPENAI_BASE_URL": model_url, "REMEMBRANCER_REHEARSAL_PACE_MS": "0"}
        settings = load_settings({**given, **(environ or {})}, Command.DEV, data_dir=data_dir)
        app = create_app(settings, database_url=database_url, direct_url=database_url, internal_url=url)
        made.append(Product(url, app, servers=servers))
        return app

    with serving(make, made=servers.append):
        yield made[0]
        for browser in made[0].browsers:
            browser.http.close()
