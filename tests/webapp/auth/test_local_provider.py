"""The development provider: what it asks of its one client, and where it refuses to be."""

import base64
from collections.abc import Mapping
from typing import Any
from urllib.parse import parse_qs, urlsplit

import httpx2
import pytest
from authlib.oauth2.rfc7636 import create_s256_code_challenge
from joserfc.jwk import KeySet
from starlette.applications import Starlette
from starlette.routing import Mount

from tests.webapp.asking import PUBLIC_URL, asking
from webapp.auth.id_token import Expected, read_id_token
from webapp.auth.local_provider import PATH, LocalProvider
from webapp.auth.services import issuer_label
from webapp.error_pages import EXCEPTION_HANDLERS
from webapp.settings import Command, Settings, load_settings

VERIFIER = "v" * 64
REQUEST = {
    "client_id": "remembrancer",
    "redirect_uri": f"{PUBLIC_URL}/auth/callback",
    "response_type": "code",
    "scope": "openid profile email",
    "state": "the-state",
    "nonce": "the-nonce",
    "code_challenge": create_s256_code_challenge(VERIFIER),
    "code_challenge_method": "S256",
}


class Clock:
    now = 1_800_000_000.0

    def __call__(self) -> float:
        return self.now


class Talk:
    """One provider and a client that speaks to it."""

    def __init__(self, *, client: str = "127.0.0.1") -> None:
        self.clock = Clock()
        self.provider = LocalProvider(PUBLIC_URL, PUBLIC_URL, clock=self.clock)
        mount = Mount(PATH, routes=self.provider.routes())
        self.http = asking(Starlette(routes=[mount], exception_handlers=EXCEPTION_HANDLERS), client=client)

    async def code(self, subject: str = "ada", **changes: str) -> str:
        answer = await self.http.post(f"{PATH}/authorize", data={**REQUEST, **changes, "subject": subject})
        assert answer.status_code == 303, answer.text
        return parse_qs(urlsplit(answer.headers["location"]).query)["code"][0]

    async def exchange(self, known_code: str, *, secret: str | None = None, **changes: str) -> httpx2.Response:
        data = {
            "grant_type": "authorization_code",
            "code": known_code,
            "redirect_uri": REQUEST["redirect_uri"],
            "code_verifier": VERIFIER,
        }
        auth = httpx2.BasicAuth("remembrancer", secret or self.provider.client_secret)
        return await self.http.post(f"{PATH}/token", data=data | changes, auth=auth)


async def test_its_document_sends_browsers_to_the_public_address_and_us_to_our_own() -> None:
    """Where both differ, the back channel stays inside."""
    provider = LocalProvider("http://localhost:9000", "http://127.0.0.1:8000")
    app = Starlette(routes=[Mount(PATH, routes=provider.routes())])
    async with asking(app) as http:
        document = (await http.get(provider.discovery_url)).json()

    assert document["issuer"] == provider.issuer == "http://localhost:9000/local-provider"
    for name in ("authorization_endpoint", "end_session_endpoint"):
        assert document[name].startswith("http://localhost:9000/")
    for name in ("token_endpoint", "jwks_uri", "userinfo_endpoint"):
        assert document[name].startswith("http://127.0.0.1:8000/")


async def test_the_form_asks_for_a_subject_and_keeps_what_it_was_sent() -> None:
    """Textbox Subject, button Continue."""
    page = await Talk().http.get(f"{PATH}/authorize", params=REQUEST)
    assert page.status_code == 200
    assert '<label for="subject">Subject</label>' in page.text
    assert ">Continue</button>" in page.text
    assert all(f'value="{value}"' in page.text for value in REQUEST.values())


async def test_a_subject_gets_a_code_and_the_state_back() -> None:
    """To the redirect URI, with the issuer's own name (RFC 9207)."""
    answer = await Talk().http.post(f"{PATH}/authorize", data={**REQUEST, "subject": " Ada "})
    target = urlsplit(answer.headers["location"])
    query = parse_qs(target.query)
    assert f"{target.scheme}://{target.netloc}{target.path}" == REQUEST["redirect_uri"]
    assert (query["state"], query["iss"]) == (["the-state"], [f"{PUBLIC_URL}{PATH}"])


async def test_the_token_holds_and_names_the_subject_exactly() -> None:
    """Signed with the published key, for this client and this sign-in."""
    talk = Talk()
    body = (await talk.exchange(await talk.code("Ada Wren|1"))).json()
    keys: Any = (await talk.http.get(f"{PATH}/jwks")).json()
    expected = Expected(talk.provider.issuer, "remembrancer", "the-nonce")
    claims = read_id_token(
        body["id_token"],
        KeySet.import_key_set(keys),
        expected,
        access_token=body["access_token"],
        now=lambda: int(talk.clock.now),
    )
    userinfo = await talk.http.get(f"{PATH}/userinfo", headers={"Authorization": f"Bearer {body['access_token']}"})

    assert claims["sub"] == "Ada Wren|1"
    assert userinfo.json() == {"sub": "Ada Wren|1"}
    assert "d" not in keys["keys"][0]


async def test_a_code_works_once_and_for_a_minute() -> None:
    """A second use, or a late one, is invalid_grant."""
    talk = Talk()
    code = await talk.code()
    assert (await talk.exchange(code)).status_code == 200
    assert (await talk.exchange(code)).json() == {"error": "invalid_grant"}
    late = await talk.code()
    talk.clock.now += 61
    assert (await talk.exchange(late)).json() == {"error": "invalid_grant"}


