"""Templates: escaped always, complete or not at all, and themselves in order."""

import re
from datetime import UTC, datetime, timedelta, timezone

import pytest
from jinja2 import UndefinedError

from webapp.render import TEMPLATES, clock, day, moment, number, render_partial

HERE = sorted(path.relative_to(TEMPLATES).as_posix() for path in TEMPLATES.rglob("*.html"))


@pytest.mark.parametrize("name", HERE)
def test_a_template_says_first_what_it_needs(name: str) -> None:
    """Its first line is a comment."""
    first, _, _ = (TEMPLATES / name).read_text().partition("\n")
    assert re.fullmatch(r"\{# .+ #\}", first), first


@pytest.mark.parametrize("name", HERE)
def test_a_template_trusts_nothing(name: str) -> None:
    """No escape from escaping, no style, no script that is not a file of ours, nothing from elsewhere."""
    text = (TEMPLATES / name).read_text()
    for forbidden in (
        r"\|\s*safe",
        r"autoescape",
        r"\sstyle=",
        r"\son[a-z]+=",
        r"<script(?![^>]* src=\"/static/)",
        r"https?://",
    ):
        assert not re.search(forbidden, text), forbidden


def test_what_a_person_wrote_is_shown_and_not_obeyed() -> None:
    """A sentence that is markup stays a sentence."""
    shown = render_partial("turns/_step.html", id="trn_a", step="<b>&")
    assert "&lt;b&gt;&amp;" in shown


def test_a_missing_value_is_an_error_and_not_a_blank() -> None:
    """A template that was not given what it needs fails."""
    with pytest.raises(UndefinedError):
        render_partial("turns/_step.html", id="trn_a")


def test_times_are_utc_and_say_so_until_script_rewrites_them() -> None:
    """Whatever zone they come in."""
    at = datetime(2026, 11, 30, 23, 30, tzinfo=timezone(timedelta(hours=-2)))
    assert clock(at) == '<time datetime="2026-12-01T01:30:00+00:00" data-time="clock">01:30 UTC</time>'
    assert ">1 December, 01:30 UTC<" in moment(at)
    assert ">1 December<" in day(at.astimezone(UTC))


def test_numbers_have_their_commas() -> None:
    """As ``1,375``."""
    assert number(1375) == "1,375"
