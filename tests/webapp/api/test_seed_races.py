"""Seeding against itself and against a first message, at the same moment: one winner, and the message never fails.

A sample in the ordinary run, a hundred rounds in `make soak`.
"""

import threading
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial
from typing import Any

import pytest
from sqlalchemy import text as sql

from tests.fakes.model_server import ModelServer, finish, text
from tests.webapp.api.calling import Caller, caller
from tests.webapp.product import Product, Said

ROUNDS = pytest.mark.parametrize("rounds", [10, pytest.param(100, marks=pytest.mark.soak)])


def at_once(*calls: Any) -> list[Any]:
    """Start them together; what each returned."""
    ready = threading.Barrier(len(calls))

    def go(call: Any) -> Any:
        ready.wait(20)
        return call()

    with ThreadPoolExecutor(len(calls)) as pool:
        begun: list[Future[Any]] = [pool.submit(go, call) for call in calls]
        return [each.result() for each in begun]


@pytest.mark.invariant("I29")
@ROUNDS
def test_of_two_seeds_at_once_exactly_one_is_taken(product: Product, rounds: int) -> None:
    """201 for one, 409 for the other, and what is stored is the winner's, whole."""
    one, other = caller(product), caller(product)
    for number in range(rounds):
        subject = f"subject {number}"
        answers = at_once(
            partial(one.seed, subject, "From one.", "From one too."),
            partial(other.seed, subject, "From the other."),
        )
        assert sorted(answer.status_code for answer in answers) == [201, 409]
        [winner] = [answer.json() for answer in answers if answer.status_code == 201]
        assert one.ok("GET", one.memory_path(subject)) == winner


@pytest.mark.invariant("I29")
@ROUNDS
def test_a_seed_and_a_first_message_at_once_have_one_winner(product: Product, model: ModelServer, rounds: int) -> None:
    """Either 201, and that turn's prompt holds the seed, or 409 and nothing stored; the message never fails."""
    me = caller(product)
    model.choose = lambda request: (text("Hello."), finish("stop"))
    taken = 0
    for number in range(rounds):
        subject, seed = f"subject-{number}", f"Is number {number} of the race."
        person = product.sign_in(subject)
        seeded, said = at_once(partial(me.seed, subject, seed), partial(person.say, f"Hello from {subject}"))
        assert isinstance(said, Said)
        assert said.ended["outcome"] == "completed"
        [prompt] = [request for request in model.requests if request.last_user_text == f"Hello from {subject}"]
        entries = me.ok("GET", me.memory_path(subject))["stores"][0]["entries"]
        assert seeded.status_code in (201, 409)
        won = seeded.status_code == 201
        taken += won
        assert entries == ([seed] if won else [])
        assert (seed in prompt.messages[0]["content"]) is won
    print(f"the seed won {taken} of {rounds}")


@pytest.mark.invariant("I29")
@ROUNDS
def test_a_seed_and_a_first_session_at_once_have_one_winner(product: Product, rounds: int) -> None:
    """The session is always opened; the seed came before it, or is refused."""
    me = caller(product)
    for number in range(rounds):
        subject = f"subject {number}"
        seeded, session = at_once(
            partial(me.seed, subject, "Knows SQL."),
            partial(me.open_session, subject),
        )
        assert session.startswith("cht_")
        stored = me.ok("GET", me.memory_path(subject))["stores"][0]["entries"]
        assert (seeded.status_code, stored) in ((201, ["Knows SQL."]), (409, []))


@pytest.mark.invariant("I29")
def test_a_seed_waits_for_a_first_message_that_has_the_row(product: Product, model: ModelServer) -> None:
    """The race could end either way: when the message has its lock first, the seed is refused."""
    me, ada = caller(product), product.sign_in("ada")
    model.play(text("Hello."), finish("stop"))
    ada.say("Hello")
    assert me.seed("ada", "Knows SQL.").status_code == 409
    assert seeds(product) == 0
    assert Caller(product, me.key).seed("eve", "Knows SQL.").status_code == 201
    assert seeds(product) == 1


def seeds(product: Product) -> int:
    with product.services.engine.begin() as connection:
        found = connection.execute(sql("SELECT count(*) FROM remembrancer.owners WHERE seeded_at IS NOT NULL"))
        return int(found.scalar_one())
