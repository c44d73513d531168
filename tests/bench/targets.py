"""The three that are measured: the model itself, the plain relay, and the application. How each is asked and read."""

import json
import re
import secrets
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final
from urllib.parse import urlencode

from tests.bench.load import Message
from tests.bench.people import SignedIn

_ANY_TEXT: Final = re.compile(rb'"content":"[^"]')
_MODEL_END: Final = re.compile(rb"data: \[DONE\]")
_RELAY_TEXT: Final = re.compile(rb"data: [^\r]")
_RELAY_END: Final = re.compile(rb"event: done")
#: A swap of words into the answer; the shell that comes first is empty.
_PAGE_TEXT: Final = re.compile(rb'hx-target="#(?:live|blocks)-[^>]*>(?!</hx-partial>)')
_PAGE_END: Final = re.compile(rb'event: turn\.ended\ndata: [^\n]*"outcome":"completed"')
_CONVERSATION: Final = re.compile(rb'"conversationId":"([^"]+)"')


class ModelDirect:
    """Asks the model without anybody in between."""

    opens_chat = False

    def message(self, wish: str) -> Message:
        body = {"model": "bench", "stream": True, "messages": [{"role": "user", "content": wish}]}
        return Message(post("/v1/chat/completions", json.dumps(body), "application/json"), _ANY_TEXT, _MODEL_END)

    def heard(self, answer: bytes) -> None:
        pass


class RelayClient:
    """Asks the plain relay."""

    opens_chat = False

    def message(self, wish: str) -> Message:
        return Message(post("/", json.dumps({"message": wish}), "application/json"), _RELAY_TEXT, _RELAY_END)

    def heard(self, answer: bytes) -> None:
        pass


#: A chat of the bench is so long; then another is begun.
MESSAGES_A_CHAT: Final = 5


@dataclass
class Chatter:
    """A person who chats on the page."""

    address: str
    person: SignedIn
    opens_chat: bool = False
    _chat: str = ""
    _said: int = 0

    def message(self, wish: str) -> Message:
        self.opens_chat = self._said % MESSAGES_A_CHAT == 0
        if self.opens_chat:
            self._chat = ""
        self._said += 1
        fields = {"message": wish, "key": secrets.token_hex(16), "csrf_token": self.person.csrf_token}
        headers = {"cookie": self.person.cookie, "origin": self.address, "hx-request": "true"}
        path = f"/chats/{self._chat}/turns" if self._chat else "/chats"
        host = self.address.removeprefix("http://")
        request = post(path, urlencode(fields), "application/x-www-form-urlencoded", {"host": host, **headers})
        return Message(request, _PAGE_TEXT, _PAGE_END)

    def heard(self, answer: bytes) -> None:
        if found := _CONVERSATION.search(answer):
            self._chat = found.group(1).decode()


def post(path: str, body: str, content_type: str, headers: Mapping[str, str] | None = None) -> bytes:
    """One request of HTTP/1.1, its connection kept."""
    lines = {"host": "127.0.0.1", "content-type": content_type, "accept": "text/event-stream", **(headers or {})}
    head = "".join(f"{name}: {value}\r\n" for name, value in lines.items())
    return f"POST {path} HTTP/1.1\r\n{head}content-length: {len(body.encode())}\r\n\r\n{body}".encode()
