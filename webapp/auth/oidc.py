"""Sign-in by OpenID Connect: the authorization code flow with PKCE, state and nonce, and sign-out at the provider.

Owns the conversation with the identity provider. Where a sign-in's state is kept, and what a session is, is not known
here. Nothing the provider sends beside its signed ID token decides who the person is.
"""

import secrets
import ssl
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlencode

import httpx2
from authlib.integrations.base_client import OAuthError
from authlib.integrations.httpx_client import AsyncOAuth2Client

from webapp.auth.id_token import Expected, Identity, KeyUnknown, identity_from, read_id_token
from webapp.auth.operators import OperatorRule
from webapp.auth.provider import Provider, ProviderMetadata
from webapp.errors import IdentityInvalid, ProviderRefused, ProviderUnreachable
from webapp.setting_values import origin_of

HTTP_TIMEOUT_SECONDS = 10.0
# A longer hint could make an address that servers refuse; without it the provider asks the person.
_HINT_MAX_CHARS = 4000
_METHODS = ("client_secret_basic", "client_secret_post")


@dataclass(frozen=True, slots=True)
class Client:
    """How this deployment is registered at the identity provider. An empty secret makes it a public client.

    `operators`: the rules whose claims are remembered of those who sign in.
    """

    client_id: str
    client_secret: str = field(repr=False)
    scopes: tuple[str, ...]
    redirect_uri: str
    signed_out_uri: str
    operators: tuple[OperatorRule, ...] = ()


@dataclass(frozen=True, slots=True)
class Challenge:
    """What one sign-in must bring back; kept by us between its two halves."""

    state: str = field(repr=False)
    nonce: str = field(repr=False)
    code_verifier: str = field(repr=False)


@dataclass(frozen=True, slots=True)
class Proof:
    """The end of a good sign-in: the person, and the token to show the provider when they sign out."""

    identity: Identity
    id_token: str = field(repr=False)


def new_challenge(state_prefix: str = "") -> Challenge:
    """Fresh random values, 256 bits each."""
    return Challenge(
        state=state_prefix + secrets.token_urlsafe(32),
        nonce=secrets.token_urlsafe(32),
        code_verifier=secrets.token_urlsafe(48),
    )


