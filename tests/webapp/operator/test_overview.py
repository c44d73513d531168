"""The overview, health and the audit log: numbers that are right, bounded, and nobody's words."""

import re
import secrets
from datetime import UTC, datetime, timedelta
from html import unescape
from typing import Any

import pytest
import sqlalchemy as sa

from agent.outcome import MemoryOutcome, Outcome
from agent.statistics import DAYS, read_statistics
from memory_core.database.migrations import latest_revision
from memory_core.database.tables import audit_log, owners, turns
from memory_core.database.transaction import Unit, transaction
from tests.database import make_organization, rows
from tests.fakes.model_server import ModelServer, finish, text, usage
from tests.webapp.product import Product, Signed
from webapp.audit import Action, ActorKind, Auditor
from webapp.operator_pages import words
from webapp.operator_pages.charts import HEIGHT, nice_top, stacked


def converse(product: Product, model: ModelServer, subject: str = "ada") -> Signed:
    """One turn that ended well."""
    model.play(text("Hello."), usage(90, 7), finish("stop"))
    person = product.sign_in(subject)
    person.say("Hello")
    return person


def copy_turn(product: Product, **changes: object) -> None:
    """Another turn like the one there is, but for these columns."""
    fresh = {"id": f"trn_{secrets.token_hex(8)}", "key_digest": secrets.token_bytes(32), **changes}
    names = [column.name for column in turns.c]
    columns = [sa.literal(fresh[name], turns.c[name].type) if name in fresh else turns.c[name] for name in names]
    with product.services.engine.begin() as connection:
        connection.execute(sa.insert(turns).from_select(names, sa.select(*columns).limit(1)))


def test_days_and_outcomes_are_counted_and_old_ones_left_out(product: Product, model: ModelServer) -> None:
    """Fourteen days, today among them; the fifteenth is gone; tokens are summed."""
    converse(product, model)
    now = datetime.now(UTC)
    first = now.replace(hour=0, minute=0, second=0, microsecond=0) - timedelta(days=DAYS - 1)
    copy_turn(product, started_at=first, outcome="failed", memory_outcome="discarded")
    copy_turn(product, started_at=first - timedelta(seconds=1), outcome="stopped")
    with product.services.engine.connect() as connection:
        found = read_statistics(connection, product.services.organization.id)
    assert len(found.days) == DAYS
    assert [day.date for day in found.days] == [(first + timedelta(days=ago)).date() for ago in range(DAYS)]
    assert found.days[0].outcomes[Outcome.FAILED] == 1
    assert found.days[0].memory_outcomes[MemoryOutcome.DISCARDED] == 1
    assert found.days[-1].outcomes[Outcome.COMPLETED] == 1
    assert (found.turns, found.outcomes[Outcome.STOPPED], found.people) == (2, 0, 1)
    assert (found.input_tokens, found.output_tokens) == (180, 14)


@pytest.mark.invariant("I26")
def test_another_organizations_turns_do_not_count(product: Product, model: ModelServer) -> None:
    """Not in the chart, not in the totals."""
    converse(product, model)
    other = make_organization(product.services.engine, "other")
    with product.services.engine.begin() as connection:
        connection.execute(sa.update(owners).values(organization_id=other.id))
    with product.services.engine.connect() as connection:
        assert read_statistics(connection, product.services.organization.id).turns == 0
        assert read_statistics(connection, other.id).turns == 1


def test_the_days_are_found_by_the_index(product: Product, model: ModelServer) -> None:
    """Of a year of turns both statements read the last days alone."""
    converse(product, model)
    names = [column.name for column in turns.c]
    fresh = {
        "id": sa.literal("trn_") + sa.cast(sa.column("n"), sa.Text),
        "key_digest": sa.func.decode(sa.func.md5(sa.cast(sa.column("n"), sa.Text)), "hex"),
        "started_at": sa.func.now() - sa.func.make_interval(0, 0, 0, 0, sa.column("n")),
    }
    year = sa.func.generate_series(1, 8000).table_valued("n").render_derived()
    wanted = sa.select(*(fresh.get(name, turns.c[name]) for name in names)).select_from(turns.join(year, sa.true()))
    asked: list[tuple[str, Any]] = []
    with product.services.engine.begin() as connection:
        connection.execute(sa.insert(turns).from_select(names, wanted))
        connection.execute(sa.text("ANALYZE remembrancer.turns"))
        sa.event.listen(connection, "before_cursor_execute", lambda *told: asked.append((told[2], told[3])))
        read_statistics(connection, product.services.organization.id)
        plans = [
            "\n".join(connection.exec_driver_sql(f"EXPLAIN {statement}", parameters).scalars())
            for statement, parameters in asked[:2]
        ]
    assert len(plans) == 2
    for plan in plans:
        assert re.search(r"(?:on|using) ix_turns_started.*\n *Index Cond: \(started_at >=", plan), plan


