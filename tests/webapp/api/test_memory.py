"""Seeding, reading and erasing a subject over HTTP; subjects of every kind in the path."""

import threading
from typing import Any
from urllib.parse import quote

import pytest
from sqlalchemy import text as sql

from memory_core.database.tables import SCHEMA
from memory_core.document import LIMITS, Target
from tests.database import tables_holding
from tests.fakes.model_server import Gate, ModelServer, finish, gate, text
from tests.webapp.api.calling import Caller, caller, new_key
from tests.webapp.product import Product
from tests.webapp.waiting import until
from webapp.auth.api_keys import Scope

RESERVED = "Likes zebras.\n§\nIs an owl."
STRANGE = [
    "a/b",
    "/a/",
    "/",
    "..",
    ".",
    "%",
    "%2F",
    "a b",
    " ",
    "a+b",
    "😀",
    "ä",
    "a\u0308",
    "?#&=",
    "A",
    "a",
    "x" * 255,
]


def audit(product: Product) -> list[tuple[str, Any]]:
    with product.services.engine.begin() as connection:
        rows = connection.execute(sql("SELECT action, detail FROM remembrancer.audit_log ORDER BY id"))
        return [(row.action, row.detail) for row in rows]


def stored(product: Product, table: str) -> int:
    with product.services.engine.begin() as connection:
        return int(connection.execute(sql(f"SELECT count(*) FROM {SCHEMA}.{table}")).scalar_one())


def test_a_seed_is_read_back_as_it_was_written(product: Product) -> None:
    """201 with the whole memory; reading by subject and by id gives the same; each leaves a line without words."""
    me = caller(product)
    made = me.seed("ada", "Knows SQL.", "Prefers metric units.", memory=["The build runs with make."])
    assert made.status_code == 201
    memory = made.json()
    assert me.ok("GET", me.memory_path("ada")) == memory
    assert me.ok("GET", f"/v1/memories/{memory['memoryId']}") == memory
    user, agent = memory["stores"]
    assert (user["store"], user["filename"], user["limit"]) == ("user", "USER.md", LIMITS[Target.USER])
    assert user["entries"] == ["Knows SQL.", "Prefers metric units."]
    assert user["characters"] == len("Knows SQL.\n§\nPrefers metric units.")
    assert (agent["store"], agent["entries"]) == ("memory", ["The build runs with make."])
    assert memory["updatedAt"].endswith("Z")
    assert audit(product) == [("memory_seeded", {"user": 2, "memory": 1}), ("memory_read", {}), ("memory_read", {})]


@pytest.mark.invariant("I29")
def test_a_second_seed_is_refused_and_changes_nothing(product: Product) -> None:
    """409, also after the subject was only talked with, and after everything was forgotten."""
    me = caller(product)
    memory = me.seed("ada", "Knows SQL.").json()
    again = me.seed("ada", "Knows nothing.")
    assert (again.status_code, again.json()["error"]["code"]) == (409, "memory_already_initialized")
    assert me.ok("GET", me.memory_path("ada")) == memory
    me.open_session("eve")
    assert me.seed("eve", "Knows SQL.").status_code == 409
    assert me.ok("GET", me.memory_path("eve"))["stores"][0]["entries"] == []
    ada = product.sign_in("ada")
    assert ada.post_form("/memory/forgettings", {"confirmation": "forget"}).status_code == 200
    assert me.seed("ada", "Knows SQL.").status_code == 409


@pytest.mark.invariant("I29")
def test_signing_in_and_reading_are_no_activity(product: Product) -> None:
    """Somebody who has only looked at their empty pages can still be seeded."""
    ada, me = product.sign_in("ada"), caller(product)
    assert ada.get("/memory").status_code == 200
    me.call("GET", me.memory_path("ada"))
    assert me.seed("ada", "Knows SQL.").status_code == 201
    assert "Knows SQL." in ada.memory_page()


@pytest.mark.parametrize(
    ("body", "document", "index", "code"),
    [
        ({"userMemoryEntries": ["Knows SQL.", RESERVED]}, "user", 1, "entry_reserved"),
        ({"agentMemoryEntries": ["Fine.", "Fine too.", " "]}, "memory", 2, "entry_empty"),
        ({"userMemoryEntries": ["a\0b"]}, "user", 0, "entry_control"),
        ({"userMemoryEntries": ["\ud800"]}, "user", 0, "entry_control"),
        ({"userMemoryEntries": ["A word.", "x" * 1375]}, "user", None, "capacity_exceeded"),
        ({"userMemoryEntries": [], "agentMemoryEntries": []}, None, None, "batch_size"),
        ({}, None, None, "batch_size"),
    ],
)
def test_a_seed_that_does_not_fit_names_the_entry_and_never_its_text(
    product: Product, body: Any, document: str | None, index: int | None, code: str
) -> None:
    """422 with document, index and code; nothing is stored, the owner included."""
    me = caller(product)
    answer = me.call("PUT", me.memory_path("ada"), body)
    error = answer.json()["error"]
    assert (answer.status_code, error["code"]) == (422, "validation_error")
    [problem] = error["problems"]
    assert (problem["document"], problem["index"], problem["code"]) == (document, index, code)
    assert "zebra" not in answer.text
    assert stored(product, "owners") == stored(product, "agent_memory") == stored(product, "audit_log") == 0


