"""A pytest plugin that holds the tests and the manifest of invariants against each other, both ways.

    pytest -p tests.manifest_plugin                       registers the marker; a tag without an invariant fails the run
    pytest -p tests.manifest_plugin --check-invariants    and so does a due invariant without a tagged test

The second half is checked only when the whole suite was collected, that is when no path was named on the command line.
Tags are counted before -m and -k leave tests out. Works the same under pytest-xdist, where the workers collect.
"""

from collections.abc import Iterable, Sequence
from typing import Any

import pytest

from tests.invariants import INVARIANTS, Invariant

TAGS = pytest.StashKey[set[str]]()
PROBLEMS = pytest.StashKey[list[str]]()
WORKER_KEY = "invariant_tags"


def pytest_addoption(parser: pytest.Parser) -> None:
    """Adds the option."""
    parser.addoption(
        "--check-invariants", action="store_true", help="fail when a due invariant has no test (whole suite only)"
    )


def pytest_configure(config: pytest.Config) -> None:
    """Registers the marker and starts with no tags."""
    config.addinivalue_line("markers", "invariant(id): this test holds the invariant of that id (tests/invariants.py)")
    config.stash[TAGS] = set()
    config.stash[PROBLEMS] = []


def pytest_itemcollected(item: pytest.Item) -> None:
    """Notes the tags of a test."""
    item.config.stash[TAGS].update(str(tag) for mark in item.iter_markers("invariant") for tag in mark.args or ("",))


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: Any) -> None:
    """Takes over what a pytest-xdist worker has noted."""
    node.config.stash[TAGS].update(getattr(node, "workeroutput", {}).get(WORKER_KEY, ()))


def pytest_sessionfinish(session: pytest.Session) -> None:
    """Fails a run that passed although tests and manifest disagree; a worker only hands its tags on."""
    config = session.config
    tags: set[str] = config.stash[TAGS]
    if hasattr(config, "workeroutput"):
        config.workeroutput[WORKER_KEY] = sorted(tags)
        return
    whole = config.getoption("--check-invariants") and config.args_source is pytest.Config.ArgsSource.TESTPATHS
    config.stash[PROBLEMS] = find_problems(tags, INVARIANTS, whole=whole)
    if config.stash[PROBLEMS] and session.exitstatus == pytest.ExitCode.OK:
        session.exitstatus = pytest.ExitCode.TESTS_FAILED


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    """Says what does not agree."""
    if config.stash[PROBLEMS]:
        terminalreporter.section("invariants", red=True)
        for problem in config.stash[PROBLEMS]:
            terminalreporter.line(problem)


def find_problems(tags: Iterable[str], manifest: Sequence[Invariant], *, whole: bool) -> list[str]:
    """Where tags and manifest disagree, in sentences; `whole` also looks for due invariants without a test."""
    tagged, known = set(tags), {invariant.id for invariant in manifest}
    problems = [f"a test is tagged {tag!r}, which is no invariant" for tag in sorted(tagged - known)]
    if whole:
        untested = (item for item in manifest if item.due and item.id not in tagged)
        problems += [f"no test is tagged {item.id}: {item.sentence}" for item in untested]
    return problems
