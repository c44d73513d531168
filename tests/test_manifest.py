"""The manifest of invariants and the plugin that checks it: shown to pass what agrees and to bite what does not."""

from pathlib import Path

import pytest

from tests import manifest_plugin
from tests.invariants import INVARIANTS, Invariant
from tests.manifest_plugin import find_problems

pytest_plugins = "pytester"

MANIFEST = (
    Invariant("X01", "Water is wet.", "+"),
    Invariant("X02", "Fire is hot.", "D"),
    Invariant("X03", "Pigs fly.", "H", due=False),
)
SUITE = """
import pytest

@pytest.mark.invariant("X01")
def test_water(): pass

@pytest.mark.invariant("{tag}")
def test_other(): pass
"""


def test_the_manifest_is_complete_and_in_order() -> None:
    """I01 to I40 once each, every one with a sentence and a source."""
    assert sorted(item.id for item in INVARIANTS) == [f"I{number:02}" for number in range(1, 41)]
    assert all(item.sentence.endswith(".") or item.sentence.endswith(")") for item in INVARIANTS)
    assert {item.source for item in INVARIANTS} == {"D", "D+", "H", "+"}


@pytest.mark.parametrize(
    ("tags", "whole", "problems"),
    [
        ({"X01", "X02"}, True, []),
        ({"X01", "X02", "X03"}, True, []),
        ({"X01"}, True, ["no test is tagged X02: Fire is hot."]),
        ({"X01"}, False, []),
        ({"X01", "X02", "X99"}, True, ["a test is tagged 'X99', which is no invariant"]),
        ({"", "X01"}, False, ["a test is tagged '', which is no invariant"]),
        (set(), True, ["no test is tagged X01: Water is wet.", "no test is tagged X02: Fire is hot."]),
    ],
)
def test_tags_and_manifest_are_compared_both_ways(tags: set[str], whole: bool, problems: list[str]) -> None:
    """An unknown tag is always a problem, a due invariant without a tag in a whole run, a later one never."""
    assert find_problems(tags, MANIFEST, whole=whole) == problems


@pytest.mark.parametrize(
    ("tag", "arguments", "code", "line"),
    [
        ("X02", ["--check-invariants"], 0, None),
        ("X02", ["--check-invariants", "-k", "water"], 0, None),
        ("X01", ["--check-invariants"], 1, "no test is tagged X02: Fire is hot."),
        ("X01", [], 0, None),
        ("X01", ["--check-invariants", "tests"], 0, None),
        ("X99", [], 1, "a test is tagged 'X99', which is no invariant"),
        ("X99", ["tests"], 1, "a test is tagged 'X99', which is no invariant"),
    ],
)
def test_a_run_fails_exactly_when_they_disagree(
    pytester: pytest.Pytester,
    monkeypatch: pytest.MonkeyPatch,
    tag: str,
    arguments: list[str],
    code: int,
    line: str | None,
) -> None:
    """With the whole suite, with tests left out by -k, with a path named, and with a tag that means nothing."""
    monkeypatch.setattr(manifest_plugin, "INVARIANTS", MANIFEST)
    pytester.makeini("[pytest]\ntestpaths = tests\naddopts = --strict-markers")
    (pytester.mkdir("tests") / "test_made_up.py").write_text(SUITE.format(tag=tag))
    result = pytester.runpytest("-p", "tests.manifest_plugin", *arguments)
    assert result.ret == code
    if line is not None:
        result.stdout.fnmatch_lines(["*= invariants =*", line])


def test_a_failing_run_keeps_its_own_status(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> None:
    """A run that was interrupted or broken is not turned into an ordinary failure."""
    monkeypatch.setattr(manifest_plugin, "INVARIANTS", MANIFEST)
    pytester.makepyfile("import no_such_module_anywhere")
    assert pytester.runpytest("-p", "tests.manifest_plugin").ret == pytest.ExitCode.INTERRUPTED


def test_workers_of_xdist_report_their_tags(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> None:
    """In a parallel run, over the real manifest: the tag it meets is known, the ones it does not meet are missing."""
    monkeypatch.setenv("PYTHONPATH", str(Path(__file__).parent.parent))
    pytester.makeini("[pytest]\ntestpaths = suite")
    (pytester.mkdir("suite") / "test_made_up.py").write_text(SUITE.format(tag="I01"))
    result = pytester.runpytest_subprocess(
        "-p", "xdist", "-p", "tests.manifest_plugin", "-n", "2", "--check-invariants", timeout=120
    )
    assert result.ret == 1
    result.stdout.fnmatch_lines(["*= invariants =*", "a test is tagged 'X01', which is no invariant"])
    assert "no test is tagged I02" in result.stdout.str()
    assert "no test is tagged I01" not in result.stdout.str()
