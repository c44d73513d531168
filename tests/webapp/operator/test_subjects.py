"""Subjects by page: sizes and counts without a word, exact search, and erasing somebody for good."""

import threading
from html import unescape

import pytest
import sqlalchemy as sa

from agent.subjects import Subject, list_subjects
from memory_core.database.tables import agent_memory, audit_log, metadata, owners, web_sessions
from memory_core.database.transaction import transaction
from memory_core.document import LIMITS, Target
from memory_core.owner import Owner
from memory_core.seeding import seed_memory
from tests.database import make_organization, rows
from tests.fakes.model_server import ModelServer, finish, gate, text, tool
from tests.webapp.product import Product

SENTINEL = "Keeps a heron in the third pond. 🪿"
ADD = {"operations": [{"target": "user", "action": "add", "content": SENTINEL}]}


def play_saving(model: ModelServer) -> None:
    model.play(tool("memory_update", ADD), finish("tool_calls"))
    model.play(text("Noted."), finish("stop"))


def owner_id(product: Product, subject: str) -> str:
    [row] = rows(product.services.engine, sa.select(owners.c.id).where(owners.c.subject == subject))
    return str(row["id"])


def rows_of(product: Product, owner: str) -> set[str]:
    """The tables with a row that holds this owner's id."""
    found = set()
    with product.services.engine.connect() as connection:
        for table in metadata.sorted_tables:
            for name in ("owner_id", "user_id"):
                if name in table.c and connection.execute(sa.select(table).where(table.c[name] == owner)).first():
                    found.add(table.name)
    return found


@pytest.mark.invariant("I10")
def test_sizes_are_the_rules_and_words_are_nowhere(product: Product, model: ModelServer) -> None:
    """What the list and the page tell is what the person's own page counts; neither shows a word."""
    play_saving(model)
    product.sign_in("ada").say("I keep a heron")
    operator = product.sign_in("operator")
    for path in ("/operator/subjects", f"/operator/subjects/{owner_id(product, 'ada')}"):
        page = unescape(operator.get(path).text)
        assert f"{len(SENTINEL)}" in page
        assert "heron" not in page
    [found] = [s for s in _listed(product) if s.subject == "ada"]
    assert found.sizes == {Target.USER: len(SENTINEL), Target.MEMORY: 0}
    assert found.conversations == 1


def test_a_document_of_a_newer_release_has_no_size(product: Product, model: ModelServer) -> None:
    """It is told as unavailable, not as empty."""
    play_saving(model)
    product.sign_in("ada").say("I keep a heron")
    with product.services.engine.begin() as connection:
        connection.execute(sa.update(agent_memory).values(schema_version=99))
    page = product.sign_in("operator").get("/operator/subjects").text
    assert "Unavailable" in page
    assert f"– / {LIMITS[Target.USER]:,}" in page


def test_search_takes_the_beginning_letter_by_letter(product: Product) -> None:
    """Capitals matter, and signs that a pattern would know are only signs."""
    for subject in ("ada", "Ada", "a_b", "axb", "a%", "50%"):
        _seed(product, subject)
    shown = {prefix: {s.subject for s in _listed(product, prefix)} for prefix in ("ad", "A", "a_", "a%", "%", "")}
    assert shown["ad"] == {"ada"}
    assert shown["A"] == {"Ada"}
    assert shown["a_"] == {"a_b"}
    assert shown["a%"] == {"a%"}
    assert shown["%"] == set()
    assert len(shown[""]) == 6
    page = product.sign_in("operator").get("/operator/subjects?q=zz").text
    assert "No subject of this agent begins with" in page


def test_the_list_goes_on_where_it_stopped(product: Product) -> None:
    """Fifty a page, each exactly once, and the last page says so."""
    for number in range(53):
        _seed(product, f"s{number:02}")
    operator = product.sign_in("operator")
    first = unescape(operator.get("/operator/subjects").text)
    more = first.split('href="/operator/subjects?')[1].split('"')[0]
    second = unescape(operator.get(f"/operator/subjects?{more}").text)
    assert (first.count('scope="row"'), second.count('scope="row"')) == (50, 3)
    assert ">s49<" in first
    assert ">s50<" in second
    assert "More subjects" not in second


