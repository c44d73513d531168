"""The development provider: a real OpenID Connect provider on this computer that asks for a name and no password.

It exists so that the first run goes through the same sign-in as production: discovery, PKCE, signed ID tokens,
userinfo, sign-out. It keeps no session of its own, so two browsers can be two people. It is never made in `serve`,
refuses every request that does not come from this computer, and knows one client: this process.
"""

import hmac
import secrets
import time
from base64 import b64decode
from binascii import Error as Base64Error
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import unquote_plus, urlencode

from authlib.oauth2.rfc7636 import create_s256_code_challenge
from joserfc import jwt
from joserfc.jwk import ECKey, KeySet
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import JSONResponse, RedirectResponse, Response
from starlette.routing import Route

from memory_core.owner import SUBJECT_MAX_CHARS
from webapp.render import render
from webapp.setting_values import is_loopback_host

PATH = "/local-provider"
_CODE_SECONDS = 60
_TOKEN_SECONDS = 300
_KEPT = (
    "client_id",
    "redirect_uri",
    "response_type",
    "scope",
    "state",
    "nonce",
    "code_challenge",
    "code_challenge_method",
)
_EXAMPLE = "ada"


@dataclass(frozen=True, slots=True)
class _Grant:
    subject: str = field(repr=False)
    nonce: str
    code_challenge: str
    expires_at: float


