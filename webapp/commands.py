"""What operators do on the command line: seeding, keys, files in and out, erasing. Each leaves a line in the audit log.

Works on the database alone, whether or not a server runs on it; running turns that a command ends are told through the
database, like a Stop from another process.
"""

import argparse
import errno
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any

import orjson
from sqlalchemy.engine import Engine

from agent.configuration import find_agent
from agent.discard import stop_api_key
from agent.erasure import erase
from agent.errors import AgentNotFound
from agent.subjects import find_owner_id
from memory_core.changes import Committed
from memory_core.database.transaction import Unit, transaction
from memory_core.document import FILENAMES, TITLES, Snapshot, Target, render
from memory_core.errors import (
    AlreadyInitialized,
    MemoryUnavailable,
    OperationRefused,
    OwnerGone,
    RefusalCode,
    StorageFailed,
)
from memory_core.owner import Actor, Owner
from memory_core.seeding import seed_memory
from memory_core.store import load_memory
from memory_core.transfer import read_entries, replace_memory
from webapp.audit import Action, ActorKind, Auditor
from webapp.auth.api_keys import ApiKey, create_key, list_keys, revoke_key
from webapp.auth.organization import Organization
from webapp.errors import NotFound
from webapp.words import REFUSALS

#: The fields of a seed, as the API has them.
SEED_FIELDS: Mapping[str, Target] = {"userMemoryEntries": Target.USER, "agentMemoryEntries": Target.MEMORY}
#: More than fits into both documents, however it is spelled.
MAX_FILE_BYTES = 1_048_576
NOBODY = "this agent knows nobody of that name"
_KEY_COLUMNS = ("ID", "STATE", "EXPIRES", "SCOPES", "NAME")


class CommandFailed(Exception):
    """The command could not do its work; `str()` is the line that says why."""


@dataclass(frozen=True)
class Desk:
    """What a command works with."""

    engine: Engine
    organization: Organization
    undo_hours: int

    @property
    def auditor(self) -> Auditor:
        return Auditor(self.organization.id, ActorKind.COMMAND)

    def owner(self, options: argparse.Namespace) -> Owner:
        """Whom the options name. Raises CommandFailed for an agent there is not."""
        agent_id = self.organization.default_agent_id if options.agent == "default" else options.agent
        try:
            transaction(self.engine, lambda unit: find_agent(unit.connection, self.organization.id, agent_id))
        except AgentNotFound:
            raise CommandFailed(f"there is no agent {options.agent}; `default` is always one") from None
        return Owner(self.organization.id, agent_id, options.subject)

    def write(
        self, owner: Owner, work: Callable[[Unit], Committed | None], done: Action, *, creates: bool = True
    ) -> Committed | None:
        """Change somebody's memory and note what changed, in one transaction; what took the place of nothing is noted
        as imported. Raises CommandFailed when the rules say no.
        """

        def recorded(unit: Unit) -> Committed | None:
            committed = work(unit)
            if committed is not None:
                counts = {str(target): len(committed.after.of(target)) for target in Target}
                owner_id = unit.locked_owner.id
                action = Action.MEMORY_IMPORTED if done is Action.MEMORY_REPLACED and _began(committed) else done
                self.auditor.record(unit.connection, action, agent_id=owner.agent_id, owner_id=owner_id, **counts)
            return committed

        try:
            return transaction(self.engine, recorded, owner=owner, create_owner=creates)
        except OwnerGone:
            raise CommandFailed(NOBODY) from None
        except AlreadyInitialized:
            raise CommandFailed(
                "this person has memory with this agent, or was here before, so nothing was changed. "
                "To put something in its place: remembrancer import --replace"
            ) from None
        except OperationRefused as refusal:
            raise CommandFailed(_refused(refusal)) from None
        except MemoryUnavailable:
            raise CommandFailed("this person's memory cannot be read, so it was left as it is") from None


