"""A person's way through the product, over real HTTP: sign in, say something, see what is remembered, take it back."""

import pytest

from tests.fakes.model_server import ModelServer, finish, text, tool
from tests.webapp.product import Product

ADD_TEA = {"operations": [{"target": "user", "action": "add", "content": "Likes green tea."}]}


def play_a_saved_turn(model: ModelServer) -> None:
    model.play(tool("memory_update", ADD_TEA), finish("tool_calls"))
    model.play(text("Noted."), finish("stop"))


@pytest.mark.invariant("I22")
def test_what_a_turn_saved_is_on_the_memory_page_and_can_be_undone(product: Product, model: ModelServer) -> None:
    """Waiting, then Saved with the exact words; on the memory page; and gone again after Undo, which says so."""
    ada = product.sign_in("ada")
    play_a_saved_turn(model)
    said = ada.say("I like green tea")
    assert said.ended == {**said.ended, "outcome": "completed", "memory": "committed"}
    assert said.body.index("Waiting for the answer") < said.body.index(">Saved<")
    assert "Likes green tea." in ada.memory_page()
    receipt = said.body.split('name="receipt" value="')[1].split('"')[0]
    undone = ada.post_form("/memory/undos", {"receipt": receipt, "place": "side"})
    assert undone.status_code == 200
    assert "Undone" in undone.text
    assert "Likes green tea." not in ada.memory_page().split('id="panel"')[1]


@pytest.mark.invariant("I12")
def test_a_turn_without_script_runs_to_its_end_and_redirects(product: Product, model: ModelServer) -> None:
    """A plain form works: the answer is on the page it leads to, and a bad end saves nothing there either."""
    ada = product.sign_in("ada")
    model.play(tool("memory_update", ADD_TEA), finish("tool_calls"))
    model.play(text("It goes on and"), finish("length"))
    page = ada.post_form("/chats", {"message": "I like green tea", "key": "k"}, script=False)
    assert page.status_code == 200
    assert "It goes on and" in page.text
    assert "Too long." in page.text
    assert "Not saved" in page.text
    assert "Likes green tea." not in ada.memory_page()


@pytest.mark.invariant("I24")
def test_a_double_send_is_one_message(product: Product, model: ModelServer) -> None:
    """The same key and message again runs no model and leads to the conversation that there is."""
    ada = product.sign_in("ada")
    model.play(text("Hello."), finish("stop"))
    first = ada.say("Hello", key="same")
    again = ada.post_form("/chats", {"message": "Hello", "key": "same"})
    assert again.headers["HX-Redirect"] == f"/chats/{first.started['conversationId']}"
    assert len(model.requests) == 1


@pytest.mark.invariant("I26")
def test_what_is_somebody_elses_is_not_found(product: Product, model: ModelServer) -> None:
    """Another signed-in person and a made-up id get the same answer from every address of a conversation."""
    ada, eve = product.sign_in("ada"), product.sign_in("eve")
    model.play(text("Hello."), finish("stop"))
    said = ada.say("Hello")
    chat, turn = said.started["conversationId"], said.started["turnId"]
    for address in (f"/chats/{chat}", f"/chats/{chat}/turns/{turn}"):
        assert ada.get(address).status_code == 200
        assert eve.get(address).status_code == 404
        assert eve.get(address.replace(chat, "cht_none")).status_code == 404
    assert eve.say("Hello", chat).status == 404
    assert eve.say("", chat, regenerates=turn).status == 404
    assert "Hello." not in eve.get("/chats").text
