"""Opaque identifiers. They name rows; they never order them and never say anything about a person."""

import base64
import secrets

_RANDOM_BYTES = 16


def new_id(prefix: str) -> str:
    """A fresh identifier such as ``cht_4fj2…``: the prefix, ``_`` and 128 random bits as 26 base32 characters."""
    return f"{prefix}_{base64.b32encode(secrets.token_bytes(_RANDOM_BYTES)).decode().rstrip('=').lower()}"
