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
from memory_core.changes import Committed
from memory_core.database.transaction import Unit, transaction
from memory_core.document import FILENAMES, TITLES, Snapshot, Target, render
from memory_core.errors import AlreadyInitialized, MemoryUnavailable, OperationRefused, OwnerGone, RefusalCode
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
        """Change somebody's memory and note what changed, in one transaction. Raises CommandFailed when the rules say
        no.
        """

        def recorded(unit: Unit) -> Committed | None:
            committed = work(unit)
            if committed is not None:
                counts = {str(target): len(committed.after.of(target)) for target in Target}
                owner_id = unit.locked_owner.id
                self.auditor.record(unit.connection, done, agent_id=owner.agent_id, owner_id=owner_id, **counts)
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
    print(f"Seeded: {_stored(desk.write(owner, lambda unit: seed_memory(unit, entries), Action.MEMORY_SEEDED))}.")


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
        print(f"Imported: {_stored(seeded)}.")
        return
    replaced = desk.write(
        owner,
        lambda unit: replace_memory(unit, entries, undo_hours=desk.undo_hours),
        Action.MEMORY_REPLACED,
        creates=any(entries.values()),
    )
    print(f"Replaced: {_stored(replaced)} now." if replaced else "Nothing to change: memory is the same already.")


def export_files(desk: Desk, options: argparse.Namespace) -> None:
    """Both documents into a folder; both or none."""
    owner = desk.owner(options)

    def read(unit: Unit) -> Mapping[Target, Sequence[str]]:
        memory = load_memory(unit.connection, owner)
        if memory.snapshot is None:
            raise CommandFailed("this person's memory cannot be read, so nothing was written")
        desk.auditor.record(unit.connection, Action.MEMORY_EXPORTED, agent_id=owner.agent_id, owner_id=memory.owner_id)
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
    counts = ", ".join(f"{FILENAMES[target]} {len(texts)}" for target, texts in entries.items())
    print(f"Exported to {' and '.join(map(str, paths.values()))}: {counts}.")


def erase_person(desk: Desk, options: argparse.Namespace) -> None:
    """Everything, after a question."""
    owner = desk.owner(options)
    if not options.yes:
        if not sys.stdin.isatty():
            raise CommandFailed("erasing cannot be undone; say --yes")
        print("Everything this agent has about this person is deleted. This cannot be undone.", file=sys.stderr)
        try:
            typed = input("Type the subject to go on: ")
        except EOFError:
            typed = ""
        if typed != owner.subject:
            raise CommandFailed("that is another name; nothing was deleted")

    def record(unit: Unit) -> None:
        desk.auditor.record_erasure(unit.connection, owner.agent_id, owner.subject)

    erase(desk.engine, owner, record)
    print("Erased. What backups of the database hold stays until their own time is over.")


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
    for key in found:
        name = "".join(char if char.isprintable() else "?" for char in key.name) or "-"
        print("  ".join((key.id, _state(key), ",".join(sorted(key.scopes)), name)))


def _revoke_key(desk: Desk, options: argparse.Namespace) -> None:
    def revoke(unit: Unit) -> None:
        revoke_key(unit, desk.organization.id, options.key)
        desk.auditor.record(unit.connection, Action.KEY_REVOKED, key=options.key)

    try:
        transaction(desk.engine, revoke)
    except NotFound:
        raise CommandFailed(f"there is no key {options.key}; see: remembrancer keys list") from None
    stop_api_key(desk.engine, options.key)
    print(f"Revoked: {options.key}.")


def _state(key: ApiKey) -> str:
    if key.revoked_at is not None:
        return f"revoked {key.revoked_at:%Y-%m-%d}"
    if not key.is_live:
        return f"expired {key.expires_at:%Y-%m-%d}"
    used = f"used {key.used_at:%Y-%m-%d}" if key.used_at else "never used"
    return f"{used}, until {key.expires_at:%Y-%m-%d}" if key.expires_at else used


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


COMMANDS: Mapping[str, Callable[[Desk, argparse.Namespace], None]] = {
    "seed": seed,
    "keys": keys,
    "export": export_files,
    "import": import_files,
    "erase": erase_person,
}
