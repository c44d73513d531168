"""/metrics: counted by codes, for whoever may ask, also over several processes; no word and no id in it."""

import subprocess
import sys
from pathlib import Path

import httpx2
import pytest

from agent.metrics import FOLDER_VARIABLE
from tests.fakes.model_server import ModelServer, finish, text, tool
from tests.webapp.product import Product, running_product

SENTINEL = "zebra-quartz-5171"
ENDED = 'remembrancer_turns_total{memory_outcome="committed",outcome="completed"}'


def ask(product: Product, **headers: str) -> httpx2.Response:
    return httpx2.get(f"{product.url}/metrics", headers=headers, trust_env=False)


def value(exposition: str, name: str) -> float:
    found = [line.split()[-1] for line in exposition.splitlines() if line.startswith(f"{name} ")]
    return float(found[0]) if found else 0.0


@pytest.mark.invariant("I31")
def test_a_turn_is_counted_by_its_codes(product: Product, model: ModelServer) -> None:
    """One more of its kind, with its tokens; neither what was said and saved nor who said it stands anywhere."""
    before = ask(product).text
    batch = {"operations": [{"target": "user", "action": "add", "content": SENTINEL}]}
    model.play(tool("memory_update", batch), finish("tool_calls"))
    model.play(text(SENTINEL), finish("stop"))
    product.sign_in("ada-sentinel").say(SENTINEL)
    after = ask(product)
    assert after.headers["content-type"].startswith("text/plain; version=0.0.4")
    assert value(after.text, ENDED) == value(before, ENDED) + 1
    assert value(after.text, "remembrancer_turn_seconds_count") == value(before, "remembrancer_turn_seconds_count") + 1
    for word in (SENTINEL, "ada-sentinel", "trn_", "agt_", "own_"):
        assert word not in after.text


@pytest.mark.parametrize("header", ["x-forwarded-for", "forwarded", "via", "x-real-ip"])
def test_without_a_token_nobody_asks_through_a_proxy(product: Product, header: str) -> None:
    """A proxy on the same machine would make everybody look near; its header gives it away."""
    assert ask(product).status_code == 200
    assert ask(product, **{header: "203.0.113.9"}).status_code == 404


def test_with_a_token_it_is_the_token_that_counts(database_url: str, tmp_path: Path) -> None:
    """From wherever it is asked."""
    with running_product(database_url, tmp_path, environ={"REMEMBRANCER_METRICS_TOKEN": "secret-token"}) as product:
        assert ask(product).status_code == 404
        assert ask(product, authorization="Bearer wrong").status_code == 404
        told = ask(product, authorization="Bearer secret-token", **{"x-forwarded-for": "203.0.113.9"})
        assert told.status_code == 200


def test_the_numbers_of_several_processes_are_added_up(tmp_path: Path) -> None:
    """Two processes count a turn each; whichever is asked tells of two."""
    count = (
        "from agent import metrics; import sys;"
        "metrics.turn_ended('completed', 'committed', seconds=1, first_token_ms=5, input_tokens=3, output_tokens=None);"
        "sys.stdout.write(metrics.exposition(shared=True).decode())"
    )
    told = [
        subprocess.run(
            [sys.executable, "-c", count],
            env={FOLDER_VARIABLE: str(tmp_path)},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for _ in range(2)
    ]
    assert [value(each, ENDED) for each in told] == [1, 2]
    assert value(told[1], 'remembrancer_tokens_total{kind="input"}') == 6
