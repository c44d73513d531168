"""Sealing: what sign-in must keep but nobody should read in a database dump, encrypted under the deployment's key."""

import hashlib
import hmac

from joserfc import jwe
from joserfc.errors import JoseError
from joserfc.jwk import OctKey

_HEADER = {"alg": "dir", "enc": "A256GCM"}
_PURPOSE = b"remembrancer: what sign-in keeps, 1"


class Seal:
    """Seals and opens short texts. A text sealed under another key opens as None: a changed key is harmless."""

    def __init__(self, secret_key: bytes) -> None:
        self._key = OctKey.import_key(hmac.digest(secret_key, _PURPOSE, hashlib.sha256))

    def close(self, text: str) -> str:
        return jwe.encrypt_compact(dict(_HEADER), text, self._key)

    def open(self, sealed: str | None) -> str | None:
        if sealed is None:
            return None
        try:
            plaintext = jwe.decrypt_compact(sealed, self._key).plaintext
        except (JoseError, ValueError):
            return None
        return None if plaintext is None else plaintext.decode()
