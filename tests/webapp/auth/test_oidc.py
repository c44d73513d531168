"""The conversation with an identity provider: what is sent, what is believed, and what a failure is called."""

import base64
import json
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from typing import Any
from urllib.parse import parse_qs, urlsplit

import httpx2
import pytest
from authlib.oauth2.rfc7636 import create_s256_code_challenge
from joserfc.jwk import ECKey

from tests.fakes.oidc_provider import CLIENT_ID, ScriptedProvider
from webapp.auth.oidc import Client, OidcClient, error_code, new_challenge
from webapp.auth.provider import Provider
from webapp.errors import IdentityInvalid, ProviderRefused, ProviderUnreachable

REDIRECT_URI = "http://127.0.0.1:8000/auth/callback"
TLS = httpx2.create_ssl_context(trust_env=False)
SIGNED_OUT_URI = "http://127.0.0.1:8000/signed-out"


@pytest.fixture
def provider() -> Iterator[ScriptedProvider]:
    with ScriptedProvider() as running:
        yield running


@asynccontextmanager
async def talking_to(issuer: str, *, secret: str = "s3cret/+", clock: Any = None) -> AsyncIterator[OidcClient]:
    http = httpx2.AsyncClient(trust_env=False, verify=TLS)
    client = Client(CLIENT_ID, secret, ("openid", "email"), REDIRECT_URI, SIGNED_OUT_URI)
    oidc = OidcClient(http, Provider(http, issuer, **({"clock": clock} if clock else {})), client, tls=TLS)
    try:
        yield oidc
    finally:
        await oidc.close()


async def finish(provider: ScriptedProvider, oidc: OidcClient, **more: Any) -> Any:
    challenge = new_challenge()
    provider.nonce = challenge.nonce
    return await oidc.finish("the-code", challenge, issuer=more.get("issuer"))


async def test_the_way_to_the_provider_carries_state_nonce_and_challenge(provider: ScriptedProvider) -> None:
    """Authorization code flow, PKCE with S256, and nothing secret in the address."""
    challenge = new_challenge()
    async with talking_to(provider.issuer) as oidc:
        url = await oidc.authorization_url(challenge)

    asked = {name: values[0] for name, values in parse_qs(urlsplit(url).query).items()}
    assert url.startswith(f"{provider.issuer}/authorize?")
    assert asked == {
        "response_type": "code",
        "client_id": CLIENT_ID,
        "redirect_uri": REDIRECT_URI,
        "scope": "openid email",
        "state": challenge.state,
        "nonce": challenge.nonce,
        "code_challenge": create_s256_code_challenge(challenge.code_verifier),
        "code_challenge_method": "S256",
    }


def test_every_challenge_is_new() -> None:
    """256 random bits each, and a verifier as long as PKCE wants."""
    first, second = new_challenge(), new_challenge()
    assert len({first.state, first.nonce, first.code_verifier, second.state, second.nonce, second.code_verifier}) == 6
    assert len(first.state) >= 43
    assert 43 <= len(first.code_verifier) <= 128


async def test_a_good_sign_in_names_the_person(provider: ScriptedProvider) -> None:
    """Code and verifier go to the token endpoint, with the client's secret in the header."""
    provider.claims = {"sub": "Ada|1", "name": "Ada Wren", "email": "ada@example.org"}
    async with talking_to(provider.issuer) as oidc:
        proof = await finish(provider, oidc)

    _, _, headers, form = next(request for request in provider.requests if request[1] == "/token")
    assert (proof.identity.subject, proof.identity.name) == ("Ada|1", "Ada Wren")
    assert proof.id_token.count(".") == 2
    assert base64.b64decode(headers["authorization"].split()[1]) == f"{CLIENT_ID}:s3cret/+".encode()
    assert form["grant_type"] == "authorization_code"
    assert (form["code"], form["redirect_uri"]) == ("the-code", REDIRECT_URI)
    assert len(form["code_verifier"]) >= 43
    assert "client_secret" not in form


@pytest.mark.parametrize(
    ("secret", "methods", "in_form"),
    [
        ("s3cret", ["client_secret_post"], {"client_id", "client_secret"}),
        ("", None, {"client_id"}),
    ],
)
async def test_the_client_shows_itself_as_the_provider_wants(
    provider: ScriptedProvider, secret: str, methods: list[str] | None, in_form: set[str]
) -> None:
    """In the form where only that is offered; without a secret as a public client."""
    provider.metadata = {"token_endpoint_auth_methods_supported": methods}
    async with talking_to(provider.issuer, secret=secret) as oidc:
        await finish(provider, oidc)
    _, _, headers, form = next(request for request in provider.requests if request[1] == "/token")
    assert "authorization" not in headers
    assert set(form) & {"client_id", "client_secret"} == in_form


