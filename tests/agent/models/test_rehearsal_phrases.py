"""The phrases of the rehearsal model: what is understood, how far a wish reaches, and how a reply is asked to end."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.models.rehearsal.phrases import (
    Ending,
    Forget,
    Recall,
    Remember,
    Replace,
    Search,
    Wish,
    understand,
)
from tests.agent.models.asking import UNHURRIED

TABLE: list[tuple[str, list[Wish]]] = [
    ("remember that I like tea", [Remember("user", "I like tea")]),
    ("REMEMBER THAT I like TEA", [Remember("user", "I like TEA")]),
    ("Please remember that I like tea.", [Remember("user", "I like tea.")]),
    ("Can you remember that I live in Oslo?", [Remember("user", "I live in Oslo")]),
    ("Remember that I like tea, please.", [Remember("user", "I like tea.")]),
    ("Remember that I prefer short examples. How do I …?", [Remember("user", "I prefer short examples.")]),
    ("Hello!\nRemember that I like tea\nThanks", [Remember("user", "I like tea")]),
    ("remember that I use Python 3.11 and e.g. Ruff. OK?", [Remember("user", "I use Python 3.11 and e.g. Ruff.")]),
    ('remember that "I like tea"', [Remember("user", "I like tea")]),
    ("remember that “Likes tea. And cake.” Thanks!", [Remember("user", "Likes tea. And cake.")]),
    ("remember that 'I like tea'.", [Remember("user", "I like tea")]),
    ('remember that "Foo" is my project', [Remember("user", '"Foo" is my project')]),
    ('remember that my motto is "Do. Or not."', [Remember("user", 'my motto is "Do. Or not."')]),
    ("remember that I like tea; and coffee", [Remember("user", "I like tea; and coffee")]),
    ("remember that люблю чай. Как дела?", [Remember("user", "люблю чай.")]),
    ("remember that 我喜欢茶。你好", [Remember("user", "我喜欢茶。")]),
    ("remember for this work: the build runs with make", [Remember("memory", "the build runs with make")]),
    ("Remember for this work that tests need Docker.", [Remember("memory", "tests need Docker.")]),
    ("replace tea with coffee", [Replace((("tea", "coffee"),))]),
    ('Replace "likes tea" with "likes coffee".', [Replace((("likes tea", "likes coffee"),))]),
    ('replace "works with Go" with "works with Rust"', [Replace((("works with Go", "works with Rust"),))]),
    ("forget tea", [Forget("tea")]),
    ("Please forget that I like tea.", [Forget("I like tea.")]),
    ("forget about tea, please", [Forget("tea")]),
    ("what do you remember", [Recall()]),
    ("What do you remember about me?", [Recall()]),
    ("search our chats for the invoice", [Search("the invoice")]),
    ("forget tea\nremember that I like coffee", [Forget("tea"), Remember("user", "I like coffee")]),
    ("don't forget that I like tea", []),
    ("do you remember that movie?", []),
    ("I remember that day well", []),
    ("remember that it is approx. five", [Remember("user", "it is approx. five")]),
    ("remember that", []),
    ("remember that ?", []),
    ("replace tea by coffee", []),
    ("hello", []),
    ("", []),
]


@pytest.mark.parametrize(("message", "wishes"), TABLE)
def test_a_message_says_what_it_wishes(message: str, wishes: list[Wish]) -> None:
    """X is the person's own words to the end of the sentence or line, or what is quoted; nothing is capitalised."""
    assert list(understand(message).wishes) == wishes


def test_an_unquoted_replacement_has_several_readings() -> None:
    """Where `with` stands more than once each place is a reading; what is remembered decides between them."""
    [wish] = understand("replace works with Go with works with Rust").wishes

    assert isinstance(wish, Replace)
    assert ("works with Go", "works with Rust") in wish.readings
    assert wish.readings[0] == ("works", "Go with works with Rust")


@pytest.mark.parametrize(
    ("message", "ending", "wishes"),
    [
        ("stall", Ending.STALL, 0),
        ("FAIL", Ending.FAIL, 0),
        (" Cut  off. ", Ending.CUT_OFF, 0),
        ("too long", Ending.TOO_LONG, 0),
        ("remember that I like tea; stall", Ending.STALL, 1),
        ("remember that I like tea; and cake; too long", Ending.TOO_LONG, 1),
        ("hello; cut off", Ending.CUT_OFF, 0),
        ("why do servers stall", Ending.GOOD, 0),
        ("stall; then go on", Ending.GOOD, 0),
        ("the answer was too long", Ending.GOOD, 0),
        ("remember that I fail", Ending.GOOD, 1),
    ],
)
def test_an_ending_is_the_whole_message_or_its_last_clause(message: str, ending: Ending, wishes: int) -> None:
    """Elsewhere these words mean nothing; what stands before the last `;` is understood as ever."""
    said = understand(message)

    assert (said.ending, len(said.wishes)) == (ending, wishes)


@pytest.mark.parametrize(
    ("message", "has_more"),
    [
        ("remember that I like tea", False),
        ("Hi! Please remember that I like tea. Thanks!", False),
        ("Remember that I like tea. How do I reverse a list?", True),
        ("stall", False),
    ],
)
def test_words_beyond_the_wishes_are_noticed(message: str, has_more: bool) -> None:
    """Courtesies are no question; a question is."""
    assert understand(message).has_more is has_more


@UNHURRIED
@given(st.text())
def test_anything_can_be_said(message: str) -> None:
    """No message is beyond it, and no wish is empty."""
    for wish in understand(message).wishes:
        assert not isinstance(wish, Remember | Forget) or wish.words


@UNHURRIED
@given(st.from_regex(r"[A-Za-z][A-Za-z0-9 ,']{0,60}[A-Za-z0-9]", fullmatch=True))
def test_ordinary_words_are_kept_exactly(words: str) -> None:
    """What is asked to be remembered is what is remembered."""
    said = understand(f"remember that {words}")

    if not words.lower().endswith("please"):
        assert said.wishes[:1] == (Remember("user", words),)