class LocalProvider:
    """One provider for one client. `public_url` is what browsers see, `internal_url` where this process listens."""

    def __init__(self, public_url: str, internal_url: str, *, clock: Callable[[], float] = time.time) -> None:
        self.issuer = f"{public_url}{PATH}"
        self.discovery_url = f"{internal_url}{PATH}/.well-known/openid-configuration"
        self.client_id = "remembrancer"
        self.client_secret = secrets.token_urlsafe(32)
        self._internal = f"{internal_url}{PATH}"
        self._redirect_uri = f"{public_url}/auth/callback"
        self._signed_out_uri = f"{public_url}/signed-out"
        self._clock = clock
        self._key = ECKey.generate_key("P-256", auto_kid=True)
        self._codes: dict[str, _Grant] = {}
        self._access_tokens: dict[str, _Grant] = {}

    def routes(self) -> list[Route]:
        """The provider's endpoints, relative to PATH."""
        return [
            Route("/.well-known/openid-configuration", _local_only(self.discovery)),
            Route("/authorize", _local_only(self.ask), methods=["GET"]),
            Route("/authorize", _local_only(self.answer), methods=["POST"]),
            Route("/token", _local_only(self.token), methods=["POST"]),
            Route("/jwks", _local_only(self.jwks)),
            Route("/userinfo", _local_only(self.userinfo)),
            Route("/end-session", _local_only(self.end_session)),
        ]

    async def discovery(self, _: Request) -> Response:
        """The discovery document: browsers are sent to the public address, this process to its own."""
        return JSONResponse(
            {
                "issuer": self.issuer,
                "authorization_endpoint": f"{self.issuer}/authorize",
                "token_endpoint": f"{self._internal}/token",
                "userinfo_endpoint": f"{self._internal}/userinfo",
                "jwks_uri": f"{self._internal}/jwks",
                "end_session_endpoint": f"{self.issuer}/end-session",
                "response_types_supported": ["code"],
                "grant_types_supported": ["authorization_code"],
                "subject_types_supported": ["public"],
                "id_token_signing_alg_values_supported": ["ES256"],
                "code_challenge_methods_supported": ["S256"],
                "token_endpoint_auth_methods_supported": ["client_secret_basic"],
                "scopes_supported": ["openid", "profile", "email"],
                "authorization_response_iss_parameter_supported": True,
            }
        )

    async def ask(self, request: Request) -> Response:
        """The form *Who is this?*"""
        kept = self._checked(request.query_params)
        return _form(request, kept, subject=_EXAMPLE)

    async def answer(self, request: Request) -> Response:
        """The form comes back: a code for the subject, or the form again."""
        async with request.form() as form:
            given = {name: value for name, value in form.items() if isinstance(value, str)}
        kept = self._checked(given)
        subject = given.get("subject", "").strip()
        if not 1 <= len(subject) <= SUBJECT_MAX_CHARS or "\0" in subject:
            problem = "Enter a name." if not subject else f"A name has at most {SUBJECT_MAX_CHARS} characters."
            return _form(request, kept, subject=subject[:SUBJECT_MAX_CHARS], problem=problem, status=422)
        code = self._keep(self._codes, _Grant(subject, kept["nonce"], kept["code_challenge"], self._at(_CODE_SECONDS)))
        answer = urlencode({"code": code, "state": kept["state"], "iss": self.issuer})
        return RedirectResponse(f"{self._redirect_uri}?{answer}", status_code=303)

    async def token(self, request: Request) -> Response:
        """A code for tokens, once, by the client that can show the verifier of its challenge."""
        if not self._is_client(request.headers.get("authorization", "")):
            return _oauth_error("invalid_client", 401)
        async with request.form() as form:
            given = {name: value for name, value in form.items() if isinstance(value, str)}
        if given.get("grant_type") != "authorization_code":
            return _oauth_error("unsupported_grant_type")
        grant = self._codes.pop(given.get("code", ""), None)
        if grant is None or grant.expires_at <= self._clock() or given.get("redirect_uri") != self._redirect_uri:
            return _oauth_error("invalid_grant")
        if not _answers(given.get("code_verifier", ""), grant.code_challenge):
            return _oauth_error("invalid_grant")
        access_token = self._keep(self._access_tokens, grant)
        return JSONResponse(
            {
                "access_token": access_token,
                "token_type": "Bearer",
                "expires_in": _CODE_SECONDS,
                "id_token": self._id_token(grant),
            }
        )

    async def jwks(self, _: Request) -> Response:
        """The public half of the key of this start."""
        return JSONResponse(KeySet([self._key]).as_dict(private=False, use="sig", alg="ES256"))

    async def userinfo(self, request: Request) -> Response:
        """The subject, and nothing else: there is nothing else."""
        kind, _, token = request.headers.get("authorization", "").partition(" ")
        grant = self._access_tokens.get(token) if kind.lower() == "bearer" else None
        if grant is None or grant.expires_at <= self._clock():
            return _oauth_error("invalid_token", 401)
        return JSONResponse({"sub": grant.subject})

    async def end_session(self, request: Request) -> Response:
        """Nobody is signed in here, so there is nothing to end; the browser goes back where it is expected."""
        if request.query_params.get("post_logout_redirect_uri") != self._signed_out_uri:
            raise HTTPException(400)
        state = request.query_params.get("state")
        return RedirectResponse(self._signed_out_uri + (f"?{urlencode({'state': state})}" if state else ""), 303)

    def _checked(self, given: Mapping[str, str]) -> dict[str, str]:
        """The authorization request, if it is one of our client's; a person who got here otherwise is told so."""
        kept = {name: given.get(name, "") for name in _KEPT}
        expected = {
            "client_id": self.client_id,
            "redirect_uri": self._redirect_uri,
            "response_type": "code",
            "code_challenge_method": "S256",
        }
        if any(kept[name] != value for name, value in expected.items()) or not all(kept.values()):
            raise HTTPException(400)
        if "openid" not in kept["scope"].split():
            raise HTTPException(400)
        return kept

    def _is_client(self, authorization: str) -> bool:
        kind, _, encoded = authorization.partition(" ")
        try:
            name, _, secret = b64decode(encoded, validate=True).decode().partition(":")
        except (Base64Error, UnicodeDecodeError):
            return False
        known = hmac.compare_digest(unquote_plus(secret).encode(), self.client_secret.encode())
        return kind.lower() == "basic" and unquote_plus(name) == self.client_id and known

    def _id_token(self, grant: _Grant) -> str:
        now = int(self._clock())
        claims: dict[str, Any] = {
            "iss": self.issuer,
            "sub": grant.subject,
            "aud": self.client_id,
            "nonce": grant.nonce,
            "iat": now,
            "auth_time": now,
            "exp": now + _TOKEN_SECONDS,
        }
        return jwt.encode({"alg": "ES256", "kid": self._key.kid}, claims, self._key, algorithms=["ES256"])

    def _keep(self, where: dict[str, _Grant], grant: _Grant) -> str:
        """Keep `grant` under a fresh name; what is over goes, and never more than a thousand stay."""
        now = self._clock()
        for name in [name for name, kept in where.items() if kept.expires_at <= now] or list(where)[:-1000]:
            del where[name]
        name = secrets.token_urlsafe(32)
        where[name] = grant
        return name

    def _at(self, seconds: int) -> float:
        return self._clock() + seconds


def _answers(code_verifier: str, code_challenge: str) -> bool:
    """Whether the challenge was made from this verifier."""
    if not code_verifier.isascii():
        return False
    return hmac.compare_digest(create_s256_code_challenge(code_verifier).encode(), code_challenge.encode())


def _local_only(endpoint: Callable[[Request], Any]) -> Callable[[Request], Any]:
    async def guarded(request: Request) -> Response:
        if request.client is None or not is_loopback_host(request.client.host):
            raise HTTPException(404)
        response: Response = await endpoint(request)
        return response

    return guarded


def _form(request: Request, kept: Mapping[str, str], *, subject: str, problem: str = "", status: int = 200) -> Response:
    context = {"kept": kept, "subject": subject, "problem": problem, "action": f"{PATH}/authorize"}
    return render(request, "local_provider/authorize.html", context, status)


def _oauth_error(code: str, status: int = 400) -> Response:
    return JSONResponse({"error": code}, status_code=status)
