"""The bench, whole: `make bench`, or `python -m tests.bench [--quick]`. Loopback only; under six minutes, or one.

Everything runs in one go and in turn, round by round, so that whatever else the machine does meets all of it alike:
read the ratios, not the figures. Server and database share one core; model and load have another, if there are two.
"""

import argparse
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace

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
from tests.bench.people import sign_in
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


@dataclass(frozen=True)
class Site:
    """Everything that runs."""

    cores: Cores
    database: Database
    model: Target
    relay: Target
    application: Target

    @property
    def targets(self) -> tuple[Target, Target, Target]:
        return (self.model, self.relay, self.application)


@contextmanager
def open_site(cores: Cores, people: int, *, durable: bool = True, database: Database | None = None) -> Iterator[Site]:
    """Start everything, with so many people signed in; all of it has ended on leaving."""
    with ExitStack() as opened:
        if database is None:
            database = opened.enter_context(running_database(cores.server, durable=durable))
        model = opened.enter_context(running(cores.load, "-m", "tests.bench.model"))
        model_url = first_line(model)
        relay = opened.enter_context(running(cores.server, "-m", "tests.bench.relay", f"{model_url}/v1"))
        started = opened.enter_context(running_application(cores.server, database, f"{model_url}/v1"))
        signed_in = sign_in(started.address, [f"person {number}" for number in range(people)])
        yield Site(
            cores=cores,
            database=database,
            model=the_model(model_url, model.pid),
            relay=the_relay(first_line(relay), relay.pid),
            application=the_application(started.address, started.process.pid, database.pid, signed_in),
        )


def measure(amount: Amount, parts: frozenset[str], cores: Cores) -> Notes:
    """Run the named parts. Everything that was started has ended when this returns."""
    notes = Notes()
    allow_open_files(OPEN_FILES)
    with running_database(cores.server) as database:
        if parts & IN_ROUNDS:
            with open_site(cores, amount.streams, database=database) as site:
                for number in range(amount.rounds):
                    _say(f"round {number + 1} of {amount.rounds}")
                    _measure_round(site, amount, parts, notes)
        if "memory" in parts:
            _say(f"{amount.held:,} open streams")
            with open_site(cores, amount.streams, database=database) as site:
                for target in site.targets[1:]:
                    run(held_open(target, amount, notes))
        if "commits" in parts:
            _say("commits")
            pin(database.pid, cores.load)
            for _ in range(amount.rounds):
                commits(database.url, cores.server, amount, notes)
    return notes


def _measure_round(site: Site, amount: Amount, parts: frozenset[str], notes: Notes) -> None:
    if "first" in parts:
        run(first_text_alone(site.targets, amount, notes))
    if "paced" in parts:
        run(paced(site.targets, amount, notes))
    if "saturated" in parts:
        run(saturated(site.targets[1:], amount, notes))


IN_ROUNDS = frozenset({"first", "paced", "saturated"})
PARTS = IN_ROUNDS | {"memory", "commits"}


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.bench", description="Measure beside the model and a relay.")
    parser.add_argument("--quick", action="store_true", help="a look in under a minute; too little to rely on")
    parser.add_argument("--rounds", type=int, help="how often everything is measured")
    parser.add_argument("--only", nargs="+", choices=sorted(PARTS), help="some parts only")
    given = parser.parse_args(arguments)
    amount = QUICK if given.quick else Amount()
    if given.rounds:
        amount = replace(amount, rounds=given.rounds)
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
