"""The error tree: every error is one of ours, speaks in words, and holds codes and counts only."""

import pytest

from memory_core import errors
from memory_core.document import Target
from memory_core.errors import (
    CommitUnknown,
    DatabaseUnreachable,
    MemoryCoreError,
    MemoryUnavailable,
    OperationRefused,
    OwnerGone,
    RefusalCode,
    StorageFailed,
    UnavailableReason,
)

CODES = """
    fields_invalid batch_size entry_empty entry_reserved entry_control entry_secret entry_instruction entry_duplicate
    match_missing match_not_found match_ambiguous capacity_exceeded memory_unavailable memory_off give_up
    stopped interrupted cut_off failed storage
    changed_since proposals_full
"""
CLASSES = [item for item in vars(errors).values() if isinstance(item, type) and issubclass(item, MemoryCoreError)]


@pytest.mark.parametrize("error", CLASSES, ids=lambda error: error.__name__)
def test_the_tree_in_the_docstring_is_the_tree_in_the_code(error: type[MemoryCoreError]) -> None:
    """Each class is drawn in the module's docstring and has a message of its own."""
    assert errors.__doc__ is not None
    assert error.__name__ in errors.__doc__
    assert error.__doc__


def test_a_docstring_is_the_message_unless_one_is_given() -> None:
    """The first line of the class's docstring, and nothing of its indentation."""
    assert str(OwnerGone()) == "The owner is not stored: never seen, or erased."
    assert str(OwnerGone("other words")) == "other words"
    assert str(MemoryCoreError()) == "Memory could not do what was asked."


def test_a_subclass_of_several_lines_speaks_its_first() -> None:
    """Only the first line of a longer docstring is the message; without one (python -OO) the class's name is."""

    class Longer(MemoryCoreError):
        """One line.

        And more.
        """

    class Silent(MemoryCoreError):
        __doc__ = None

    assert str(Longer()) == "One line."
    assert str(Silent()) == "Silent"


def test_every_error_carries_what_it_was_given() -> None:
    """Attributes and words of those that carry something."""
    refused = OperationRefused(
        RefusalCode.CAPACITY_EXCEEDED, operation=3, target=Target.USER, used=1, limit=2, needed=3
    )
    assert (refused.code, refused.operation, refused.target) == ("capacity_exceeded", 3, "user")
    assert (refused.used, refused.limit, refused.needed) == (1, 2, 3)
    assert str(refused) == "operation 3 was refused: capacity_exceeded; nothing was changed"
    assert str(OperationRefused(RefusalCode.BATCH_SIZE)) == "the batch was refused: batch_size; nothing was changed"
    unavailable = MemoryUnavailable(UnavailableReason.STORAGE)
    assert (unavailable.reason, str(unavailable)) == (
        "storage",
        "stored memory cannot be read: storage; it was left as it is",
    )
    failed = StorageFailed("57014", "owners_pkey")
    assert (failed.sqlstate, failed.constraint) == ("57014", "owners_pkey")
    assert str(failed) == "the database failed: sqlstate 57014, constraint owners_pkey"
    assert (CommitUnknown().sqlstate, CommitUnknown().constraint) == (None, None)
    assert (DatabaseUnreachable().sqlstate, DatabaseUnreachable().constraint) == (None, None)
    assert str(DatabaseUnreachable()) == "the database cannot be reached at its address, or does not let us in"


def test_the_codes_are_those_of_the_contract() -> None:
    """Names that people and scripts rely on, in full."""
    assert {code.value for code in RefusalCode} == set(CODES.split())
    assert all(code.name.lower() == code.value for code in RefusalCode)
    assert {reason.value for reason in UnavailableReason} == {"newer_schema", "unreadable", "storage"}
