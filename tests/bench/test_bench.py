"""The bench works: each part runs, tiny, and brings figures. How fast anything is, no test says."""

from collections.abc import Iterator

import pytest

from tests.bench import measures, table
from tests.bench.commits import WAYS
from tests.bench.loops import run
from tests.bench.measures import APPLICATION, BARE, MODEL, RELAY, WITH_DATABASE, Amount, Notes
from tests.bench.model import TEXT, Wish, events, pieces, wish_of
from tests.bench.processes import Cores
from tests.bench.run import Site, open_site

TINY = Amount(
    streams=2,
    tokens=5,
    delay_seconds=0.001,
    answers_alone=5,
    answers_paced=1,
    answers_saturated=1,
    held=2,
    commit_seconds=0.01,
    rounds=1,
)


@pytest.fixture(scope="module")
def site() -> Iterator[Site]:
    """Model, relay, application and database, running."""
    with open_site(Cores.chosen(), people=2, durable=False) as site:
        yield site


@pytest.mark.postgres
@pytest.mark.slow
class TestParts:
    """Each part of the bench against the running site."""

    def test_first_words_are_heard_from_everybody(self, site: Site) -> None:
        """One client, three servers, an old chat and a new one."""
        notes = Notes()
        run(measures.first_text_alone(site.targets, TINY, notes))
        assert set(notes.figures) == {
            (measure, whose)
            for measure in (measures.FIRST_NEXT, measures.FIRST_NEW)
            for whose in (MODEL, RELAY, APPLICATION)
        }
        assert not notes.problems

    def test_a_load_brings_the_cost_of_every_process(self, site: Site) -> None:
        """Paced and saturated; every answer arrives whole."""
        notes = Notes()
        run(measures.paced(site.targets, TINY, notes))
        run(measures.saturated(site.targets[1:], TINY, notes))
        for measure in (measures.CPU_PACED, measures.CPU_SATURATED):
            assert {whose for name, whose in notes.figures if name == measure} >= {RELAY, APPLICATION, WITH_DATABASE}
        assert not notes.problems

    def test_streams_are_held_open_and_let_go(self, site: Site) -> None:
        """All of them say their first words and stay."""
        notes = Notes()
        run(measures.held_open(site.application, TINY, notes))
        assert (measures.MEMORY, APPLICATION) in notes.figures
        assert not notes.problems

    def test_a_stream_that_is_cut_is_a_problem(self, site: Site) -> None:
        """An answer that is not whole is counted, and its tokens are not."""
        notes = Notes()
        target = measures.the_application(
            site.application.address, site.application.pid, site.database.pid, [measures.NOBODY]
        )
        run(measures.paced([target], TINY, notes))
        assert notes.problems == {f"{measures.CPU_PACED}, {APPLICATION}: status 401": TINY.streams}

    def test_commits_are_counted_each_way(self, site: Site) -> None:
        """With eight people and with one."""
        notes = Notes()
        measures.commits(site.database.url, site.cores.server, TINY, notes)
        for measure in measures.COMMITS:
            assert notes.figures[measure, APPLICATION][0] > 0
            assert notes.figures[measure, BARE][0] > 0


def test_the_table_shows_ratios_round_by_round() -> None:
    """The ratio is the median of the rounds' ratios, with the model's own time taken off first words."""
    notes = Notes()
    for model, relay, ours in ((1.0, 3.0, 4.0), (1.0, 2.0, 4.0), (1.0, 5.0, 5.0)):
        notes.note(measures.FIRST_NEXT, MODEL, model)
        notes.note(measures.FIRST_NEXT, RELAY, relay)
        notes.note(measures.FIRST_NEXT, APPLICATION, ours)
    head, line = table.lines(notes)
    assert "ratio" in head
    assert "1.50" in line
    assert "(1.00–3.00)" in line
    assert "yes, ≤ 2" in line


def test_the_model_sends_what_is_wished_for() -> None:
    """So many pieces of the text; the call only where tools are offered, and only before their result."""
    ask = {"role": "user", "content": 'tokens=3 delay=0.5 first=1 call={"operations": []}'}
    assert wish_of({"messages": [ask]}) == Wish(3, 0.5, 1.0, None)
    assert wish_of({"messages": [ask], "tools": [{}]}).call == '{"operations": []}'
    assert wish_of({"messages": [ask, {"role": "tool"}], "tools": [{}]}).call is None
    assert len(list(events(Wish(3, 0, 0, None), 1, has_usage=True))) == 7
    assert "".join(pieces(7)) == TEXT.replace("NUMBER", "000007")


def test_every_way_of_committing_is_measured() -> None:
    """The table has a row for each but the one they are compared with."""
    assert {measure.partition(" ")[0] for measure in measures.COMMITS} == set(WAYS) - {"bare"}
