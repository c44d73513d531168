"""A person with a browser, as the long runs need them: many at once, who can stop, leave, and lose their connection.

Signing in goes the whole way through the provider; everything after that is one asynchronous client.
"""

import asyncio
import re
import secrets
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from typing import Any

import aiohttp
import orjson

from tests.webapp.product import Signed

PATIENCE_SECONDS = 120.0

_EVENT = re.compile(rb"event: turn\.(started|ended)\ndata: (.*)\n")
_CSRF = re.compile(r'name="csrf_token" value="([^"]+)"')


class Sending:
    """One message on its way, read by a task of its own. `body` grows; `is_over` once nothing more will come."""

    def __init__(self, key: str, path: str = "") -> None:
        self.key = key
        self.path = path
        self.status: int | None = None
        self.headers: Mapping[str, str] = {}
        self.body = b""
        self.is_broken = False
        self._changed = asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    @property
    def started(self) -> dict[str, str]:
        """What `turn.started` told, if it has come."""
        return self._told(b"started")

    @property
    def ended(self) -> dict[str, str]:
        """What `turn.ended` told, if it has come."""
        return self._told(b"ended")

    @property
    def is_over(self) -> bool:
        return self._task is not None and self._task.done()

    async def until(self, marker: bytes) -> None:
        """Wait until so much has been read; AssertionError if it ends without it."""
        async with asyncio.timeout(PATIENCE_SECONDS):
            while marker not in self.body:
                assert not self.is_over, f"ended without {marker!r}: status {self.status}, {self.body[-300:]!r}"
                self._changed.clear()
                await self._changed.wait()

    async def over(self) -> None:
        """Wait until nothing more comes, however it ended."""
        assert self._task is not None
        await asyncio.wait_for(asyncio.wait([self._task]), PATIENCE_SECONDS)
        assert self._task.done(), "the stream does not end"

    def begin_cut(self) -> None:
        """Lose the connection, whatever it was doing; also before the first byte."""
        assert self._task is not None
        self._task.cancel()

    async def cut(self) -> None:
        """The same, and wait until our end is closed."""
        self.begin_cut()
        await self.over()

    def _begin(self, reading: Any) -> None:
        self._task = asyncio.create_task(self._read(reading))

    async def _read(self, request: Any) -> None:
        try:
            async with request as answer:
                self.status, self.headers = answer.status, answer.headers
                async for piece in answer.content.iter_any():
                    self.body += piece
                    self._changed.set()
        except (aiohttp.ClientError, OSError):
            self.is_broken = True
        finally:
            self._changed.set()

    def _told(self, name: bytes) -> dict[str, str]:
        for found, data in _EVENT.findall(self.body):
            if found == name:
                told: dict[str, str] = orjson.loads(data)
                return told
        return {}


@dataclass
class Person:
    """Somebody who has signed in. `chat` is the conversation they are in, once they know it."""

    subject: str
    url: str
    http: aiohttp.ClientSession
    cookie: str = field(repr=False)
    csrf_token: str = field(repr=False)
    chat: str | None = None

    def send(self, message: str, *, key: str | None = None, new_chat: bool = False) -> Sending:
        """Send a message with script; it is read in the background."""
        path = "/chats" if self.chat is None or new_chat else f"/chats/{self.chat}/turns"
        sending = Sending(key or secrets.token_hex(8), path)
        sending._begin(self._post(path, {"message": message, "key": sending.key}))
        return sending

    async def say(self, message: str, *, key: str | None = None, new_chat: bool = False) -> Sending:
        """Send a message, read its answer to the end, and be in its conversation from then on."""
        sending = self.send(message, key=key, new_chat=new_chat)
        await sending.over()
        self.chat = sending.started.get("conversationId", self.chat)
        return sending

    async def stop(self, key: str) -> int:
        """Press Stop; the status of the answer (204: the turn is known)."""
        async with self._post("/chats/cancellations", {"key": key}) as answer:
            await answer.read()
            return int(answer.status)

    async def get(self, path: str) -> str:
        async with self.http.get(f"{self.url}{path}", headers={"Cookie": self.cookie}) as answer:
            text: str = await answer.text()
            assert answer.status == 200, f"{path}: {answer.status}"
            return text

    def at(self, url: str) -> "Person":
        """The same person, signed in with the same session, at another process of the same deployment."""
        value = self.cookie.partition("=")[2]
        port = url.rpartition(":")[2]
        return Person(self.subject, url, self.http, f"remembrancer-{port}={value}", self.csrf_token, self.chat)

    def _post(self, path: str, fields: Mapping[str, str]) -> Any:
        headers = {"Cookie": self.cookie, "Origin": self.url, "HX-Request": "true"}
        data = {"csrf_token": self.csrf_token, **fields}
        return self.http.post(f"{self.url}{path}", data=data, headers=headers, allow_redirects=False)


@asynccontextmanager
async def browsers() -> AsyncIterator[aiohttp.ClientSession]:
    """What all people of a test share: no cookies, no limit, a connection of its own for every request."""
    connector = aiohttp.TCPConnector(limit=0, force_close=True)
    timeout = aiohttp.ClientTimeout(total=None, sock_connect=PATIENCE_SECONDS)
    jar = aiohttp.DummyCookieJar()
    async with aiohttp.ClientSession(connector=connector, cookie_jar=jar, timeout=timeout) as http:
        yield http
    with suppress(TimeoutError):
        await asyncio.wait_for(asyncio.sleep(0), 1)  # aiohttp closes its sockets in the next round of the loop


async def sign_in(url: str, subject: str, http: aiohttp.ClientSession) -> Person:
    """Go the whole way through the provider, in a thread."""
    return await asyncio.to_thread(_sign_in, url, subject, http)


def _sign_in(url: str, subject: str, http: aiohttp.ClientSession) -> Person:
    browser = Signed(url)
    try:
        page = browser.sign_in(subject, "/auth/start?next=/chats")
        found = _CSRF.search(page.text)
        assert found is not None, page.text
        name = f"remembrancer-{url.rpartition(':')[2]}"
        return Person(subject, url, http, f"{name}={browser.cookies()[name]}", found.group(1))
    finally:
        browser.http.close()
