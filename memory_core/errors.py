"""The error tree of memory_core. An error carries codes and counts, never a remembered word.

    MemoryCoreError
    ├── OperationRefused        a rule said no; .code, .operation, .target, .used, .limit, .needed
    ├── AlreadyInitialized      seeding came too late: there is memory, or somebody was here
    ├── MemoryUnavailable       stored memory cannot be read in this turn; .reason
    ├── StorageFailed           the database failed; .sqlstate, .constraint
    │   ├── CommitUnknown       the connection was lost at COMMIT: read the turn again to learn the outcome
    │   └── DatabaseUnreachable no connection could be made
    ├── TransactionCancelled    the cancel event was seen; everything was rolled back
    ├── OwnerGone               the owner's row is not there (never made, or erased)
    ├── ReceiptGone             no such receipt, or it can no longer be undone
    └── DatabaseStartFailed     the embedded server did not start (its kinds live beside the launcher)

Knows no text, no SQL and no HTTP. A class's docstring is its message where none is given.
"""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from memory_core.document import Target


class RefusalCode(StrEnum):
    """Why memory did not change: the codes of the tool, the API and the page (CONTRACT §6)."""

    FIELDS_INVALID = "fields_invalid"
    BATCH_SIZE = "batch_size"
    ENTRY_EMPTY = "entry_empty"
    ENTRY_RESERVED = "entry_reserved"
    ENTRY_CONTROL = "entry_control"
    ENTRY_SECRET = "entry_secret"  # noqa: S105 - the code for a secret, not one
    ENTRY_INSTRUCTION = "entry_instruction"
    ENTRY_DUPLICATE = "entry_duplicate"
    MATCH_MISSING = "match_missing"
    MATCH_NOT_FOUND = "match_not_found"
    MATCH_AMBIGUOUS = "match_ambiguous"
    CAPACITY_EXCEEDED = "capacity_exceeded"
    MEMORY_UNAVAILABLE = "memory_unavailable"
    MEMORY_OFF = "memory_off"
    GIVE_UP = "give_up"
    # How a turn can end without saving.
    STOPPED = "stopped"
    INTERRUPTED = "interrupted"
    CUT_OFF = "cut_off"
    FAILED = "failed"
    STORAGE = "storage"
    # Panel, undo and approval.
    CHANGED_SINCE = "changed_since"
    PROPOSALS_FULL = "proposals_full"


class UnavailableReason(StrEnum):
    """Why stored memory cannot be read."""

    NEWER_SCHEMA = "newer_schema"
    UNREADABLE = "unreadable"
    STORAGE = "storage"


class MemoryCoreError(Exception):
    """Memory could not do what was asked."""

    def __init__(self, message: str | None = None) -> None:
        super().__init__(message or (type(self).__doc__ or type(self).__name__).partition("\n")[0])


class OperationRefused(MemoryCoreError):
    """A rule refused the batch; nothing was changed.

    `operation` is the index in its batch (None: the batch as a whole). For `capacity_exceeded`, in code points:
    `used` before the batch, `needed` after it, `limit` of the target.
    """

    def __init__(
        self,
        code: RefusalCode,
        *,
        operation: int | None = None,
        target: Target | None = None,
        used: int | None = None,
        limit: int | None = None,
        needed: int | None = None,
    ) -> None:
        where = "the batch" if operation is None else f"operation {operation}"
        super().__init__(f"{where} was refused: {code}; nothing was changed")
        self.code = code
        self.operation = operation
        self.target = target
        self.used = used
        self.limit = limit
        self.needed = needed


class AlreadyInitialized(MemoryCoreError):
    """This memory has had its beginning already; nothing was changed."""


class MemoryUnavailable(MemoryCoreError):
    """Stored memory cannot be read; it was left as it is."""

    def __init__(self, reason: UnavailableReason) -> None:
        super().__init__(f"stored memory cannot be read: {reason}; it was left as it is")
        self.reason = reason


class StorageFailed(MemoryCoreError):
    """The database failed. Of its error only SQLSTATE and the constraint's name survive."""

    def __init__(self, sqlstate: str | None = None, constraint: str | None = None) -> None:
        super().__init__(f"the database failed: sqlstate {sqlstate}, constraint {constraint}")
        self.sqlstate = sqlstate
        self.constraint = constraint


class CommitUnknown(StorageFailed):
    """The connection was lost at COMMIT; only the stored turn can tell what happened."""


class DatabaseUnreachable(StorageFailed):
    """No connection to the database could be made."""

    def __init__(self) -> None:
        super().__init__()
        self.args = ("the database cannot be reached at its address, or does not let us in",)


class TransactionCancelled(MemoryCoreError):
    """The transaction was cancelled; everything was rolled back."""


class OwnerGone(MemoryCoreError):
    """The owner is not stored: never seen, or erased."""


class ReceiptGone(MemoryCoreError):
    """There is no such receipt, or it can no longer be undone."""


class DatabaseStartFailed(MemoryCoreError):
    """The embedded database server did not start."""
