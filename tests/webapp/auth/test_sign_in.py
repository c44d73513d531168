"""Signing in and out, from the first click to the last, against the local provider."""

from urllib.parse import parse_qs, urlsplit

import pytest
import sqlalchemy as sa
from sqlalchemy.engine import Engine

from memory_core.database.tables import sign_in_attempts, web_sessions
from tests.webapp.auth.site import Site, hidden

pytestmark = pytest.mark.postgres


def shift(engine: Engine, column: sa.Column[object], hours: float) -> None:
    """Let time go by for every row of a table."""
    with engine.begin() as connection:
        moved = column - sa.text(f"interval '{hours} hours'")
        connection.execute(sa.update(column.table).values({column: moved}))


def test_a_person_signs_in_and_comes_back_to_where_they_wanted_to_go(site: Site) -> None:
    """From a page that needs a person, over the sign-in page and the provider, back to that page."""
    browser = site.browser()
    page = browser.get("/me?x=1")
    assert page.url.path == "/sign-in"
    form = browser.get(page.text.split('class="button button--ink" href="')[1].split('"')[0])
    end = browser.submit(form, subject="ada")

    assert str(end.url) == f"{site.url}/me?x=1"
    assert end.json()["subject"] == "ada"


def test_the_session_cookie_is_opaque_and_only_its_digest_is_stored(site: Site, engine: Engine) -> None:
    """HttpOnly, SameSite=Lax, for the whole site; the row does not open a session, and the token in it is sealed."""
    browser = site.browser()
    answer = browser.submit(browser.get("/auth/start"), subject="ada").history[-1]
    set_cookie = answer.headers["set-cookie"]
    name = f"remembrancer-{site.url.rpartition(':')[2]}"
    cookie = browser.cookies()[name]
    with engine.connect() as connection:
        row = connection.execute(sa.select(web_sessions)).one()

    assert set_cookie.startswith(f"{name}=")
    assert all(part in set_cookie for part in ("HttpOnly", "SameSite=lax", "Path=/", "Max-Age=2592000"))
    assert "Secure" not in set_cookie
    assert cookie not in str(row)
    assert row.id_token.count(".") == 4
    assert row.name is None
    assert row.email is None


@pytest.mark.invariant("I25")
def test_subjects_that_differ_in_case_are_different_people(site: Site) -> None:
    """ada, Ada and ada@example.org are three people with three sessions."""
    browsers = {subject: site.browser() for subject in ("ada", "Ada", "ada@example.org")}
    for subject, browser in browsers.items():
        browser.sign_in(subject)
    seen = {subject: browser.me() for subject, browser in browsers.items()}

    assert {subject: found and found["subject"] for subject, found in seen.items()} == {
        subject: subject for subject in browsers
    }
    assert len({found["session"] for found in seen.values() if found}) == 3


def test_without_a_name_the_subject_is_shown(site: Site) -> None:
    """The local provider gives no name."""
    browser = site.browser()
    browser.sign_in("ada")
    found = browser.me()
    assert found is not None
    assert (found["name"], found["label"]) == (None, "ada")


def test_two_tabs_can_sign_in_side_by_side(site: Site) -> None:
    """The second tab's sign-in does not take the first one's state away, and what the first one shows stays valid."""
    browser = site.browser()
    first, second = browser.get("/auth/start?next=/me%3Ftab=1"), browser.get("/auth/start?next=/me%3Ftab=2")
    end_first = browser.submit(first, subject="ada")
    end_second = browser.submit(second, subject="ada")

    assert [str(end.url) for end in (end_first, end_second)] == [f"{site.url}/me?tab={tab}" for tab in (1, 2)]
    noted = browser.post("/notes", {"csrf_token": end_first.json()["csrf_token"]})
    assert noted.text == "noted for ada"


def test_the_second_sign_in_of_a_browser_ends_the_session_before_it(site: Site, engine: Engine) -> None:
    """One browser, one session: the earlier one is revoked, and whoever runs turns in it is told."""
    browser = site.browser()
    form = browser.get("/auth/start")
    before = browser.sign_in("ada").json()
    after = browser.submit(form, subject="eve").json()
    with engine.connect() as connection:
        live = connection.execute(sa.select(web_sessions.c.subject).where(web_sessions.c.revoked_at.is_(None)))

        assert live.scalars().all() == ["eve"]
    assert site.ended == [before["session"]]
    assert before["csrf_token"] != after["csrf_token"]


