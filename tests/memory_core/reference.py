"""A second, naive telling of the memory rules, to hold the real one against.

Written for reading, not for speed: documents are lists, refused is None, screening knows only what these tests make.
"""

import re
import unicodedata
from collections.abc import Sequence

from memory_core.document import Snapshot
from memory_core.operations import Operation

WHITE_SPACE = "".join(
    map(
        chr,
        [*range(0x09, 0x0E), 0x20, 0x85, 0xA0, 0x1680, *range(0x2000, 0x200B), 0x2028, 0x2029, 0x202F, 0x205F, 0x3000],
    )
)
FORBIDDEN = ("\t", "\x00", "\u200b", "<persistent_memory_data")


def normal(text: str) -> str:
    """One spelling for every line break, composed characters, nothing blank around it."""
    return unicodedata.normalize("NFC", re.sub("\r\n|[\r\x85\u2028\u2029]", "\n", text)).strip(WHITE_SPACE)


def storable(text: str) -> bool:
    """Whether an entry of these tests may be stored."""
    lines = [line.strip(WHITE_SPACE) for line in text.split("\n")]
    return bool(text) and "§" not in lines and not any(mark in text for mark in FORBIDDEN)


def size(entries: Sequence[str]) -> int:
    """Code points of the rendered document."""
    return len("\n§\n".join(entries))


def run(snapshot: Snapshot, operations: Sequence[Operation]) -> Snapshot | None:
    """The snapshot after a batch whose fields are in order, or None when it is refused."""
    documents = {"user": list(snapshot.user), "memory": list(snapshot.memory)}
    for operation in operations:
        entries = documents[operation.target]
        if operation.content is not None and not storable(normal(operation.content)):
            return None
        if operation.match is not None:
            text = normal(operation.match)
            found = [entry for entry in entries if text == entry] or [
                entry for entry in entries if text and text in entry
            ]
            if len(found) != 1:
                return None
            place = entries.index(found[0])
        if operation.content is None:
            del entries[place]
        elif operation.match is None:
            entries += [normal(operation.content)] if normal(operation.content) not in entries else []
        elif normal(operation.content) in entries[:place] + entries[place + 1 :]:
            return None
        else:
            entries[place] = normal(operation.content)
    after = Snapshot(tuple(documents["user"]), tuple(documents["memory"]))
    for old, new, limit in ((snapshot.user, after.user, 1375), (snapshot.memory, after.memory, 2200)):
        if old != new and size(new) > limit and size(new) >= size(old):
            return None
    return after
