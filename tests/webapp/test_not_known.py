"""The database goes away in the very COMMIT of an answer: the page claims nothing, and shows the truth once it can."""

from collections.abc import Iterator
from html import unescape
from pathlib import Path
from typing import Any

import pytest

from agent.commit import commit_turn
from agent.outcome import Ending
from memory_core.errors import CommitUnknown, StorageFailed
from tests.fakes.model_server import ModelServer, finish, serve_in_thread, text, tool
from tests.webapp.product import Product, running_product
from webapp import words

ENTRY = "Likes green tea."


@pytest.fixture
def model() -> Iterator[ModelServer]:
    with serve_in_thread() as server:
        yield server


@pytest.fixture
def product(database_url: str, tmp_path: Path, model: ModelServer) -> Iterator[Product]:
    with running_product(database_url, tmp_path, model.base_url) as product:
        yield product


def commit_and_lose(*arguments: Any, **named: Any) -> Ending:
    """It is done, and nobody hears of it."""
    commit_turn(*arguments, **named)
    raise CommitUnknown


def away(*arguments: Any, **named: Any) -> Any:
    raise StorageFailed


@pytest.mark.invariant("I22")
def test_an_answer_whose_commit_is_not_known_is_asked_for_again(
    product: Product, model: ModelServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Neither *Saved* nor *Not saved* is said; the answer asks for itself, and then says *Saved*."""
    ada = product.sign_in("ada")
    model.play(text("Hello."), finish("stop"))
    chat = ada.say("Hello").started["conversationId"]
    operations = [{"target": "user", "action": "add", "content": ENTRY}]
    model.play(tool("memory_update", {"operations": operations}), finish("tool_calls"))
    model.play(text("Noted."), finish("stop"))
    with monkeypatch.context() as broken:
        broken.setattr("agent.turn_desk.commit_turn", commit_and_lose)
        broken.setattr("agent.turn_desk.LEARN_SECONDS", 0.0)
        for user in ("agent.turn_desk", "agent.discard"):
            broken.setattr(f"{user}.transaction", away)
        broken.setattr("webapp.live_turn.read_chat", away)
        said = ada.say("I like green tea", chat)

    end = unescape(said.body[said.body.rindex('<hx-partial hx-target="#turn-') :])
    assert said.ended["outcome"] == "running"
    assert words.NOT_KNOWN in end
    assert "saved" not in end.lower()
    turn = f"/chats/{chat}/turns/{said.started['turnId']}"
    assert f'hx-get="{turn}"' in end
    assert "Saved" in unescape(ada.get(turn).text)
    assert ENTRY in ada.memory_page()