def seed(desk: Desk, options: argparse.Namespace) -> None:
    """A beginning from a file, or from standard input."""
    entries = _seed_entries(_read(None if options.file == "-" else Path(options.file)))
    owner = desk.owner(options)
    seeded = desk.write(owner, lambda unit: seed_memory(unit, entries), Action.MEMORY_SEEDED)
    print(f"Seeded: {_stored(seeded)}{_left_out(seeded, entries)}.")


def import_files(desk: Desk, options: argparse.Namespace) -> None:
    """Both documents from a folder; a file that is not there is an empty document."""
    paths = {target: options.folder / FILENAMES[target] for target in Target}
    # A link that leads nowhere is a file that cannot be read, and no empty document.
    there = {target: path for target, path in paths.items() if path.is_symlink() or path.exists()}
    if not there:
        raise CommandFailed(f"there is neither USER.md nor MEMORY.md in {options.folder}")
    entries = {target: read_entries(_read(there[target])) if target in there else () for target in Target}
    owner = desk.owner(options)
    if not options.replace:
        seeded = desk.write(owner, lambda unit: seed_memory(unit, entries, actor=Actor.IMPORT), Action.MEMORY_IMPORTED)
        print(f"Imported: {_stored(seeded)}{_left_out(seeded, entries)}.")
        return
    replaced = desk.write(
        owner,
        lambda unit: replace_memory(unit, entries, undo_hours=desk.undo_hours),
        Action.MEMORY_REPLACED,
        creates=any(entries.values()),
    )
    if replaced is None:
        print("Nothing to change: memory is the same already.")
    elif _began(replaced):
        print(f"Imported: {_stored(replaced)}{_left_out(replaced, entries)}.")
    else:
        print(f"Replaced: {_stored(replaced)} now{_left_out(replaced, entries)}.")


def export_files(desk: Desk, options: argparse.Namespace) -> None:
    """Both documents into a folder; both or none. Only files that were written are noted in the audit log."""
    owner = desk.owner(options)

    def read(unit: Unit) -> Mapping[Target, Sequence[str]]:
        memory = load_memory(unit.connection, owner)
        if memory.snapshot is None:
            raise CommandFailed("this person's memory cannot be read, so nothing was written")
        return {target: memory.snapshot.of(target) for target in Target}

    paths = {target: options.folder / FILENAMES[target] for target in Target}
    taken = [str(path) for path in paths.values() if path.is_symlink() or path.exists()]
    if taken and not options.force:
        raise CommandFailed(f"{' and '.join(taken)} would be written over; use another folder, or --force")
    try:
        entries = transaction(desk.engine, read, owner=owner)
    except OwnerGone:
        raise CommandFailed(NOBODY) from None
    try:
        options.folder.mkdir(parents=True, exist_ok=True)
        _write({path: render(entries[target]) for target, path in paths.items()})
    except OSError as error:
        raise CommandFailed(f"cannot write to {options.folder}: {error.strerror}") from None
    files = " and ".join(map(str, paths.values()))
    _note_export(desk, owner, files)
    counts = ", ".join(f"{FILENAMES[target]} {len(texts)}" for target, texts in entries.items())
    print(f"Exported to {files}: {counts}.")


def _note_export(desk: Desk, owner: Owner, files: str) -> None:
    """The line in the audit log. Raises CommandFailed, and names the files, which are there by now."""

    def note(unit: Unit) -> None:
        owner_id = unit.locked_owner.id
        desk.auditor.record(unit.connection, Action.MEMORY_EXPORTED, agent_id=owner.agent_id, owner_id=owner_id)

    try:
        transaction(desk.engine, note, owner=owner)
    except OwnerGone:
        raise CommandFailed(f"{files} were written, but this person has been erased meanwhile: delete them") from None
    except StorageFailed:
        raise CommandFailed(
            f"{files} were written, but the audit log may have no line about it: the database stopped answering"
        ) from None


