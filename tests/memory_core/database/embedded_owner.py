"""A process that owns, or attaches to, an embedded server until its standard input ends. Run by the tests.

    python -m tests.memory_core.database.embedded_owner FOLDER [attach] [unbound]

Prints one line: {"url": …, "is_owner": …}, or {"error": NAME, "message": …}. `unbound` starts a server that does not
die with this process, as where `setpriv` is missing.
"""

import json
import sys
from pathlib import Path

from memory_core.database import postgres_user
from memory_core.database.embedded import EmbeddedServer
from memory_core.errors import DatabaseStartFailed


def main(folder: str, *words: str) -> int:
    if "unbound" in words:
        postgres_user._deathbed = lambda: ()
    server = EmbeddedServer(Path(folder), attach="attach" in words, durable=False)
    try:
        url = server.start()
    except DatabaseStartFailed as error:
        say({"error": type(error).__name__, "message": str(error)})
        return 1
    say({"url": url, "is_owner": server.is_owner})
    sys.stdin.read()
    server.stop()
    return 0


def say(what: dict[str, object]) -> None:
    print(json.dumps(what), flush=True)


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
