"""Sessions over HTTP, and that they are the chats of the browser."""

from html import unescape

from sqlalchemy import text as sql

from tests.fakes.model_server import Gate, ModelServer, finish, gate, text
from tests.webapp.api.calling import caller
from tests.webapp.api.test_agents import whole_list
from tests.webapp.api.test_memory import talk_in_background
from tests.webapp.product import Product
from tests.webapp.waiting import until


def test_a_session_is_a_chat_of_the_browser(product: Product, model: ModelServer) -> None:
    """What a program opened and said is on the person's page, and what the person says there comes back here."""
    me, ada = caller(product), product.sign_in("ada")
    model.play(text("From the program."), finish("stop"))
    session = me.open_session("ada")
    assert ada.get(f"/chats/{session}").status_code == 200
    me.say(session, "Said by a program")
    page = unescape(ada.get(f"/chats/{session}").text)
    assert "Said by a program" in page
    assert "From the program." in page
    model.play(text("From the page."), finish("stop"))
    ada.say("Said on the page", session)
    told = me.ok("GET", f"/v1/sessions/{session}/messages")["data"]
    assert [(each["role"], each["content"]) for each in told] == [
        ("user", "Said by a program"),
        ("assistant", "From the program."),
        ("user", "Said on the page"),
        ("assistant", "From the page."),
    ]
    model.play(text("Hello."), finish("stop"))
    ada.say("A chat of my own")
    titles = [each["title"] for each in me.ok("GET", "/v1/sessions")["data"]]
    assert titles == ["A chat of my own", "Said by a program"]


def test_a_session_is_renamed_and_keeps_its_place(product: Product) -> None:
    """PATCH changes the title and nothing else."""
    me = caller(product)
    made = me.ok("POST", "/v1/sessions", {"agentId": me.agent_id, "subjectId": "ada"})
    assert (made["title"], made["agentVersion"], made["subjectId"]) == ("", 1, "ada")
    changed = me.ok("PATCH", f"/v1/sessions/{made['id']}", {"title": "About tea"})
    assert changed == {**made, "title": "About tea"}
    assert me.ok("GET", f"/v1/sessions/{made['id']}") == changed
    for body in ({}, {"title": " "}, {"title": "x" * 201}, {"title": "a\0"}, {"title": "x", "agentId": "y"}):
        assert me.call("PATCH", f"/v1/sessions/{made['id']}", body).status_code == 422


def test_sessions_and_messages_come_in_parts(product: Product, model: ModelServer) -> None:
    """Newest session first, oldest message first, each once."""
    me = caller(product)
    made = [me.open_session("ada" if number % 2 else "eve") for number in range(5)]
    assert whole_list(me, "/v1/sessions", 2) == made[::-1]
    model.choose = lambda request: (text("Hello."), finish("stop"))
    for number in range(3):
        me.say(made[0], f"Message {number}")
    said = whole_list(me, f"/v1/sessions/{made[0]}/messages", 2, "content")
    assert said == ["Message 0", "Hello.", "Message 1", "Hello.", "Message 2", "Hello."]


def test_a_session_is_deleted_with_all_that_was_said(product: Product, model: ModelServer) -> None:
    """204, and it is gone from the browser too; memory and other sessions stay."""
    me, ada = caller(product), product.sign_in("ada")
    me.seed("ada", "Knows SQL.")
    session, other = me.open_session("ada"), me.open_session("ada")
    model.play(text("Hello."), finish("stop"))
    turn = me.say(session, "Hello")["turnId"]
    assert me.call("DELETE", f"/v1/sessions/{session}").status_code == 204
    for path in (f"/v1/sessions/{session}", f"/v1/sessions/{session}/messages", f"/v1/turns/{turn}"):
        assert me.call("GET", path).status_code == 404
    assert me.call("DELETE", f"/v1/sessions/{session}").status_code == 404
    assert ada.get(f"/chats/{session}").status_code == 404
    assert [each["id"] for each in me.ok("GET", "/v1/sessions")["data"]] == [other]
    assert me.ok("GET", me.memory_path("ada"))["stores"][0]["entries"] == ["Knows SQL."]


def test_deleting_a_session_stops_what_runs_in_it(product: Product, model: ModelServer) -> None:
    """The model's stream is closed, and nothing is left to be recorded for ever."""
    me = caller(product)
    session = me.open_session("ada")
    model.play(text("It is half "), gate(Gate()))
    answers = talk_in_background(me, session)
    model.wait_reached(open=1)
    assert me.call("DELETE", f"/v1/sessions/{session}").status_code == 204
    model.wait_reached(open=0)
    until(lambda: bool(answers) and product.services.running.ids == ())
    assert answers[0].status_code in (200, 404)
    assert product.services.running.desk.unrecorded == {}
    with product.services.engine.begin() as connection:
        assert connection.execute(sql("SELECT count(*) FROM remembrancer.turns")).scalar() == 0


def test_a_session_deleted_under_a_running_turn_leaves_nothing_unrecorded(product: Product, model: ModelServer) -> None:
    """Its row goes without a stop before, as when another turn began in between: the runner finds nothing to keep."""
    me = caller(product)
    session = me.open_session("ada")
    go_on = Gate()
    model.play(text("It is half "), gate(go_on), text("done."), finish("stop"))
    answers = talk_in_background(me, session)
    model.wait_reached(open=1)
    until(lambda: product.services.running.ids != ())
    with product.services.engine.begin() as connection:
        connection.execute(sql("DELETE FROM remembrancer.conversations"))
    go_on.open()
    until(lambda: bool(answers) and product.services.running.ids == ())
    assert (answers[0].status_code, answers[0].json()["outcome"]) == (200, "failed")
    assert product.services.running.desk.unrecorded == {}


def test_cancelling_stops_the_turn_and_keeps_its_text(product: Product, model: ModelServer) -> None:
    """Both sides tell the same: stopped, with the text so far, nothing saved. A second time there is nothing to do."""
    me = caller(product)
    session = me.open_session("ada")
    model.play(text("It is half "), gate(Gate()))
    answers = talk_in_background(me, session)
    model.wait_reached(open=1)
    until(lambda: product.services.running.ids != ())
    cancelled = me.ok("POST", f"/v1/sessions/{session}/cancel")
    assert cancelled["cancelled"] is True
    until(lambda: bool(answers))
    told = answers[0].json()
    assert (told["turnId"], told["outcome"], told["text"]) == (cancelled["turnId"], "stopped", "It is half ")
    turn = me.ok("GET", f"/v1/turns/{cancelled['turnId']}")
    assert (turn["outcome"], turn["text"], turn["memory"]["outcome"]) == ("stopped", "It is half ", "none")
    assert me.ok("POST", f"/v1/sessions/{session}/cancel") == {"turnId": None, "cancelled": False}