def erase_person(desk: Desk, options: argparse.Namespace) -> None:
    """Everything, after a question that names whom. Sign-ins end also where the agent knows nobody of that name."""
    owner = desk.owner(options)
    agent, subject = _printable(options.agent), _printable(owner.subject)
    if not options.yes:
        _ask_before_erasing(desk, owner, agent, subject)
    was_known = False

    def record(unit: Unit) -> None:
        nonlocal was_known
        was_known = unit.owner is not None
        desk.auditor.record_erasure(unit.connection, owner.agent_id, owner.subject)

    erase(desk.engine, owner, record)
    if not was_known:
        print(f"Nothing to erase: agent {agent} knows nobody named {subject}. Sign-ins of that name have been ended.")
        return
    print(f"Erased {subject} from agent {agent}. What backups of the database hold stays until their own time is over.")


def _ask_before_erasing(desk: Desk, owner: Owner, agent: str, subject: str) -> None:
    """Raises CommandFailed unless there is somebody, and their name is typed."""

    def find(unit: Unit) -> str | None:
        return find_owner_id(unit.connection, owner.organization_id, owner.agent_id, owner.subject)

    if transaction(desk.engine, find) is None:
        raise CommandFailed(f"agent {agent} knows nobody named {subject}; nothing was deleted")
    whole = f"everything that agent {agent} has about {subject}"
    if not sys.stdin.isatty():
        raise CommandFailed(f"this would delete {whole}, and cannot be undone; nothing was deleted. To go on: --yes")
    print(f"This deletes {whole}, and cannot be undone.", file=sys.stderr)
    try:
        typed = input("Type the subject to go on: ")
    except EOFError:
        typed = ""
    if typed != owner.subject:
        raise CommandFailed("that is another name; nothing was deleted")


def keys(desk: Desk, options: argparse.Namespace) -> None:
    """Make, list or revoke keys."""
    {"create": _create_key, "list": _list_keys, "revoke": _revoke_key}[options.verb](desk, options)


def _create_key(desk: Desk, options: argparse.Namespace) -> None:
    """The key alone on standard output, so that a script can take it; the rest is said beside it."""

    if sys.stdout is None:
        raise CommandFailed("there is nowhere to print the key; none was made")

    def create(unit: Unit) -> None:
        expires_in = timedelta(days=options.days) if options.days else None
        new = create_key(unit, desk.organization.id, options.name, options.scopes, expires_in=expires_in)
        desk.auditor.record(unit.connection, Action.KEY_CREATED, key=new.key.id, scopes=sorted(new.key.scopes))
        print(new.text, flush=True)  # before it is stored: no key is live that nobody has seen

    print("This key is shown once; keep it safe.", file=sys.stderr)
    try:
        transaction(desk.engine, create)
    except OSError as error:
        raise CommandFailed(f"the key could not be printed, so none was made: {error.strerror}") from None