@pytest.mark.parametrize(
    ("body", "path", "code"),
    [
        ({"userMemoryEntries": ["Fine."], "subjectId": "eve"}, "subjectId", "unknown_key"),
        ({"userMemoryEntries": ["Fine.", 7]}, "userMemoryEntries[1]", "string_type"),
        ({"userMemoryEntries": "Fine."}, "userMemoryEntries", "list_type"),
        ({"user_memory_entries": ["Fine."]}, "user_memory_entries", "unknown_key"),
        ({"userMemoryEntries": None}, "userMemoryEntries", "list_type"),
    ],
)
def test_a_body_of_another_shape_is_refused_with_the_path(product: Product, body: Any, path: str, code: str) -> None:
    """Unknown keys and wrong types, each with the place where it stands."""
    me = caller(product)
    answer = me.call("PUT", me.memory_path("ada"), body)
    assert answer.status_code == 422
    assert [(each["path"], each["code"]) for each in answer.json()["error"]["problems"]] == [(path, code)]


@pytest.mark.invariant("I25")
def test_every_string_is_a_subject_of_its_own(product: Product) -> None:
    """Slashes, dots, percent signs, white space and emoji are kept letter by letter; what differs is somebody else."""
    me = caller(product)
    made = {}
    for number, subject in enumerate(STRANGE):
        answer = me.seed(subject, f"Is number {number}.")
        assert (answer.status_code, answer.json()["subjectId"]) == (201, subject), answer.text
        made[subject] = answer.json()["memoryId"]
    assert len(set(made.values())) == len(STRANGE)
    for number, subject in enumerate(STRANGE):
        assert me.ok("GET", me.memory_path(subject))["stores"][0]["entries"] == [f"Is number {number}."]
        assert me.ok("GET", f"/v1/memories/{made[subject]}")["subjectId"] == subject
        [session] = [me.open_session(subject)]
        listed = me.ok("GET", f"/v1/sessions?subjectId={quote(subject, safe='')}")["data"]
        assert [each["id"] for each in listed] == [session]
        assert me.call("DELETE", me.memory_path(subject).removesuffix("/memory")).status_code == 204
    assert stored(product, "owners") == 0


def test_a_path_written_without_escapes_that_it_needs_none_of_means_the_same(product: Product) -> None:
    """`ada` and `%61da` are one subject, as URLs have it; dots are a name like any other."""
    me = caller(product)
    me.seed("ada", "Knows SQL.")
    me.seed("..", "Is two dots.")
    users = f"/v1/agents/{me.agent_id}/users"
    assert me.ok("GET", f"{users}/%61da/memory")["subjectId"] == "ada"
    assert me.ok("GET", f"{users}/../memory")["subjectId"] == ".."
    assert me.ok("GET", f"{users}/%2E%2E/memory")["subjectId"] == ".."
    assert me.ok("GET", f"{users}/%61da/%6Demory")["subjectId"] == "ada"


@pytest.mark.parametrize(
    "segment", ["", "%00", "a%00b", "%ED%A0%80", "%FF", "%C3", "%", "100%", "%zz", "x" * 256, quote("ä" * 256)]
)
def test_what_no_subject_can_be_is_refused(product: Product, segment: str) -> None:
    """Nothing, U+0000, a surrogate, no UTF-8, a broken escape, too long: 422, on every call with a subject."""
    me = caller(product)
    path = f"/v1/agents/{me.agent_id}/users/{segment}"
    for method, where, body in (("PUT", "/memory", {"userMemoryEntries": ["Fine."]}), ("GET", "/memory", None)):
        answer = me.call(method, path + where, body)
        assert (answer.status_code, answer.json()["error"]["code"]) == (422, "validation_error")
        assert answer.json()["error"]["problems"][0]["path"] == "subjectId"
    assert me.call("DELETE", path).status_code == 422
    assert stored(product, "owners") == 0


