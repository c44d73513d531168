"""Calling the API as a program does: over HTTP, with a key, and what comes back as events."""

import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import timedelta
from http.client import HTTPConnection
from typing import Any
from urllib.parse import quote

from memory_core.database.transaction import transaction
from tests.webapp.product import Product
from webapp.auth.api_keys import Scope, create_key

_EVENT = re.compile(r"^event: (\S+)\ndata: (.*)$", re.MULTILINE)


@dataclass(frozen=True)
class Answer:
    """What came back. Names of headers are in lower case."""

    status_code: int
    headers: Mapping[str, str]
    content: bytes

    @property
    def text(self) -> str:
        return self.content.decode()

    def json(self) -> Any:
        return json.loads(self.content)


@dataclass
class Caller:
    """A program with a key (or without)."""

    product: Product
    key: str | None

    def call(self, method: str, path: str, body: object = None, headers: Mapping[str, str] | None = None) -> Answer:
        sent = {"x-api-key": self.key} if self.key is not None else {}
        content = None if body is None else json.dumps(body).encode()
        kind = {"content-type": "application/json"} if content is not None else {}
        return self.send(method, path, content, {**sent, **kind, **(headers or {})})

    def send(
        self, method: str, path: str, content: bytes | None = None, headers: Mapping[str, str] | None = None
    ) -> Answer:
        """One request on a connection of its own, its path exactly as it is written: no client tidies it up."""
        connection = HTTPConnection(self.product.url.removeprefix("http://"), timeout=20)
        try:
            connection.request(method, path, body=content, headers=dict(headers or {}))
            response = connection.getresponse()
            sent = {name.lower(): value for name, value in response.getheaders()}
            return Answer(response.status, sent, response.read())
        finally:
            connection.close()

    def ok(self, method: str, path: str, body: object = None, **headers: str) -> Any:
        answer = self.call(method, path, body, {name.replace("_", "-"): value for name, value in headers.items()})
        assert 200 <= answer.status_code < 300, answer.text
        return answer.json() if answer.content else None

    @property
    def agent_id(self) -> str:
        return self.product.services.organization.default_agent_id

    def memory_path(self, subject: str) -> str:
        return f"/v1/agents/{self.agent_id}/users/{quote(subject, safe='')}/memory"

    def open_session(self, subject: str = "ada") -> str:
        made = self.ok("POST", "/v1/sessions", {"agentId": self.agent_id, "subjectId": subject})
        return str(made["id"])

    def seed(self, subject: str, *user: str, memory: Iterable[str] = ()) -> Answer:
        body = {"userMemoryEntries": list(user), "agentMemoryEntries": list(memory)}
        return self.call("PUT", self.memory_path(subject), body)

    def say(self, session: str, content: str, key: str | None = None) -> Any:
        """Send a message and wait for the JSON."""
        headers = {} if key is None else {"Idempotency_Key": key}
        return self.ok("POST", f"/v1/sessions/{session}/messages", {"content": content}, **headers)

    def stream(self, session: str, content: str, key: str | None = None) -> list[tuple[str, Any]]:
        """Send a message and read its stream to the end."""
        headers = {"accept": "text/event-stream"} | ({} if key is None else {"idempotency-key": key})
        answer = self.call("POST", f"/v1/sessions/{session}/messages", {"content": content}, headers)
        assert answer.status_code == 200, answer.text
        assert answer.headers["content-type"].startswith("text/event-stream")
        return events(answer.text)


def events(stream: str) -> list[tuple[str, Any]]:
    """Names and data of a stream's events."""
    return [(name, json.loads(data)) for name, data in _EVENT.findall(stream.replace("\r\n", "\n"))]


def new_key(
    product: Product,
    *scopes: Scope,
    organization_id: str | None = None,
    expires_in: timedelta | None = None,
    name: str = "test",
) -> str:
    """The text of a new key; of every scope if none is named."""
    organization = organization_id or product.services.organization.id
    wanted = list(scopes or Scope)
    made = transaction(
        product.services.engine,
        lambda unit: create_key(unit, organization, name, wanted, expires_in=expires_in),
    )
    return made.text


def caller(product: Product, *scopes: Scope) -> Caller:
    """A program with a new key."""
    return Caller(product, new_key(product, *scopes))