def _list_keys(desk: Desk, _options: argparse.Namespace) -> None:
    found = transaction(desk.engine, lambda unit: list_keys(unit.connection, desk.organization.id))
    if not found:
        print("There are no keys. Make one: remembrancer keys create")
        return
    lines = [_KEY_COLUMNS, *map(_cells, found)]
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    for line in lines:
        print("  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip())


def _revoke_key(desk: Desk, options: argparse.Namespace) -> None:
    def revoke(unit: Unit) -> bool:
        is_new = revoke_key(unit, desk.organization.id, options.key)
        if is_new:
            desk.auditor.record(unit.connection, Action.KEY_REVOKED, key=options.key)
        return is_new

    try:
        is_new = transaction(desk.engine, revoke)
    except NotFound:
        raise CommandFailed(f"there is no key {options.key}; see: remembrancer keys list") from None
    stop_api_key(desk.engine, options.key)
    print(f"Revoked: {options.key}." if is_new else f"It was revoked already: {options.key}.")


def _cells(key: ApiKey) -> tuple[str, ...]:
    """A key's line, as _KEY_COLUMNS has it."""
    expires = f"{key.expires_at:%Y-%m-%d}" if key.expires_at else "never"
    return key.id, _state(key), expires, ",".join(sorted(key.scopes)), _printable(key.name) or "(no name)"


def _state(key: ApiKey) -> str:
    if key.revoked_at is not None:
        return f"revoked {key.revoked_at:%Y-%m-%d}"
    if not key.is_live:
        return "expired"
    return f"used {key.used_at:%Y-%m-%d}" if key.used_at else "never used"


def _printable(text: str) -> str:
    """A name on a terminal: nothing in it moves the cursor or begins a line."""
    return "".join(char if char.isprintable() else "?" for char in text)


def _read(path: Path | None) -> str:
    """A file, or standard input."""
    name = path or "standard input"
    try:
        if path is None:
            content = sys.stdin.buffer.read(MAX_FILE_BYTES + 1)
        else:
            with path.open("rb") as file:
                content = file.read(MAX_FILE_BYTES + 1)
    except OSError as error:
        raise CommandFailed(f"cannot read {name}: {error.strerror}") from None
    if len(content) > MAX_FILE_BYTES:
        raise CommandFailed(f"{name} is too large to be memory")
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise CommandFailed(f"{name} is not UTF-8 text") from None


def _write(texts: Mapping[Path, str]) -> None:
    """All of the files or none of them, for nobody else to read. Raises OSError."""
    fresh: dict[Path, Path] = {}
    try:
        for path, text in texts.items():
            if path.is_dir():
                raise IsADirectoryError(errno.EISDIR, f"{path.name} is a folder")
            handle, name = tempfile.mkstemp(dir=path.parent, prefix=".remembrancer-")
            fresh[path] = Path(name)
            with open(handle, "w", encoding="utf-8", newline="\n") as file:
                file.write(text)
        for path, new in fresh.items():
            new.replace(path)
    finally:
        for new in fresh.values():
            new.unlink(missing_ok=True)


def _seed_entries(text: str) -> dict[Target, Sequence[str]]:
    try:
        given: Any = orjson.loads(text)
    except orjson.JSONDecodeError:
        raise CommandFailed("the seed is not JSON") from None
    if not isinstance(given, dict) or not given.keys() <= SEED_FIELDS.keys():
        raise CommandFailed(f"a seed is an object with {' and '.join(SEED_FIELDS)}, and nothing else")
    entries = {target: given.get(name, []) for name, target in SEED_FIELDS.items()}
    if not all(isinstance(texts, list) and all(isinstance(text, str) for text in texts) for texts in entries.values()):
        raise CommandFailed("the entries of a seed are lists of texts")
    return entries


def _refused(refusal: OperationRefused) -> str:
    """Which entry, and why; never its words."""
    if refusal.code is RefusalCode.BATCH_SIZE:
        said = "there is no entry in it" if not refusal.needed else f"there are more entries than fit ({refusal.limit})"
        return f"nothing was changed. {said} ({refusal.code})"
    where = ""
    if refusal.target is not None:
        where = TITLES[refusal.target]
        where += f", entry {refusal.operation + 1}: " if refusal.operation is not None else ": "
    return f"nothing was changed. {where}{REFUSALS[refusal.code]} ({refusal.code})"


def _stored(committed: Committed | None) -> str:
    """How many entries each document has now."""
    after = committed.after if committed is not None else Snapshot()
    return ", ".join(f"{FILENAMES[target]} {len(after.of(target))}" for target in Target)


def _left_out(committed: Committed | None, given: Mapping[Target, Sequence[str]]) -> str:
    """How many of the entries given are the same as another, if any; the rest is all there is now."""
    after = committed.after if committed is not None else Snapshot()
    same = sum(len(texts) for texts in given.values()) - sum(len(after.of(target)) for target in Target)
    return f"; {same} duplicate{'s' if same > 1 else ''} left out" if same else ""


def _began(committed: Committed) -> bool:
    """Whether there was nothing before."""
    return not any(committed.before.of(target) for target in Target)


COMMANDS: Mapping[str, Callable[[Desk, argparse.Namespace], None]] = {
    "seed": seed,
    "keys": keys,
    "export": export_files,
    "import": import_files,
    "erase": erase_person,
}