@pytest.mark.parametrize("subject", ["", "a\0b", "\ud800", "x" * 256, 7, None])
def test_a_session_for_what_no_subject_can_be_is_refused(product: Product, subject: Any) -> None:
    """The same in a body."""
    me = caller(product)
    answer = me.call("POST", "/v1/sessions", {"agentId": me.agent_id, "subjectId": subject})
    assert answer.status_code == 422
    assert answer.json()["error"]["problems"][0]["path"] == "subjectId"


def test_nobody_has_no_memory(product: Product) -> None:
    """A subject of whom nothing is stored is not found, and reading makes nobody."""
    me = caller(product)
    assert me.call("GET", me.memory_path("ada")).status_code == 404
    assert stored(product, "owners") == stored(product, "audit_log") == 0


def test_memory_that_cannot_be_read_is_unavailable_and_not_empty(product: Product) -> None:
    """503 with Retry-After, and what is stored stays as it is."""
    me = caller(product)
    me.seed("ada", "Knows SQL.")
    with product.services.engine.begin() as connection:
        connection.execute(sql("UPDATE remembrancer.agent_memory SET schema_version = 99"))
    answer = me.call("GET", me.memory_path("ada"))
    assert (answer.status_code, answer.json()["error"]["code"]) == (503, "memory_unavailable")
    assert int(answer.headers["retry-after"]) > 0


@pytest.mark.invariant("I35")
@pytest.mark.invariant("I39")
def test_erasing_stops_what_runs_and_leaves_no_row(product: Product, model: ModelServer) -> None:
    """The running turn ends, the person is signed out, no table holds their id; others and other agents stay."""
    me, ada = caller(product), product.sign_in("ada")
    other = me.ok("POST", "/v1/agents", {"name": "Other"})["id"]
    me.ok("PUT", f"/v1/agents/{other}/users/ada/memory", {"userMemoryEntries": ["Stays here."]})
    me.seed("eve", "Stays too.")
    model.play(text("Hello."), finish("stop"))
    ada.say("Hello")
    session = me.open_session("ada")
    memory_id = me.ok("GET", me.memory_path("ada"))["memoryId"]
    model.play(text("It is half "), gate(Gate()))
    answers = talk_in_background(me, session)
    model.wait_reached(open=1)
    assert {"owners", "turns", "messages"} <= tables_holding(product.services.engine, memory_id)

    assert me.call("DELETE", me.memory_path("ada").removesuffix("/memory")).status_code == 204

    model.wait_reached(open=0)
    until(lambda: bool(answers) and product.services.running.ids == ())
    assert answers[0].status_code in (200, 404)
    assert tables_holding(product.services.engine, memory_id) == set()
    assert me.call("GET", me.memory_path("ada")).status_code == 404
    assert me.call("GET", f"/v1/sessions/{session}").status_code == 404
    assert me.call("POST", f"/v1/sessions/{session}/messages", {"content": "Back?"}).status_code == 404
    assert stored(product, "owners") == 2
    assert "/sign-in" in str(ada.get("/chats").url)
    assert me.ok("GET", f"/v1/agents/{other}/users/ada/memory")["stores"][0]["entries"] == ["Stays here."]
    assert me.ok("GET", me.memory_path("eve"))["stores"][0]["entries"] == ["Stays too."]
    assert ("subject_erased", {}) in audit(product)
    assert me.call("DELETE", me.memory_path("nobody").removesuffix("/memory")).status_code == 204


def test_erasing_can_be_followed_by_a_new_beginning(product: Product) -> None:
    """Who was erased is a stranger: they can be seeded like anybody else."""
    me = caller(product)
    first = me.seed("ada", "Knows SQL.").json()["memoryId"]
    me.call("DELETE", me.memory_path("ada").removesuffix("/memory"))
    assert me.seed("ada", "Knows Go.").json()["memoryId"] != first


def test_the_audit_log_names_the_key_and_no_words(product: Product) -> None:
    """Who: the key's id. On whom: the memory's id, until they are erased."""
    key = new_key(product, Scope.MEMORY_SEED)
    memory_id = Caller(product, key).seed("ada", "Knows SQL.").json()["memoryId"]
    with product.services.engine.begin() as connection:
        [row] = connection.execute(sql("SELECT * FROM remembrancer.audit_log")).mappings()
    assert (row["actor_kind"], row["actor"], row["owner_id"]) == ("key", key.split("_")[1], memory_id)
    assert "SQL" not in str(dict(row))


def talk_in_background(me: Caller, session: str) -> list[Any]:
    """Send a message from a thread; what comes back is in the list when it is there."""
    answers: list[Any] = []

    def talk() -> None:
        answers.append(me.call("POST", f"/v1/sessions/{session}/messages", {"content": "Hello"}))

    threading.Thread(target=talk, daemon=True).start()
    return answers
