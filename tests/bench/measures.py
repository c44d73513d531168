"""What is measured, a function for each part. Each notes its figures; nothing here judges or prints."""

import json
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from statistics import median
from typing import Final

from tests.bench.load import Asker, HeldStreams, Measured, ask, connect, keep_open
from tests.bench.people import SignedIn
from tests.bench.processes import ROOT, cpu_seconds, pin, resident_bytes
from tests.bench.targets import Chatter, ModelDirect, RelayClient

MODEL, RELAY, BARE, APPLICATION, WITH_DATABASE = "model", "relay", "bare", "application", "with its database"
#: The names of the measures; `table` has what is said of them.
FIRST_NEXT, FIRST_NEW, FIRST_BUSY = "first, next message", "first, new chat", "first, busy"
CPU_PACED, CPU_SATURATED, SPEED, MEMORY = "cpu, paced", "cpu, saturated", "tokens a second", "memory a stream"

#: Somebody who has not signed in.
NOBODY: Final = SignedIn("", "")

COMMITS: Final = ("memory people", "turn people", "memory person", "turn person")


@dataclass(frozen=True)
class Amount:
    """How much of everything: streams at once, tokens and answers of each, streams held, seconds of commits."""

    streams: int = 50
    tokens: int = 200
    delay_seconds: float = 0.02
    answers_alone: int = 25
    answers_paced: int = 2
    answers_saturated: int = 4
    held: int = 1000
    commit_seconds: float = 1.5
    rounds: int = 3


@dataclass(frozen=True)
class Target:
    """One of those that are measured. `askers` gives so many who ask it; `database_pid` is of what works for it."""

    name: str
    address: str
    pid: int
    askers: Callable[[int], list[Asker]]
    database_pid: int | None = None


@dataclass
class Notes:
    """Figures, round by round, by what was measured and whose they are; and what went wrong."""

    figures: dict[tuple[str, str], list[float]] = field(default_factory=dict)
    problems: Counter[str] = field(default_factory=Counter)

    def note(self, measure: str, whose: str, figure: float) -> None:
        self.figures.setdefault((measure, whose), []).append(figure)

    def note_problem(self, measure: str, whose: str, problem: str, count: int = 1) -> None:
        if problem and count:
            self.problems[f"{measure}, {whose}: {problem}"] += count


def the_model(address: str, pid: int) -> Target:
    return Target(MODEL, address, pid, lambda count: [ModelDirect() for _ in range(count)])


def the_relay(address: str, pid: int) -> Target:
    return Target(RELAY, address, pid, lambda count: [RelayClient() for _ in range(count)])


def the_application(address: str, pid: int, database_pid: int, people: Sequence[SignedIn]) -> Target:
    """Asked by these people in turn; each has as many browser tabs open as it takes."""

    def askers(count: int) -> list[Asker]:
        return [Chatter(address, people[number % len(people)]) for number in range(count)]

    return Target(APPLICATION, address, pid, askers, database_pid)


async def first_text_alone(targets: Sequence[Target], amount: Amount, notes: Notes) -> None:
    """One client: milliseconds to the first words. All are asked in turn, so that they have the same weather."""
    wish = "tokens=20"
    lines = [await connect(target.address) for target in targets]
    askers = [target.askers(1)[0] for target in targets]
    heard: dict[tuple[str, str], list[float]] = {}
    for number in range(amount.answers_alone + 1):
        for target, line, asker in zip(targets, lines, askers, strict=True):
            answer = await ask(line, asker, wish)
            measure = FIRST_NEW if asker.opens_chat else FIRST_NEXT
            notes.note_problem(measure, target.name, answer.problem)
            if number:  # the very first one makes connections
                heard.setdefault((measure, target.name), []).append(answer.first * 1000)
    for line in lines:
        line.abort()
    for (measure, whose), firsts in heard.items():
        notes.note(measure, whose, median(firsts))
        if whose in (MODEL, RELAY):
            notes.note(FIRST_NEW, whose, median(firsts))


async def paced(targets: Sequence[Target], amount: Amount, notes: Notes) -> None:
    """Many streams at the pace of a model: first words, and CPU for a thousand tokens."""
    for target in targets:
        measured = await _under_load(target, amount, notes, CPU_PACED, amount.answers_paced, amount.delay_seconds)
        if measured.first_ms:
            notes.note(FIRST_BUSY, target.name, median(measured.first_ms))


async def saturated(targets: Sequence[Target], amount: Amount, notes: Notes) -> None:
    """As many streams, as fast as they go."""
    for target in targets:
        started = time.perf_counter()
        measured = await _under_load(target, amount, notes, CPU_SATURATED, amount.answers_saturated, 0.0)
        notes.note(SPEED, target.name, measured.tokens / (time.perf_counter() - started))


async def _under_load(
    target: Target, amount: Amount, notes: Notes, measure: str, answers_each: int, delay: float
) -> Measured:
    before = _cpu(target)
    measured = await keep_open(
        target.address,
        target.askers(amount.streams),
        answers_each=answers_each,
        tokens=amount.tokens,
        delay=delay,
        ramp_seconds=amount.tokens * delay,
    )
    for problem, count in measured.problems.items():
        notes.note_problem(measure, target.name, problem, count)
    if measured.tokens:
        for whose, now in _cpu(target).items():
            notes.note(measure, whose, (now - before[whose]) * 1_000_000 / measured.tokens)
    return measured


def _cpu(target: Target) -> dict[str, float]:
    """CPU seconds so far, of the server alone and with its database."""
    own = cpu_seconds(target.pid)
    if target.database_pid is None:
        return {target.name: own}
    return {target.name: own, WITH_DATABASE: own + cpu_seconds(target.database_pid)}


async def held_open(target: Target, amount: Amount, notes: Notes) -> None:
    """Many streams that have begun and wait: kilobytes of the server for each. Wants a process that is new."""
    await keep_open(target.address, target.askers(10), answers_each=3, tokens=amount.tokens, delay=0.0)
    before = resident_bytes(target.pid)
    streams = HeldStreams(target.address)
    await streams.open(iter(target.askers(amount.held)))
    notes.note(MEMORY, target.name, (resident_bytes(target.pid) - before) / 1024 / amount.held)
    notes.note_problem(MEMORY, target.name, "not open", amount.held - streams.open_count)
    notes.note_problem(MEMORY, target.name, "no text", streams.failed)
    streams.let_go()


def commits(database_url: str, core: int, amount: Amount, notes: Notes) -> None:
    """Commits a second, in a process of its own on the server's core."""
    command = [sys.executable, "-m", "tests.bench.commits", database_url, str(amount.commit_seconds)]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True) as process:
        pin(process.pid, core)
        output, _ = process.communicate(timeout=120)
    for name, figure in json.loads(output).items():
        way, _, who = name.partition(" ")
        for measure in COMMITS:
            if measure == name:
                notes.note(measure, APPLICATION, figure)
            elif way == "bare" and measure.endswith(who):
                notes.note(measure, BARE, figure)
