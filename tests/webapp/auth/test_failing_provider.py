"""Signing in and out with an identity provider that misbehaves: words for the person, and no session."""

import json
from collections.abc import Iterator
from pathlib import Path

import httpx2
import pytest
import sqlalchemy as sa
from sqlalchemy.engine import Engine

from memory_core.database.tables import sign_in_attempts
from tests.fakes.oidc_provider import CLIENT_ID, ScriptedProvider
from tests.webapp.auth.site import Browser, Site, running_site

pytestmark = pytest.mark.postgres


@pytest.fixture
def provider() -> Iterator[ScriptedProvider]:
    with ScriptedProvider() as running:
        yield running


@pytest.fixture
def strange(engine: Engine, tmp_path: Path, provider: ScriptedProvider) -> Iterator[Site]:
    environ = {"REMEMBRANCER_OIDC_ISSUER": provider.issuer, "REMEMBRANCER_OIDC_CLIENT_ID": CLIENT_ID}
    with running_site(engine, tmp_path, environ) as running:
        yield running


def come_back(browser: Browser, provider: ScriptedProvider) -> httpx2.Response:
    asked = browser.begin()
    provider.nonce = asked["nonce"]
    return browser.step(f"/auth/callback?code=x&state={asked['state']}")


def test_the_scripted_way_back_signs_in_when_nothing_is_wrong(strange: Site, provider: ScriptedProvider) -> None:
    """What the refusals below are measured against."""
    browser = strange.browser()
    assert come_back(browser, provider).status_code == 303
    assert browser.me() is not None


@pytest.mark.parametrize(
    ("claims", "status"),
    [({"nonce": "wrong"}, 403), ({"exp": 1}, 403), ({"aud": "other"}, 403), ({"sub": ""}, 403), ({"sub": "a\0"}, 403)],
)
def test_a_token_that_does_not_hold_ends_in_words(
    strange: Site, provider: ScriptedProvider, claims: dict[str, object], status: int
) -> None:
    """A page, no traceback, no session, no cookie."""
    provider.claims = claims
    browser = strange.browser()
    end = come_back(browser, provider)
    assert end.status_code == status
    assert "could not be trusted" in end.text
    assert "Traceback" not in end.text
    assert "set-cookie" not in end.headers
    assert browser.me() is None


@pytest.mark.parametrize(
    ("path", "answer", "status"),
    [
        ("/token", (400, json.dumps({"error": "invalid_grant"})), 403),
        ("/token", (500, ""), 503),
        ("/keys", (500, ""), 503),
    ],
)
def test_a_provider_that_fails_on_the_way_back_ends_in_words(
    strange: Site, provider: ScriptedProvider, path: str, answer: tuple[int, str], status: int
) -> None:
    """Refused or unreachable, the person reads which and can try again."""
    provider.answers[path] = answer
    browser = strange.browser()
    end = come_back(browser, provider)
    assert end.status_code == status
    assert 'href="/sign-in"' in end.text
    assert browser.me() is None


def test_a_provider_that_cannot_be_reached_says_so_at_the_first_step(
    strange: Site, provider: ScriptedProvider, engine: Engine
) -> None:
    """503 in words, and nothing was begun."""
    provider.answers["/.well-known/openid-configuration"] = (500, "")
    answer = strange.browser().step("/auth/start")
    assert answer.status_code == 503
    assert "does not answer" in answer.text
    assert int(answer.headers["retry-after"]) > 0
    with engine.connect() as connection:
        assert connection.execute(sa.select(sa.func.count()).select_from(sign_in_attempts)).scalar_one() == 0


def test_signing_out_works_when_the_provider_is_away(strange: Site, provider: ScriptedProvider, engine: Engine) -> None:
    """The session here ends in any case, and the person sees so."""
    provider.metadata = {"end_session_endpoint": None}
    browser = strange.browser()
    come_back(browser, provider)
    found = browser.me()
    assert found is not None
    end = browser.post("/sign-out", {"csrf_token": found["csrf_token"]})
    assert "You have signed out" in end.text
    assert browser.me() is None


def test_the_words_of_the_provider_reach_no_page_and_no_log(
    strange: Site, provider: ScriptedProvider, caplog: pytest.LogCaptureFixture
) -> None:
    """error_description and unknown codes may say anything; neither is repeated."""
    browser = strange.browser()
    state = browser.begin()["state"]
    end = browser.step(f"/auth/callback?state={state}&error=%3Cb%3Esentinel&error_description=sentinel")
    assert end.status_code == 403
    assert "sentinel" not in end.text + caplog.text
    assert "other" in caplog.text
