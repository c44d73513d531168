"""A scripted identity provider: it answers the back channel of a sign-in with whatever a test has written down.

It has no pages. A test takes the authorization address apart, as a browser would follow it, and makes up the way back.

    with ScriptedProvider() as provider:
        provider.claims = {"nonce": "another"}      # changes to good claims; None leaves one out
        provider.answers["/token"] = (503, "busy")  # a raw answer instead
"""

import json
import threading
import time
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Self
from urllib.parse import parse_qs, urlsplit

from joserfc import jwt
from joserfc.jwk import ECKey, KeySet

CLIENT_ID = "scripted-client"


class ScriptedProvider:
    """Its `issuer` is an address on loopback. `requests` holds (method, path, headers, form) of what it was asked."""

    def __init__(self) -> None:
        self.key = ECKey.generate_key("P-256", {"kid": "first"})
        self.published = [self.key]
        self.nonce = ""
        self.claims: dict[str, Any] = {}
        self.metadata: dict[str, Any] = {}
        self.token: dict[str, Any] = {}
        self.userinfo: dict[str, Any] = {}
        self.answers: dict[str, tuple[int, str]] = {}
        self.requests: list[tuple[str, str, dict[str, str], dict[str, str]]] = []
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), _handler(self))
        self.issuer = f"http://127.0.0.1:{self._server.server_address[1]}"

    def __enter__(self) -> Self:
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.01,), daemon=True)
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join(10)

    def paths(self) -> list[str]:
        """The paths it was asked for, in order."""
        return [path for _, path, _, _ in self.requests]

    def answer(self, path: str) -> tuple[int, str]:
        """The scripted answer of `path`, or a good one."""
        if path in self.answers:
            return self.answers[path]
        documents: dict[str, Callable[[], Any]] = {
            "/.well-known/openid-configuration": self._discovery,
            "/keys": lambda: KeySet(list(self.published)).as_dict(private=False),
            "/token": self._token,
            "/userinfo": lambda: self.userinfo,
        }
        return (200, json.dumps(documents[path]())) if path in documents else (404, "")

    def _discovery(self) -> dict[str, Any]:
        document = {
            "issuer": self.issuer,
            "authorization_endpoint": f"{self.issuer}/authorize",
            "token_endpoint": f"{self.issuer}/token",
            "jwks_uri": f"{self.issuer}/keys",
            "userinfo_endpoint": f"{self.issuer}/userinfo",
            "end_session_endpoint": f"{self.issuer}/logout",
        }
        return _changed(document, self.metadata)

    def _token(self) -> dict[str, Any]:
        now = int(time.time())
        claims = _changed(
            {
                "iss": self.issuer,
                "sub": "ada",
                "aud": CLIENT_ID,
                "nonce": self.nonce,
                "iat": now,
                "exp": now + 300,
            },
            self.claims,
        )
        id_token = jwt.encode({"alg": "ES256", "kid": self.key.kid}, claims, self.key, algorithms=["ES256"])
        return _changed({"access_token": "access", "token_type": "Bearer", "id_token": id_token}, self.token)


def _changed(good: dict[str, Any], changes: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in {**good, **changes}.items() if value is not None}


def _handler(provider: ScriptedProvider) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self._reply({})

        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length", 0))).decode()
            self._reply({name: values[0] for name, values in parse_qs(body).items()})

        def _reply(self, form: dict[str, str]) -> None:
            path = urlsplit(self.path).path
            headers = {name.lower(): value for name, value in self.headers.items()}
            provider.requests.append((self.command, path, headers, form))
            status, text = provider.answer(path)
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(text.encode())))
            self.end_headers()
            self.wfile.write(text.encode())

        def log_message(self, *_: object) -> None:
            """Quiet."""

    return Handler
