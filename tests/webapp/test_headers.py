"""The headers that every response has."""

import re

import pytest
from starlette.applications import Starlette
from starlette.responses import PlainTextResponse
from starlette.routing import Route

from tests.webapp.asking import asking
from webapp.headers import ResponseHeaders, content_security_policy


def site(*, uses_https: bool = False, origins: tuple[str, ...] = ()) -> ResponseHeaders:
    routes = [
        Route("/page", lambda _: PlainTextResponse("words")),
        Route("/static/site.css", lambda _: PlainTextResponse("css")),
        Route("/kept", lambda _: PlainTextResponse("kept", headers={"Cache-Control": "max-age=60"})),
        Route("/number", lambda request: PlainTextResponse(request.state.request_id)),
    ]
    return ResponseHeaders(Starlette(routes=routes), uses_https=uses_https, form_action_origins=lambda: origins)


def test_the_policy_allows_this_site_and_nothing_inline() -> None:
    """Word for word, so that a change is a decision."""
    assert content_security_policy() == (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; "
        "font-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
    )


async def test_forms_may_lead_to_the_place_where_one_signs_out() -> None:
    """The provider's origin stands in form-action, and nowhere else."""
    async with asking(site(origins=("https://id.example.org",))) as client:
        policy = (await client.get("/page")).headers["content-security-policy"]
    assert "form-action 'self' https://id.example.org;" in policy
    assert policy.count("id.example.org") == 1


@pytest.mark.parametrize("path", ["/page", "/nowhere"])
async def test_every_answer_has_the_protecting_headers(path: str) -> None:
    """Pages and errors alike."""
    async with asking(site()) as client:
        headers = (await client.get(path)).headers
    assert headers["referrer-policy"] == "same-origin"
    assert headers["x-content-type-options"] == "nosniff"
    assert headers["cross-origin-opener-policy"] == "same-origin"
    assert "camera=()" in headers["permissions-policy"]
    assert "strict-transport-security" not in headers


async def test_https_is_remembered_by_browsers() -> None:
    """HSTS only where browsers come over https."""
    async with asking(site(uses_https=True)) as client:
        assert "max-age=" in (await client.get("/page")).headers["strict-transport-security"]


@pytest.mark.parametrize(
    ("path", "kept"), [("/page", "no-store"), ("/static/site.css", "no-cache"), ("/kept", "max-age=60")]
)
async def test_nothing_is_stored_unless_the_answer_says_so(path: str, kept: str) -> None:
    """Going back after signing out shows nothing; files of the site are kept and asked about again."""
    async with asking(site()) as client:
        assert (await client.get(path)).headers["cache-control"] == kept


async def test_each_request_has_a_number_of_its_own() -> None:
    """The route sees the number that the header names, and the next request has another."""
    async with asking(site()) as client:
        first, second = await client.get("/number"), await client.get("/number")
    assert first.text == first.headers["x-request-id"]
    assert re.fullmatch(r"[0-9a-f]{4}-[0-9a-f]{4}", first.text)
    assert first.text != second.text
