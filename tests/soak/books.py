"""The books of a deployment: everything that is stored about turns and memory, and whether it tells one story.

    books = Books.read(url)
    books.assert_balanced()              # receipts, documents, answers and outcomes of every turn agree
    books.turn("t0042").outcome

Read from outside of the program, in one snapshot. Holds for histories in which only turns change memory.
"""

import re
from collections import Counter, defaultdict
from dataclasses import dataclass, field
from typing import Any, LiteralString

import psycopg
from psycopg.rows import dict_row

from memory_core.document import Target, parse

TOKEN = re.compile(r"\bt\d{4}\b")

_TURNS: LiteralString = """
    SELECT turns.*, owners.subject, question.content AS question, answer.content AS answer
      FROM remembrancer.turns JOIN remembrancer.owners ON owners.id = turns.owner_id
      JOIN remembrancer.messages question
        ON question.conversation_id = turns.conversation_id AND question.place = turns.question_place
      LEFT JOIN remembrancer.messages answer
        ON answer.conversation_id = turns.conversation_id AND answer.place = turns.answer_place
     ORDER BY turns.started_at
"""
_OWNERS: LiteralString = """
    SELECT owners.*, coalesce(profile.content, '') AS user_document, coalesce(work.content, '') AS memory_document
      FROM remembrancer.owners
      LEFT JOIN remembrancer.agent_memory profile ON profile.user_id = owners.id AND profile.memory_type = 'user'
      LEFT JOIN remembrancer.agent_memory work ON work.user_id = owners.id AND work.memory_type = 'memory'
"""
_RECEIPTS: LiteralString = "SELECT * FROM remembrancer.memory_changes ORDER BY created_at"
_ANSWERS: LiteralString = """
    SELECT turn_id, count(*) AS count FROM remembrancer.messages WHERE role = 'assistant' GROUP BY turn_id
"""
_ORPHANS: LiteralString = """
    SELECT conversations.id FROM remembrancer.conversations
     WHERE NOT EXISTS (SELECT FROM remembrancer.turns WHERE conversation_id = conversations.id)
"""


@dataclass(frozen=True)
class Turn:
    """One turn as it is stored. `token` is that of the story its question told."""

    id: str
    token: str
    subject: str
    owner_id: str
    outcome: str
    memory_outcome: str
    answer: str | None = field(repr=False)
    receipts: tuple[dict[str, Any], ...] = field(repr=False)


@dataclass(frozen=True)
class Books:
    """Everything, as it was at one moment."""

    turns: tuple[Turn, ...]
    owners: tuple[dict[str, Any], ...] = field(repr=False)
    receipts: tuple[dict[str, Any], ...] = field(repr=False)
    answers: dict[str, int] = field(repr=False)
    orphans: tuple[str, ...]

    @classmethod
    def read(cls, url: str) -> "Books":
        """Everything in one snapshot."""
        with psycopg.connect(url, row_factory=dict_row, connect_timeout=10) as connection:
            connection.isolation_level = psycopg.IsolationLevel.REPEATABLE_READ
            turns, owners, receipts, answers, orphans = (
                connection.execute(query).fetchall() for query in (_TURNS, _OWNERS, _RECEIPTS, _ANSWERS, _ORPHANS)
            )
        by_turn: dict[str, list[dict[str, Any]]] = defaultdict(list)
        for receipt in receipts:
            by_turn[receipt["turn_id"]].append(receipt)
        return cls(
            turns=tuple(_turn(row, by_turn[row["id"]]) for row in turns),
            owners=tuple(owners),
            receipts=tuple(receipts),
            answers={row["turn_id"]: row["count"] for row in answers},
            orphans=tuple(row["id"] for row in orphans),
        )

    def of(self, token: str) -> list[Turn]:
        """The turns of a story: none, if it never began."""
        return [turn for turn in self.turns if turn.token == token]

    def turn(self, token: str) -> Turn:
        [turn] = self.of(token)
        return turn

    @property
    def running(self) -> list[str]:
        return [turn.token for turn in self.turns if turn.outcome == "running"]

    def entries(self, subject: str) -> dict[Target, tuple[str, ...]]:
        """What is remembered about a person."""
        for owner in self.owners:
            if owner["subject"] == subject:
                return {target: parse(owner[f"{target}_document"]) for target in Target if owner[f"{target}_document"]}
        return {}

    def assert_balanced(self) -> None:
        """Receipts, documents, answers and outcomes agree, turn by turn and person by person."""
        assert self.running == []
        assert self.orphans == ()
        known = {turn.id for turn in self.turns}
        assert {receipt["turn_id"] for receipt in self.receipts} <= known
        for turn in self.turns:
            self._assert_turn_agrees(turn)
        for owner in self.owners:
            self._assert_owner_agrees(owner)

    def _assert_turn_agrees(self, turn: Turn) -> None:
        completed, committed = turn.outcome == "completed", turn.memory_outcome == "committed"
        assert completed or not committed, turn
        assert len(turn.receipts) == committed, turn
        assert self.answers.get(turn.id, 0) <= 1, turn
        if completed:
            assert turn.answer, turn
            assert turn.token in turn.answer, turn

    def _assert_owner_agrees(self, owner: dict[str, Any]) -> None:
        """The receipts, taken in order, make exactly the documents; each begins where the one before it ended."""
        entries: dict[str, list[str]] = {str(target): [] for target in Target}
        sizes = {str(target): 0 for target in Target}
        receipts = [receipt for receipt in self.receipts if receipt["owner_id"] == owner["id"]]
        for receipt in receipts:
            for change in receipt["undo"]:
                _apply(entries[change["target"]], change["before"], change["after"])
            for name, size in sizes.items():
                assert receipt[f"{name}_before"] == size, receipt
                sizes[name] = receipt[f"{name}_after"]
        for name, size in sizes.items():
            document = owner[f"{name}_document"]
            assert list(parse(document) if document else ()) == entries[name], owner["subject"]
            assert len(document) == size, owner["subject"]
        assert owner["version"] == len(receipts), owner["subject"]
        outcomes = Counter(turn.outcome for turn in self.turns if turn.owner_id == owner["id"])
        assert owner["turns_since_review"] == outcomes["completed"], owner["subject"]


def _turn(row: dict[str, Any], receipts: list[dict[str, Any]]) -> Turn:
    found = TOKEN.search(row["question"])
    return Turn(
        id=row["id"],
        token=found.group() if found else "",
        subject=row["subject"],
        owner_id=row["owner_id"],
        outcome=row["outcome"],
        memory_outcome=row["memory_outcome"],
        answer=row["answer"],
        receipts=tuple(receipts),
    )


def _apply(entries: list[str], before: str | None, after: str | None) -> None:
    if before is None:
        assert after is not None
        entries.append(after)
    elif after is None:
        entries.remove(before)
    else:
        entries[entries.index(before)] = after
