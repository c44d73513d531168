"""The table of faults, row by row, through the whole product."""

from collections.abc import Iterator
from html import unescape
from pathlib import Path

import pytest

from tests.fakes.model_server import ModelServer
from tests.webapp.faults import FAULTS, STAGES, Fault, faults_table
from tests.webapp.product import Product, running_product

DOCUMENT = Path(__file__).parents[2] / "docs" / "faults.md"


@pytest.fixture
def product(database_url: str, tmp_path: Path, model: ModelServer) -> Iterator[Product]:
    short = {"REMEMBRANCER_FIRST_TOKEN_SECONDS": "1", "REMEMBRANCER_STALL_SECONDS": "1"}
    with running_product(database_url, tmp_path, model.base_url, short) as product:
        yield product


@pytest.mark.invariant("I21")
@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.name)
def test_each_fault_ends_as_the_table_says(product: Product, model: ModelServer, fault: Fault) -> None:
    """The turn's outcome, memory's outcome, and the words a reload shows; and what is stored agrees with all of
    them.
    """
    ada = product.sign_in("ada")
    model.play(*STAGES)
    model.play(*fault.script)
    if fault.name.startswith("an empty answer"):
        model.play(*fault.script)  # it is asked once more
    said = ada.say("I like green tea")
    assert (said.ended["outcome"], said.ended["memory"]) == (fault.outcome, fault.memory)
    page = unescape(ada.get(f"/chats/{said.started['conversationId']}").text)
    assert fault.says in page
    assert fault.receipt in page
    assert ("Likes green tea." in ada.memory_page()) is (fault.outcome == "completed")
    model.play(*FAULTS[-1].script)
    assert ada.say("And now?", said.started["conversationId"]).ended["outcome"] == "completed"


def test_the_document_is_the_table() -> None:
    """What ``docs/faults.md`` shows is what these tests check."""
    assert faults_table() in DOCUMENT.read_text(encoding="utf-8")