def test_a_cookie_from_before_is_worth_nothing_after_signing_in(site: Site) -> None:
    """Session fixation: whatever id the browser brought, known or made up, the signed-in session has a new one."""
    attacker = site.browser()
    attacker.sign_in("eve")
    name = next(name for name in attacker.cookies() if not name.endswith("-sign-in"))
    for planted in (attacker.cookies()[name], "made-up"):
        victim = site.browser()
        form = victim.get("/auth/start")
        victim.http.cookies.set(name, planted, domain="127.0.0.1", path="/")
        victim.submit(form, subject="ada")
        ours = victim.cookies()[name]
        intruder = site.browser()
        intruder.http.cookies.set(name, planted, domain="127.0.0.1", path="/")

        assert ours != planted
        assert intruder.me() is None


def test_who_is_signed_in_does_not_sign_in_again(site: Site) -> None:
    """The sign-in pages lead on at once."""
    browser = site.browser()
    browser.sign_in("ada")
    for path in ("/sign-in?next=/me", "/auth/start?next=/me"):
        assert browser.step(path).headers["location"] == "/me"


@pytest.mark.parametrize(
    "hostile", ["//evil.example", "https://evil.example", "/\\evil.example", "/%09/evil.example", "%2F%2Fevil.example"]
)
@pytest.mark.parametrize("page", ["/auth/start", "/sign-in"])
def test_signing_in_never_leads_to_another_site(site: Site, page: str, hostile: str) -> None:
    """An address of another site as `next` becomes the start page."""
    browser = site.browser()
    form = browser.get(f"{page}?next={hostile}")
    if page == "/sign-in":
        assert "evil" not in form.text
        form = browser.get("/auth/start")
    end = browser.submit(form, subject="ada")
    locations = [answer.headers["location"] for answer in end.history]
    assert str(end.url) == f"{site.url}/"
    assert all("evil" not in location for location in locations)


def test_an_answer_with_a_wrong_state_begins_again_once(site: Site) -> None:
    """A state nobody knows: a new sign-in, whose own failure ends in words and not in a circle."""
    browser = site.browser()
    asked = browser.begin()
    again = browser.step(f"/auth/callback?code=x&state={asked['state']}x")
    assert again.headers["location"] == "/auth/start?next=%2F&again=1"

    second = browser.step(again.headers["location"])
    state = parse_qs(urlsplit(second.headers["location"]).query)["state"][0]
    browser.http.cookies.clear()
    end = browser.step(f"/auth/callback?code=x&state={state}")
    assert end.status_code == 400
    assert "could not be finished here" in end.text
    assert browser.me() is None


def test_another_browser_cannot_finish_a_sign_in(site: Site) -> None:
    """Login CSRF: the attacker's own answer, opened by the victim, signs nobody in, and stays the attacker's."""
    attacker, victim = site.browser(), site.browser()
    form = attacker.get("/auth/start?next=/me")
    answer = attacker.http.post(
        f"{site.url}/local-provider/authorize",
        data=hidden(form) | {"subject": "eve"},
        follow_redirects=False,
    )
    callback = answer.headers["location"]

    assert victim.step(callback).headers["location"].startswith("/auth/start")
    assert victim.me() is None
    assert attacker.get(callback).json()["subject"] == "eve"


def test_a_code_works_once(site: Site) -> None:
    """The same answer a second time: who is signed in goes on, who is not begins again; no second session."""
    browser = site.browser()
    end = browser.sign_in("ada", "/auth/start?next=/me")
    callback = next(str(answer.url) for answer in end.history if answer.url.path == "/auth/callback")
    session = browser.me()

    assert browser.step(callback).headers["location"] == "/"
    assert browser.me() == session
    stranger = site.browser()
    stranger.begin()
    assert stranger.step(callback).headers["location"].startswith("/auth/start")


def test_a_sign_in_that_took_too_long_begins_again_with_the_same_aim(site: Site, engine: Engine) -> None:
    """After half an hour at the provider: once more, without losing where the person wanted to go."""
    browser = site.browser()
    form = browser.get("/auth/start?next=/me%3Fx=1")
    shift(engine, sign_in_attempts.c.expires_at, 1)
    second = browser.submit(form, subject="ada")
    assert "Who is this?" in second.text
    assert str(browser.submit(second, subject="ada").url) == f"{site.url}/me?x=1"


def test_attempts_that_nobody_finished_are_swept(site: Site, engine: Engine) -> None:
    """A day after their time they are gone with the next sign-in."""
    site.browser().begin()
    shift(engine, sign_in_attempts.c.expires_at, 25)
    site.browser().begin()
    with engine.connect() as connection:
        assert connection.execute(sa.select(sa.func.count()).select_from(sign_in_attempts)).scalar_one() == 1


def test_a_flood_of_sign_ins_is_slowed_down(site: Site) -> None:
    """429 in words, with the time to wait."""
    browser = site.browser()
    for _ in range(120):
        site.auth.sign_in_rate.take("127.0.0.1")
    answer = browser.step("/auth/start")
    assert answer.status_code == 429
    assert int(answer.headers["retry-after"]) >= 1


