"""As whom PostgreSQL's programs run, and how they die with the process that started them.

    ordinary user                     as that user (one without a name: inside a user namespace, under a known one)
    root                              inside a user namespace, where root is an ordinary user: no file changes hands
    root, namespaces forbidden,       as another user, in a folder that user can reach; no parent folder is opened
      or the data belong to a user

PostgreSQL refuses to run as root, hence the table. Where `setpriv` exists the kernel sends SIGQUIT when the thread
that started the program ends, however it ends. Knows no data layout and no settings.
"""

import os
import pwd
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from memory_core.database.start_errors import RootNeedsNamespace

DEATH_SIGNAL: Final = "QUIT"  # the immediate shutdown: a dead owner cannot wait for a checkpoint
_TRIAL_SECONDS: Final = 10.0
#: PostgreSQL reads PG* variables and locales from its environment; it gets none but these.
_ENVIRONMENT: Final = {"PATH": os.defpath, "LC_ALL": "C.UTF-8"}
#: The kernel signals only a death after the request for it: whoever was orphaned before stops here.
_UNLESS_ORPHANED: Final = ("sh", "-c", '[ "$PPID" = "$1" ] || exit 1; shift; exec "$@"', "sh")


@dataclass(frozen=True)
class PostgresUser:
    """A way to run a program: what stands before its name, and as which uid and gid (None: as ourselves)."""

    prefix: tuple[str, ...] = ()
    uid: int | None = None
    gid: int | None = None

    def command(self, program: str, *arguments: str, bound_to_us: bool = True) -> list[str]:
        """The command line; `bound_to_us`: it ends when the calling thread ends."""
        return [*self.prefix, *(_deathbed() if bound_to_us else ()), program, *arguments]

    def options(self) -> dict[str, Any]:
        """Keyword arguments for `subprocess`: a session of its own, so that Ctrl-C reaches only its owner."""
        options: dict[str, Any] = {"env": dict(_ENVIRONMENT), "stdin": subprocess.DEVNULL, "start_new_session": True}
        if self.uid is not None:
            options |= {"user": self.uid, "group": self.gid, "extra_groups": []}
        return options

    def own(self, folder: Path) -> None:
        """Give a folder of ours to the user; never a folder above it."""
        if self.uid is not None and self.gid is not None:
            os.chown(folder, self.uid, self.gid)


def choose_user(data: Path, binaries: Path) -> PostgresUser:
    """The user for a data folder that exists or will be made. Raises RootNeedsNamespace."""
    if os.geteuid() != 0:
        return PostgresUser(prefix=() if _is_known(os.geteuid()) else _namespace() or ())
    owner = data.stat().st_uid if data.exists() else None
    if owner in (None, 0):
        namespace = _namespace()
        if namespace is not None:
            return PostgresUser(prefix=namespace)
    if owner == 0:
        raise RootNeedsNamespace("the data belong to root, but user namespaces are forbidden here")
    return _other_user(owner, data, binaries)


def _is_known(uid: int) -> bool:
    """Whether the machine has a name for this number; a container started under any number may have none."""
    try:
        pwd.getpwuid(uid)
    except KeyError:
        return False
    return True


def _namespace() -> tuple[str, ...] | None:
    """The prefix that makes root an ordinary user, if this machine allows it.

    initdb looks its user up by number, so the number must be one that the machine knows.
    """
    number = str(_unprivileged().pw_uid)
    prefix = ("unshare", "--user", f"--map-user={number}", f"--map-group={number}")
    return prefix if _succeeds([*prefix, "true"]) else None


def _other_user(owner: int | None, data: Path, binaries: Path) -> PostgresUser:
    try:
        person = _unprivileged() if owner is None else pwd.getpwuid(owner)
    except KeyError:
        raise RootNeedsNamespace(f"the data belong to user {owner}, whom this machine does not know") from None
    user = PostgresUser(uid=person.pw_uid, gid=person.pw_gid)
    user.own(data.parent)
    reachable = ["test", "-x", str(binaries / "postgres"), "-a", "-w", str(data.parent)]
    if not _succeeds(reachable, **user.options()):
        raise RootNeedsNamespace(
            f"user {person.pw_name} cannot reach {binaries} and {data.parent} (user namespaces are forbidden here)"
        )
    return user


def _unprivileged() -> pwd.struct_passwd:
    """`nobody`, or else anybody who is not root."""
    everybody = sorted(pwd.getpwall(), key=lambda person: person.pw_name != "nobody")
    for person in everybody:
        if person.pw_uid != 0:
            return person
    raise RootNeedsNamespace("this machine knows no other user")


def _deathbed() -> tuple[str, ...]:
    if shutil.which("setpriv", path=os.defpath) is None:
        return ()
    return ("setpriv", "--pdeathsig", DEATH_SIGNAL, *_UNLESS_ORPHANED, str(os.getpid()))


def _succeeds(command: list[str], **options: Any) -> bool:
    try:
        done = subprocess.run(command, capture_output=True, timeout=_TRIAL_SECONDS, check=False, **options)
    except (OSError, subprocess.SubprocessError):
        return False
    return done.returncode == 0