class OidcClient:
    """Takes people to the identity provider and back.

    Its methods raise ProviderUnreachable for a provider that gives no usable answer, ProviderRefused for one that says
    no, IdentityInvalid for an answer that does not hold.
    """

    def __init__(self, http: httpx2.AsyncClient, provider: Provider, client: Client, *, tls: ssl.SSLContext) -> None:
        self._http = http
        self._tls = tls
        self._provider = provider
        self._client = client

    @property
    def form_action_origins(self) -> tuple[str, ...]:
        """The origins besides our own that the answer to our sign-out form may lead to, for the CSP."""
        ours = origin_of(self._client.redirect_uri)
        return tuple(origin for origin in self._provider.origins if origin != ours)

    async def warm(self) -> bool:
        """Fetch the discovery document ahead of the first sign-in; whether the provider answered."""
        try:
            await self._provider.metadata()
        except ProviderUnreachable:
            return False
        return True

    async def close(self) -> None:
        await self._http.aclose()

    async def authorization_url(self, challenge: Challenge) -> str:
        """Where the browser goes to sign in."""
        metadata = await self._provider.metadata()
        async with self._oauth(metadata) as oauth:
            url, _ = oauth.create_authorization_url(
                metadata.authorization_endpoint,
                state=challenge.state,
                nonce=challenge.nonce,
                code_verifier=challenge.code_verifier,
            )
        return str(url)

    async def finish(self, code: str, challenge: Challenge, *, issuer: str | None) -> Proof:
        """Exchange `code` and check what comes of it; `issuer` is the answer's ``iss`` parameter (RFC 9207), if any."""
        metadata = await self._provider.metadata()
        if issuer not in (None, metadata.issuer):
            raise IdentityInvalid("iss parameter")
        answer = await self._exchange(metadata, code, challenge.code_verifier)
        id_token, access_token = answer.get("id_token"), answer.get("access_token")
        if not isinstance(id_token, str):
            raise IdentityInvalid("no id_token")
        access_token = access_token if isinstance(access_token, str) else None
        claims = await self._claims(metadata, id_token, challenge.nonce, access_token)
        userinfo = await self._userinfo(metadata, claims, access_token)
        return Proof(identity_from(claims, userinfo, self._client.operators), id_token)

    async def sign_out_url(self, id_token: str | None) -> str | None:
        """Where the browser goes to sign out at the provider too, or None if it offers no such thing now."""
        try:
            metadata = await self._provider.metadata()
        except ProviderUnreachable:
            return None
        if metadata.end_session_endpoint is None:
            return None
        parameters = {"client_id": self._client.client_id, "post_logout_redirect_uri": self._client.signed_out_uri}
        if id_token is not None and len(id_token) <= _HINT_MAX_CHARS:
            parameters["id_token_hint"] = id_token
        mark = "&" if "?" in metadata.end_session_endpoint else "?"
        return f"{metadata.end_session_endpoint}{mark}{urlencode(parameters)}"

    def _oauth(self, metadata: ProviderMetadata) -> Any:
        """An OAuth client for one exchange: it holds the tokens it receives, so it is never shared."""
        return AsyncOAuth2Client(
            client_id=self._client.client_id,
            client_secret=self._client.client_secret or None,
            token_endpoint_auth_method=self._auth_method(metadata),
            scope=" ".join(self._client.scopes),
            redirect_uri=self._client.redirect_uri,
            code_challenge_method="S256",
            timeout=HTTP_TIMEOUT_SECONDS,
            trust_env=self._http.trust_env,
            # Making a context reads every root certificate, which would hold up whatever else is being streamed.
            verify=self._tls,
        )

    def _auth_method(self, metadata: ProviderMetadata) -> str:
        if not self._client.client_secret:
            return "none"
        return next((method for method in _METHODS if method in metadata.token_auth_methods), _METHODS[0])

    async def _exchange(self, metadata: ProviderMetadata, code: str, code_verifier: str) -> Mapping[str, Any]:
        try:
            async with self._oauth(metadata) as oauth:
                answer = await oauth.fetch_token(
                    metadata.token_endpoint, grant_type="authorization_code", code=code, code_verifier=code_verifier
                )
        except OAuthError as error:
            raise ProviderRefused(error_code(error.error)) from None
        except (httpx2.HTTPError, ValueError, TypeError):
            raise ProviderUnreachable from None
        return dict(answer)

    async def _claims(
        self, metadata: ProviderMetadata, id_token: str, nonce: str, access_token: str | None
    ) -> Mapping[str, Any]:
        expected = Expected(metadata.issuer, self._client.client_id, nonce)
        for again in (False, True):
            keys = await self._provider.keys(again=again)
            try:
                return read_id_token(id_token, keys, expected, access_token=access_token)
            except KeyUnknown:
                continue
        raise IdentityInvalid("key unknown")

    async def _userinfo(
        self, metadata: ProviderMetadata, claims: Mapping[str, Any], access_token: str | None
    ) -> Mapping[str, Any]:
        """What the userinfo endpoint adds for display. Signing in never fails for want of it."""
        if claims.get("name") or access_token is None or metadata.userinfo_endpoint is None:
            return {}
        try:
            return await self._provider.get_json(metadata.userinfo_endpoint, bearer=access_token)
        except ProviderUnreachable:
            return {}


def error_code(error: object) -> str:
    """An OAuth error code as the specification spells them; anything else that was sent is not repeated in a log."""
    known = isinstance(error, str) and error.isascii() and error.replace("_", "").isalpha() and len(error) <= 40
    return str(error) if known else "other"