@pytest.mark.parametrize(
    ("column", "hours", "alive"),
    [
        (web_sessions.c.seen_at, 71.9, True),
        (web_sessions.c.seen_at, 72.1, False),
        (web_sessions.c.expires_at, 719.9, True),
        (web_sessions.c.expires_at, 720.1, False),
    ],
)
def test_a_session_ends_by_time(
    site: Site, engine: Engine, column: sa.Column[object], hours: float, alive: bool
) -> None:
    """After 72 hours without use, and after 720 in all; a moment before, it lives."""
    browser = site.browser()
    browser.sign_in("ada")
    shift(engine, column, hours)
    assert (browser.me() is not None) is alive


def test_use_keeps_a_session_alive_but_not_for_ever(site: Site, engine: Engine) -> None:
    """Idle time starts anew with each use; the time in all does not."""
    browser = site.browser()
    browser.sign_in("ada")
    for _ in range(2):
        shift(engine, web_sessions.c.seen_at, 50)
        assert browser.me() is not None
    with engine.connect() as connection:
        left = connection.execute(sa.select(web_sessions.c.expires_at - web_sessions.c.created_at)).scalar_one()
    assert left.total_seconds() == pytest.approx(720 * 3600, abs=60)


def test_an_ended_session_answers_a_form_with_401_in_words(site: Site, engine: Engine) -> None:
    """The page is not replaced by the sign-in page: its script keeps what was written."""
    browser = site.browser()
    token = browser.sign_in("ada").json()["csrf_token"]
    shift(engine, web_sessions.c.seen_at, 100)
    for headers in ({"HX-Request": "true"}, {}):
        answer = browser.post("/notes", {"csrf_token": token, "words": "draft"}, headers=headers)
        assert answer.status_code == 401
        assert "You have been signed out" in answer.text


def test_a_form_without_its_token_or_from_elsewhere_does_nothing(site: Site) -> None:
    """The guard stands in front of every route of the site."""
    browser = site.browser()
    token = browser.sign_in("ada").json()["csrf_token"]
    assert browser.post("/notes", {"csrf_token": token}).text == "noted for ada"
    assert browser.post("/notes", {}).status_code == 403
    assert browser.post("/notes", {"csrf_token": token}, origin="null").status_code == 403
    assert browser.post("/notes", {"csrf_token": token}, origin="http://evil.example").status_code == 403


def test_signing_out_ends_the_session_here_and_at_the_provider(site: Site, engine: Engine) -> None:
    """Over the provider's end-session address, with client, hint and the way back; then nothing opens any more."""
    browser, other_tab = site.browser(), site.browser()
    found = browser.sign_in("ada").json()
    name, cookie = next(item for item in browser.cookies().items() if not item[0].endswith("-sign-in"))
    other_tab.http.cookies.set(name, cookie, domain="127.0.0.1", path="/")
    assert other_tab.me() is not None

    answer = browser.post("/sign-out", {"csrf_token": found["csrf_token"]}, follow_redirects=False)
    target = urlsplit(answer.headers["location"])
    asked = parse_qs(target.query)
    end = browser.get(answer.headers["location"])

    assert answer.status_code == 303
    assert target.path == "/local-provider/end-session"
    assert asked["post_logout_redirect_uri"] == [f"{site.url}/signed-out"]
    assert asked["id_token_hint"][0].count(".") == 2
    assert "You have signed out" in end.text
    assert "form-action 'self';" in end.headers["content-security-policy"]
    assert (browser.me(), other_tab.me()) == (None, None)
    assert site.ended == [found["session"]]
    with engine.connect() as connection:
        assert connection.execute(sa.select(web_sessions.c.id_token)).scalars().all() == [None]


def test_signing_out_needs_the_token(site: Site) -> None:
    """Another site cannot sign a person out."""
    browser = site.browser()
    browser.sign_in("ada")
    assert browser.post("/sign-out", {}).status_code == 403
    assert browser.post("/sign-out", {}, origin="http://evil.example").status_code == 403
    assert browser.me() is not None
    assert site.ended == []


def test_signing_out_twice_is_no_error(site: Site) -> None:
    """Nothing is left to end, and the person sees that they are out."""
    browser = site.browser()
    token = browser.sign_in("ada").json()["csrf_token"]
    browser.post("/sign-out", {"csrf_token": token})
    again = browser.post("/sign-out", {"csrf_token": token})
    assert "You have signed out" in again.text
    assert len(site.ended) == 1


def test_the_page_after_signing_out_does_not_tell_that_to_who_is_signed_in(site: Site) -> None:
    """An old tab's reload leads back into the site."""
    browser = site.browser()
    browser.sign_in("ada")
    assert browser.step("/signed-out").headers["location"] == "/"