@pytest.mark.invariant("I26")
def test_another_organizations_subject_does_not_exist(product: Product) -> None:
    """Neither its page, nor its list, nor its erasure."""
    engine = product.services.engine
    other = make_organization(engine, "other")
    entries = {Target.USER: ["Theirs."]}
    transaction(engine, lambda unit: seed_memory(unit, entries), owner=other.owner("mallory"), create_owner=True)
    operator, theirs = product.sign_in("operator"), owner_id(product, "mallory")
    assert operator.get(f"/operator/subjects/{theirs}").status_code == 404
    assert operator.get(f"/operator/subjects?agent={other.agent_id}").status_code == 404
    erased = operator.post_form(f"/operator/subjects/{theirs}/erasures", {"confirmation": "mallory"}, script=False)
    assert erased.status_code == 404
    assert "mallory" not in operator.get("/operator/subjects").text
    assert rows_of(product, theirs)


def test_without_the_typed_subject_nothing_is_erased(product: Product) -> None:
    """Something else, the wrong case, nothing: 422 in words."""
    _seed(product, "b.okafor")
    operator, who = product.sign_in("operator"), owner_id(product, "b.okafor")
    for typed in ("", "B.Okafor", "erase"):
        answer = operator.post_form(f"/operator/subjects/{who}/erasures", {"confirmation": typed}, script=False)
        assert answer.status_code == 422
        assert "Nothing was erased." in answer.text
    assert rows_of(product, who)


@pytest.mark.invariant("I35")
@pytest.mark.invariant("I39")
def test_an_erased_subject_is_gone_in_the_middle_of_an_answer(product: Product, model: ModelServer) -> None:
    """Their turn stops, nothing brings them back, no row holds their id, and their sign-in is over."""
    play_saving(model)
    ada, operator = product.sign_in("ada"), product.sign_in("operator")
    ada.say("I keep a heron")
    who, go_on, said = owner_id(product, "ada"), threading.Event(), []
    model.play(tool("memory_update", ADD), finish("tool_calls"))
    model.play(text("It is half "), gate(go_on), text("whole."), finish("stop"))
    talking = threading.Thread(target=lambda: said.append(ada.say("And two more")))
    talking.start()
    model.wait_reached(open=1)
    answer = operator.post_form(f"/operator/subjects/{who}/erasures", {"confirmation": "ada"}, script=False)
    assert answer.status_code == 200
    assert "Erased a subject" in " ".join(unescape(answer.text).split())
    go_on.set()
    talking.join(20)
    assert rows_of(product, who) == set()
    assert rows(product.services.engine, sa.select(owners).where(owners.c.subject == "ada")) == []
    assert rows(product.services.engine, sa.select(web_sessions).where(web_sessions.c.subject == "ada")) == []
    assert ada.step("/chats").status_code == 303
    [line] = rows(product.services.engine, sa.select(audit_log))
    assert (line["action"], line["owner_id"], line["detail"]) == ("subject_erased", None, {})


def test_an_operator_can_erase_themselves_and_leaves_no_name(product: Product) -> None:
    """The log keeps that somebody was erased; that page is the last they see signed in."""
    _seed(product, "operator")
    operator, who = product.sign_in("operator"), owner_id(product, "operator")
    answer = operator.post_form(f"/operator/subjects/{who}/erasures", {"confirmation": "operator"}, script=False)
    assert "/sign-in" in str(answer.url)
    assert {line["actor"] for line in rows(product.services.engine, sa.select(audit_log))} == {None}


def _seed(product: Product, subject: str) -> None:
    owner = make_owner(product, subject)
    entries = {Target.USER: ["A fact."]}
    transaction(product.services.engine, lambda unit: seed_memory(unit, entries), owner=owner, create_owner=True)


def make_owner(product: Product, subject: str) -> Owner:
    return Owner(product.services.organization.id, product.services.organization.default_agent_id, subject)


def _listed(product: Product, prefix: str = "") -> tuple[Subject, ...]:
    organization = product.services.organization
    with product.services.engine.connect() as connection:
        return list_subjects(connection, organization.id, organization.default_agent_id, prefix=prefix)