@pytest.mark.parametrize(
    ("claims", "check"),
    [
        ({"nonce": "another"}, "invalid_claim:nonce"),
        ({"nonce": None}, "missing_claim:nonce"),
        ({"aud": "another"}, "invalid_claim:aud"),
        ({"iss": "http://127.0.0.1:1"}, "invalid_claim:iss"),
        ({"exp": 1}, "expired_token:exp"),
        ({"sub": "x" * 256}, "sub"),
    ],
)
async def test_a_token_that_does_not_hold_signs_nobody_in(
    provider: ScriptedProvider, claims: dict[str, Any], check: str
) -> None:
    """The library's own errors (joserfc's among them) never come through: one error, naming the check."""
    provider.claims = claims
    async with talking_to(provider.issuer) as oidc:
        with pytest.raises(IdentityInvalid) as caught:
            await finish(provider, oidc)
    assert caught.value.check == check


@pytest.mark.parametrize("token", [{"id_token": None}, {"id_token": 7}, {"id_token": "a.b.c"}])
async def test_an_answer_without_a_usable_id_token_signs_nobody_in(
    provider: ScriptedProvider, token: dict[str, Any]
) -> None:
    """OAuth without OpenID proves nothing about a person."""
    provider.token = token
    async with talking_to(provider.issuer) as oidc:
        with pytest.raises(IdentityInvalid):
            await finish(provider, oidc)


async def test_the_iss_parameter_must_be_the_issuer(provider: ScriptedProvider) -> None:
    """An answer that another provider sent (mix-up) is refused before its code is used."""
    async with talking_to(provider.issuer) as oidc:
        with pytest.raises(IdentityInvalid):
            await finish(provider, oidc, issuer="https://evil.example")
        assert "/token" not in provider.paths()
        assert (await finish(provider, oidc, issuer=provider.issuer)).identity.subject == "ada"


@pytest.mark.parametrize(
    ("path", "answer"),
    [
        ("/.well-known/openid-configuration", (500, "")),
        ("/.well-known/openid-configuration", (200, "<html>")),
        ("/.well-known/openid-configuration", (200, "[]")),
        ("/.well-known/openid-configuration", (302, "")),
        ("/token", (502, "bad gateway")),
        ("/token", (200, "<html>")),
        ("/token", (429, "slow down")),
        ("/keys", (503, "")),
        ("/keys", (200, "{}")),
        ("/keys", (200, '{"keys": []}')),
        ("/keys", (200, '{"keys": "none"}')),
        ("/keys", (200, '{"keys": [{"kty": "EC"}]}')),
    ],
)
async def test_a_provider_without_a_usable_answer_is_unreachable(
    provider: ScriptedProvider, path: str, answer: tuple[int, str]
) -> None:
    """Whatever it sends instead of what the specification says."""
    provider.answers[path] = answer
    async with talking_to(provider.issuer) as oidc:
        with pytest.raises(ProviderUnreachable):
            await finish(provider, oidc)


async def test_a_provider_that_is_not_there_is_unreachable() -> None:
    """Nobody listens: a named error, not the network library's."""
    with ScriptedProvider() as gone:
        issuer = gone.issuer
    async with talking_to(issuer) as oidc:
        with pytest.raises(ProviderUnreachable):
            await oidc.authorization_url(new_challenge())
        assert not await oidc.warm()
        assert await oidc.sign_out_url("token") is None


@pytest.mark.parametrize(
    "metadata",
    [
        {"issuer": "https://evil.example"},
        {"issuer": None},
        {"token_endpoint": None},
        {"authorization_endpoint": "http://id.example.org/authorize"},
        {"jwks_uri": "file:///etc/passwd"},
        {"end_session_endpoint": "javascript:alert(1)"},
    ],
)
async def test_a_discovery_document_is_checked(provider: ScriptedProvider, metadata: dict[str, Any]) -> None:
    """It names the configured issuer, letter by letter, and only https (or this computer) as endpoints."""
    provider.metadata = metadata
    async with talking_to(provider.issuer) as oidc:
        with pytest.raises(ProviderUnreachable):
            await oidc.authorization_url(new_challenge())


@pytest.mark.parametrize(("error", "reason"), [("invalid_grant", "invalid_grant"), ("<b>sentinel</b>", "other")])
async def test_a_code_that_the_provider_does_not_take_is_refused(
    provider: ScriptedProvider, error: str, reason: str
) -> None:
    """A used or expired code; only codes of the specification are repeated."""
    provider.answers["/token"] = (400, json.dumps({"error": error, "error_description": "sentinel"}))
    async with talking_to(provider.issuer) as oidc:
        with pytest.raises(ProviderRefused) as caught:
            await finish(provider, oidc)
    assert caught.value.reason == reason
    assert "sentinel" not in str(caught.value)


