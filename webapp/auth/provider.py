"""What the identity provider says about itself: its discovery document and its signing keys, fetched when first needed.

Knows nothing about people or sign-ins. Everything it fetches is public.
"""

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

import anyio
import httpx2
from joserfc.errors import JoseError
from joserfc.jwk import KeySet

from webapp.errors import ProviderUnreachable
from webapp.setting_values import is_loopback_host, origin_of

_FRESH_SECONDS = 3600.0
_WELL_KNOWN = "/.well-known/openid-configuration"


@dataclass(frozen=True, slots=True)
class ProviderMetadata:
    """The parts of a discovery document that sign-in needs, checked."""

    issuer: str
    authorization_endpoint: str
    token_endpoint: str
    jwks_uri: str
    userinfo_endpoint: str | None
    end_session_endpoint: str | None
    token_auth_methods: tuple[str, ...]


class Provider:
    """One identity provider. `discovery_url` is given where the document is not under the issuer's own address.

    Every method raises ProviderUnreachable when the provider gives no usable answer; what was fetched before stays.
    """

    def __init__(
        self,
        http: httpx2.AsyncClient,
        issuer: str,
        *,
        discovery_url: str | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._http = http
        self._issuer = issuer
        self._discovery_url = discovery_url or issuer.rstrip("/") + _WELL_KNOWN
        self._clock = clock
        self._lock = anyio.Lock()
        self._metadata: ProviderMetadata | None = None
        self._fetched_at = 0.0
        self._keys: KeySet | None = None

    @property
    def origins(self) -> tuple[str, ...]:
        """Where signing out may lead: the issuer's origin and, once known, that of its end-session endpoint."""
        ends_at = self._metadata.end_session_endpoint if self._metadata else None
        found = {origin_of(url) for url in (self._issuer, ends_at) if url}
        return tuple(sorted(found))

    async def metadata(self) -> ProviderMetadata:
        """The discovery document; asked for again after an hour, and kept if that fails."""
        async with self._lock:
            if self._metadata is None or self._clock() - self._fetched_at > _FRESH_SECONDS:
                try:
                    self._metadata = _checked(await self.get_json(self._discovery_url), self._issuer)
                except ProviderUnreachable:
                    if self._metadata is None:
                        raise
                self._fetched_at = self._clock()
            return self._metadata

    async def keys(self, *, again: bool = False) -> KeySet:
        """The public signing keys; `again` asks for them anew, after a key that was not among them."""
        metadata = await self.metadata()
        async with self._lock:
            if self._keys is None or again:
                document = await self.get_json(metadata.jwks_uri)
                try:
                    self._keys = KeySet.import_key_set(document)  # type: ignore[arg-type]  # what it really is, it finds out
                except (JoseError, ValueError, KeyError, TypeError, AttributeError):
                    raise ProviderUnreachable("its keys cannot be read") from None
            return self._keys

    async def get_json(self, url: str, bearer: str | None = None) -> Mapping[str, Any]:
        """The JSON object at `url`."""
        headers = {"Accept": "application/json"} | ({"Authorization": f"Bearer {bearer}"} if bearer else {})
        try:
            response = await self._http.get(url, headers=headers)
            response.raise_for_status()
            document = response.json()
        except (httpx2.HTTPError, ValueError):
            document = None
        if not isinstance(document, dict):
            raise ProviderUnreachable
        return document


def _checked(document: Mapping[str, Any], issuer: str) -> ProviderMetadata:
    """The document as metadata. It must name the configured issuer, letter by letter, and only safe endpoints."""
    if document.get("issuer") != issuer:
        raise ProviderUnreachable("its discovery document names another issuer than REMEMBRANCER_OIDC_ISSUER")
    methods = document.get("token_endpoint_auth_methods_supported")
    return ProviderMetadata(
        issuer=issuer,
        authorization_endpoint=_endpoint(document, "authorization_endpoint", required=True),
        token_endpoint=_endpoint(document, "token_endpoint", required=True),
        jwks_uri=_endpoint(document, "jwks_uri", required=True),
        userinfo_endpoint=_endpoint(document, "userinfo_endpoint") or None,
        end_session_endpoint=_endpoint(document, "end_session_endpoint") or None,
        token_auth_methods=tuple(map(str, methods)) if isinstance(methods, list) else ("client_secret_basic",),
    )


def _endpoint(document: Mapping[str, Any], name: str, *, required: bool = False) -> str:
    url = document.get(name)
    if url is None and not required:
        return ""
    parts = urlsplit(url) if isinstance(url, str) else None
    if parts is None or not (parts.scheme == "https" or (parts.scheme == "http" and is_loopback_host(parts.hostname))):
        raise ProviderUnreachable(f"its discovery document has no usable {name}")
    return str(url)