@pytest.mark.parametrize(
    ("changes", "error"),
    [
        ({"code_verifier": "w" * 64}, "invalid_grant"),
        ({"code_verifier": ""}, "invalid_grant"),
        ({"code_verifier": "é" * 64}, "invalid_grant"),
        ({"redirect_uri": "http://evil.example"}, "invalid_grant"),
        ({"grant_type": "password"}, "unsupported_grant_type"),
        ({"code": "made-up"}, "invalid_grant"),
    ],
)
async def test_a_code_is_worth_nothing_without_what_it_was_bound_to(changes: dict[str, str], error: str) -> None:
    """Verifier, redirect URI and kind of grant must be those of the request."""
    talk = Talk()
    answer = await talk.exchange(await talk.code(), **changes)
    assert (answer.status_code, answer.json()) == (400, {"error": error})


@pytest.mark.parametrize(
    "headers",
    [
        {},
        {"Authorization": "Bearer x"},
        {"Authorization": "Basic !!!"},
        {"Authorization": f"Basic {base64.b64encode(b'remembrancer:wrong').decode()}"},
        {"Authorization": f"Basic {base64.b64encode(bytes([255])).decode()}"},
    ],
)
async def test_only_its_client_exchanges_codes(headers: Mapping[str, str]) -> None:
    """invalid_client for everybody else."""
    answer = await Talk().http.post(f"{PATH}/token", data={}, headers=headers)
    assert (answer.status_code, answer.json()) == (401, {"error": "invalid_client"})


@pytest.mark.parametrize("header", [{}, {"Authorization": "Bearer x"}, {"Authorization": "Basic x"}])
async def test_userinfo_wants_a_token(header: Mapping[str, str]) -> None:
    """Nothing is said without one, nor with one that is over."""
    talk = Talk()
    assert (await talk.http.get(f"{PATH}/userinfo", headers=header)).status_code == 401


@pytest.mark.parametrize(
    "changes",
    [
        {"client_id": "other"},
        {"redirect_uri": "http://evil.example"},
        {"redirect_uri": f"{PUBLIC_URL}/auth/callback/"},
        {"response_type": "token"},
        {"code_challenge_method": "plain"},
        {"code_challenge": ""},
        {"state": ""},
        {"nonce": ""},
        {"scope": "profile"},
    ],
)
async def test_a_request_that_is_not_its_clients_goes_nowhere(changes: dict[str, str]) -> None:
    """400 in words; never a redirect to an address that was not registered."""
    talk = Talk()
    asked = await talk.http.get(f"{PATH}/authorize", params=REQUEST | changes)
    answered = await talk.http.post(f"{PATH}/authorize", data={**REQUEST, **changes, "subject": "ada"})
    assert [asked.status_code, answered.status_code] == [400, 400]
    assert "location" not in answered.headers


@pytest.mark.parametrize("subject", ["", "   ", "x" * 256, "a\0b"])
async def test_a_name_that_cannot_be_one_is_asked_for_again(subject: str) -> None:
    """The form comes back with a sentence, and with the request it belongs to."""
    page = await Talk().http.post(f"{PATH}/authorize", data={**REQUEST, "subject": subject})
    assert page.status_code == 422
    assert 'aria-invalid="true"' in page.text
    assert 'value="the-state"' in page.text


async def test_what_is_typed_is_escaped() -> None:
    """The form shows it back as text."""
    name = '"><script>alert(1)</script>' + "x" * 255
    page = await Talk().http.post(f"{PATH}/authorize", data={**REQUEST, "subject": name})
    assert "<script>" not in page.text


async def test_signing_out_leads_back_and_nowhere_else() -> None:
    """The address after sign-out is the registered one; state is handed through."""
    talk = Talk()
    back = f"{PUBLIC_URL}/signed-out"
    good = await talk.http.get(f"{PATH}/end-session", params={"post_logout_redirect_uri": back, "state": "s&t"})
    evil = await talk.http.get(f"{PATH}/end-session", params={"post_logout_redirect_uri": "http://evil.example"})
    assert good.headers["location"] == f"{back}?state=s%26t"
    assert evil.status_code == 400


@pytest.mark.parametrize("client", ["10.0.0.7", "2001:db8::7"])
async def test_it_answers_this_computer_only(client: str) -> None:
    """From anywhere else it does not exist."""
    talk = Talk(client=client)
    for path in ("authorize", "jwks", ".well-known/openid-configuration"):
        assert (await talk.http.get(f"{PATH}/{path}", params=REQUEST)).status_code == 404


async def test_its_memory_is_bounded() -> None:
    """Codes and tokens that are over are forgotten, and there are never more than a thousand."""
    talk = Talk()
    for _ in range(1010):
        await talk.code()
    assert len(talk.provider._codes) <= 1001
    talk.clock.now += 61
    await talk.code()
    assert len(talk.provider._codes) == 1


def settings_with(**environ: str) -> Settings:
    serve = {
        "REMEMBRANCER_DATABASE_URL": "postgresql://db/app",
        "REMEMBRANCER_PUBLIC_URL": "https://memory.example.org",
        "REMEMBRANCER_SECRET_KEY": "k" * 32,
        "REMEMBRANCER_OIDC_ISSUER": "https://id.example.org",
        "REMEMBRANCER_OIDC_CLIENT_ID": "app",
        "OPENAI_API_KEY": "k",
    }
    return load_settings({**serve, **environ}, Command.SERVE)


def test_in_serve_the_issuer_is_the_providers_own_name() -> None:
    """Nothing in serve counts as local."""
    assert issuer_label(settings_with()) == "https://id.example.org"
