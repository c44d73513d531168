"""The bench, whole: `make bench`, or `python -m tests.bench [--quick]`. Loopback only; under six minutes, or one.

Everything runs in one go and in turn, round by round, so that whatever else the machine does meets all of it alike:
read the ratios, not the figures. Server and database share one core; model and load have another, if there are two.
"""

import argparse
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

from tests.bench import table
from tests.bench.application import Database, running_application, running_database
from tests.bench.loops import run
from tests.bench.measures import (
    Amount,
    Notes,
    Target,
    commits,
    first_text_alone,
    held_open,
    paced,
    saturated,
    the_application,
    the_model,
    the_relay,
)
from tests.bench.people import SignedIn, sign_in
from tests.bench.processes import Cores, allow_open_files, first_line, pin, running

QUICK = Amount(
    streams=20,
    tokens=100,
    answers_alone=10,
    answers_paced=1,
    answers_saturated=1,
    held=200,
    commit_seconds=0.5,
    rounds=1,
)
#: Enough for a thousand streams, each with a connection to the browser and one to the model.
OPEN_FILES = 16_384


def measure(amount: Amount, parts: frozenset[str], cores: Cores) -> Notes:
    """Run the named parts. Everything that was started has ended when this returns."""
    notes = Notes()
    allow_open_files(OPEN_FILES)
    with ExitStack() as everything:
        model = everything.enter_context(running(cores.load, "-m", "tests.bench.model"))
        direct = the_model(first_line(model), model.pid)
        database = everything.enter_context(running_database(cores.server))
        pin(model.pid, cores.load)
        with _relay(direct, cores) as relay, _application(direct, database, cores, amount.streams) as (ours, people):
            new_chats = the_application(ours.address, ours.pid, database.pid, people, messages_a_chat=1)
            one_chat = the_application(ours.address, ours.pid, database.pid, people, messages_a_chat=1_000)
            for number in range(amount.rounds):
                _say(f"round {number + 1} of {amount.rounds}")
                if "first" in parts:
                    run(first_text_alone(direct, relay, one_chat, new_chats, amount, notes))
                if "paced" in parts:
                    run(paced((direct, relay, ours), amount, notes))
                if "saturated" in parts:
                    run(saturated((relay, ours), amount, notes))
        if "memory" in parts:
            _say(f"{amount.held:,} open streams")
            with _relay(direct, cores) as relay:
                run(held_open(relay, amount, notes))
            with _application(direct, database, cores, amount.streams) as (ours, _):
                run(held_open(ours, amount, notes))
        if "commits" in parts:
            _say("commits")
            pin(database.pid, cores.load)
            for _ in range(amount.rounds):
                commits(database.url, cores.server, amount, notes)
    return notes


PARTS = frozenset({"first", "paced", "saturated", "memory", "commits"})


@contextmanager
def _relay(model: Target, cores: Cores) -> Iterator[Target]:
    with running(cores.server, "-m", "tests.bench.relay", f"{model.address}/v1") as process:
        yield the_relay(first_line(process), process.pid)


@contextmanager
def _application(
    model: Target, database: Database, cores: Cores, people: int
) -> Iterator[tuple[Target, list[SignedIn]]]:
    """The application, and so many people who are signed in."""
    with running_application(cores.server, database, f"{model.address}/v1") as started:
        signed_in = [sign_in(started.address, f"person {number}") for number in range(people)]
        yield the_application(started.address, started.process.pid, database.pid, signed_in), signed_in


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.bench", description="Measure beside the model and a relay.")
    parser.add_argument("--quick", action="store_true", help="a look in under a minute; too little to rely on")
    parser.add_argument("--rounds", type=int, help="how often everything is measured")
    parser.add_argument("--only", nargs="+", choices=sorted(PARTS), help="some parts only")
    given = parser.parse_args(arguments)
    amount = QUICK if given.quick else Amount()
    if given.rounds:
        amount = Amount(**{**vars(amount), "rounds": given.rounds})
    started = time.monotonic()
    notes = measure(amount, frozenset(given.only or PARTS), Cores.chosen())
    print("\n".join(table.lines(notes)))
    print(f"First words: milliseconds on top of the model's own. {time.monotonic() - started:.0f} seconds in all.")
    for problem, count in notes.problems.items():
        print(f"PROBLEM {problem}: {count}")
    sys.exit(1 if notes.problems else 0)


def _say(what: str) -> None:
    print(f"… {what}", file=sys.stderr, flush=True)


if __name__ == "__main__":
    main()