def test_the_page_tells_the_numbers_twice(product: Product, model: ModelServer) -> None:
    """As a picture with a name, and as a table; before anything happened it says so."""
    operator = product.sign_in("operator")
    assert "No turns in the last 14 days." in operator.get("/operator").text
    converse(product, model)
    page = unescape(operator.get("/operator").text)
    assert "The last 14 days, 1 turn. 100 in 100 ended well." in page
    assert page.count('role="img" aria-label="Turns by') == 2
    assert page.count("<details>") == 2
    assert page.count('<th scope="row" class="nowrap">') == 2 * DAYS
    assert 'style="' not in page


@pytest.mark.parametrize(
    ("highest", "top"), [(0, 2), (1, 2), (2, 2), (3, 4), (24, 30), (41, 50), (101, 200), (999, 1000)]
)
def test_a_scale_ends_above_the_highest_bar(highest: int, top: int) -> None:
    """Round, and with a whole number at its half."""
    assert nice_top(highest) == top


def test_what_is_there_is_seen_and_fits() -> None:
    """One turn of a thousand has a height, and no bar leaves the picture."""
    today = datetime.now(UTC).date()
    labels = {name: name.title() for name in "abcd"}
    counts = {"a": 1997, "b": 1, "c": 1, "d": 1}
    chart = stacked(id="x", title="X", caption="", days=[(today, counts)], drawn=labels, listed=labels)
    parts = chart.bars[0].parts
    assert all(part.height >= 5 for part in parts)
    assert min(part.y for part in parts) >= 0
    assert max(part.y + part.height for part in parts) == HEIGHT
    assert chart.totals == (1997, 1, 1, 1)


def test_health_tells_the_revision_and_the_flag(product: Product) -> None:
    """And how many streams this process has open."""
    page = product.sign_in("operator").get("/operator/health").text
    assert f"Migration {latest_revision()}, the latest" in page
    assert "0 open" in page
    assert "postgresql://" not in page


@pytest.mark.invariant("I36")
def test_a_probe_says_how_it_went_and_leaves_nothing(product: Product) -> None:
    """With script a part of the page, without it the page; no row of it stays."""
    operator = product.sign_in("operator")
    for script in (True, False):
        answer = operator.post_form("/operator/probes", {}, script=script)
        assert answer.status_code == 200
        assert "The database works." in answer.text
        assert ("<html" in answer.text) is not script
    assert rows(product.services.engine, sa.select(owners)) == []


def test_every_action_has_words(product: Product) -> None:
    """Whoever did it, and whatever of it is gone since; the newest stands first, fifty a page."""
    services = product.services
    operator = product.sign_in("operator")
    assert "Nothing has been done yet." in operator.get("/operator/audit").text

    def fill(unit: Unit) -> None:
        for kind, name in ((ActorKind.COMMAND, None), (ActorKind.KEY, "0a1b"), (ActorKind.OPERATOR, "operator")):
            auditor = Auditor(services.organization.id, kind, name)
            for action in Action:
                connection = unit.connection
                auditor.record(connection, action, agent_id=services.organization.default_agent_id, key="0a1b", user=2)
        for _ in range(25):
            auditor.record(unit.connection, Action.MEMORY_READ)

    transaction(services.engine, fill)
    first = operator.get("/operator/audit").text
    older = first.split('href="/operator/audit?before=')[1].split('"')[0]
    pages = " ".join(unescape(first + operator.get(f"/operator/audit?before={older}").text).split())
    for said in words.ACTIONS.values():
        assert said in pages
    for who in ("The command line", "API key 0a1b", ">operator<"):
        assert who in pages
    assert "User profile: 2 entries" in pages
    assert pages.count('data-time="moment"') == len(rows(services.engine, sa.select(audit_log)))
    assert "There is nothing older." in operator.get("/operator/audit?before=1").text


def test_done_is_said_of_ones_own_lines_only(product: Product) -> None:
    """An address cannot make a page claim what did not happen, or what somebody else did."""
    services = product.services
    auditor = Auditor(services.organization.id, ActorKind.OPERATOR, "another")
    transaction(services.engine, lambda unit: auditor.record(unit.connection, Action.KEY_REVOKED, key="0a1b"))
    operator = product.sign_in("operator")
    for line in ("1", "2", "-1", "x", "9" * 30, "1%00"):
        answer = operator.get(f"/operator/keys?done={line}")
        assert answer.status_code == 200
        assert "Done." not in answer.text