async def test_keys_are_fetched_again_when_the_provider_has_changed_them(provider: ScriptedProvider) -> None:
    """A rotated key is no failure, and ordinary sign-ins do not fetch keys each time."""
    async with talking_to(provider.issuer) as oidc:
        await finish(provider, oidc)
        await finish(provider, oidc)
        assert provider.paths().count("/keys") == 1
        provider.key = ECKey.generate_key("P-256", {"kid": "second"})
        provider.published = [provider.key]
        await finish(provider, oidc)
        assert provider.paths().count("/keys") == 2


async def test_a_key_that_is_never_published_is_refused(provider: ScriptedProvider) -> None:
    """One more look at the published keys, then no."""
    provider.key = ECKey.generate_key("P-256", {"kid": "hidden"})
    async with talking_to(provider.issuer) as oidc:
        with pytest.raises(IdentityInvalid, match="key unknown"):
            await finish(provider, oidc)
    assert provider.paths().count("/keys") == 2


async def test_the_discovery_document_is_asked_for_once_an_hour_and_kept_if_that_fails(
    provider: ScriptedProvider,
) -> None:
    """A provider that is away for a moment does not take sign-out with it."""
    now = [0.0]
    path = "/.well-known/openid-configuration"
    async with talking_to(provider.issuer, clock=lambda: now[0]) as oidc:
        await oidc.warm()
        await oidc.warm()
        assert provider.paths().count(path) == 1
        now[0] = 3601.0
        provider.answers[path] = (500, "")
        assert await oidc.warm()
        assert provider.paths().count(path) == 2


async def test_userinfo_only_fills_in_a_name(provider: ScriptedProvider) -> None:
    """It is asked when the token has no name; its failure fails nothing, and another subject's is not looked at."""
    provider.userinfo = {"sub": "ada", "name": "Ada Wren"}
    async with talking_to(provider.issuer) as oidc:
        named = await finish(provider, oidc)
        provider.userinfo = {"sub": "eve", "name": "Eve"}
        others = await finish(provider, oidc)
        provider.answers["/userinfo"] = (500, "")
        failed = await finish(provider, oidc)
    assert [proof.identity.name for proof in (named, others, failed)] == ["Ada Wren", None, None]
    assert {proof.identity.subject for proof in (named, others, failed)} == {"ada"}


async def test_signing_out_leads_to_the_provider_with_the_token_and_back(provider: ScriptedProvider) -> None:
    """RP-initiated logout: client, hint and the address to come back to; without a hint the provider asks."""
    provider.metadata = {"end_session_endpoint": f"{provider.issuer}/logout?tenant=1"}
    async with talking_to(provider.issuer) as oidc:
        url, without = await oidc.sign_out_url("a.b.c"), await oidc.sign_out_url(None)
        long = await oidc.sign_out_url("x" * 4001)
    assert url is not None
    assert without is not None
    assert long == without
    assert parse_qs(urlsplit(url).query) == {
        "tenant": ["1"],
        "client_id": [CLIENT_ID],
        "post_logout_redirect_uri": [SIGNED_OUT_URI],
        "id_token_hint": ["a.b.c"],
    }
    assert "id_token_hint" not in without


async def test_a_provider_without_sign_out_has_no_address_for_it(provider: ScriptedProvider) -> None:
    """The session here ends all the same."""
    provider.metadata = {"end_session_endpoint": None}
    async with talking_to(provider.issuer) as oidc:
        assert await oidc.sign_out_url("a.b.c") is None


async def test_forms_may_lead_to_the_end_session_endpoint_as_soon_as_it_is_known(provider: ScriptedProvider) -> None:
    """Before that, to the issuer: most providers have both under one origin."""
    provider.metadata = {"end_session_endpoint": "https://logout.example.org/end"}
    async with talking_to(provider.issuer) as oidc:
        assert oidc.form_action_origins == (provider.issuer,)
        await oidc.warm()
        assert oidc.form_action_origins == tuple(sorted((provider.issuer, "https://logout.example.org")))


@pytest.mark.parametrize(
    ("said", "kept"),
    [("access_denied", "access_denied"), ("", "other"), ("a b", "other"), ("x" * 41, "other"), (7, "other")],
)
def test_only_codes_are_repeated(said: object, kept: str) -> None:
    """What a provider or an attacker writes into an answer does not reach a log."""
    assert error_code(said) == kept
