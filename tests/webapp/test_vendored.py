"""The files of others that the site serves are the ones that were reviewed."""

import hashlib
import json

from webapp.render import STATIC

VENDOR = STATIC / "vendor"
RECORD = "VENDORED.json"


def test_every_vendored_file_is_what_its_record_says() -> None:
    """Name, version, licence and digest of each; no file without a record, no record without a file."""
    record = json.loads((VENDOR / RECORD).read_text())
    assert sorted(record) == sorted(file.name for file in VENDOR.iterdir() if file.name != RECORD)
    for name, entry in record.items():
        assert set(entry) == {"from", "version", "licence", "sha256"}
        assert hashlib.sha256((VENDOR / name).read_bytes()).hexdigest() == entry["sha256"], name
