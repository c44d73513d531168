"""What an ID token proves: a pure check of signature and claims, and the person it names.

Algorithms are pinned; what the token or the provider's document offers beside them is not looked at. The subject is
taken exactly as given. Name and e-mail are for display, may be missing, and never decide anything.
"""

import unicodedata
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from authlib.oidc.core import CodeIDToken
from joserfc import jwt
from joserfc.errors import ClaimError, InvalidKeyIdError, JoseError
from joserfc.jwk import KeySet
from joserfc.jws import JWSRegistry

from memory_core.owner import SUBJECT_MAX_CHARS
from webapp.auth.operators import OperatorRule, claims_named
from webapp.errors import IdentityInvalid

ALGORITHMS = ("RS256", "ES256")
LEEWAY_SECONDS = 120
_NAME_MAX_CHARS = 200
_BREAKS = frozenset({"Cc", "Zl", "Zp"})
# Embeddings, overrides and isolates: a name must not turn the text around it.
_TURNS_TEXT = frozenset("\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069")


class KeyUnknown(Exception):
    """The token is signed with a key that was not published when the keys were fetched."""


@dataclass(frozen=True, slots=True)
class Identity:
    """A person as the identity provider vouches for them. `claims` are those of the ID token that decide something."""

    subject: str = field(repr=False)
    name: str | None = field(repr=False)
    email: str | None = field(repr=False)
    claims: Mapping[str, Any] = field(default_factory=dict, repr=False)


@dataclass(frozen=True, slots=True)
class Expected:
    """What a token must agree with: whose it is, who it is for, and the sign-in it answers."""

    issuer: str
    client_id: str
    nonce: str = field(repr=False)


def read_id_token(
    token: str,
    keys: KeySet,
    expected: Expected,
    *,
    access_token: str | None = None,
    now: Callable[[], int] | None = None,
) -> Mapping[str, Any]:
    """The claims of `token`, if it holds in every respect.

    Checked: signature and algorithm; issuer, audience, authorized party, nonce; expiry, not-before and issue time
    within two minutes of our clock; the access token's hash where there is one. Raises IdentityInvalid naming the
    check, and KeyUnknown when the keys should be fetched again first.
    """
    registry = JWSRegistry(algorithms=ALGORITHMS, strict_check_header=False)
    options = {
        "iss": {"essential": True, "value": expected.issuer},
        "aud": {"essential": True, "value": expected.client_id},
    }
    params = {"nonce": expected.nonce, "client_id": expected.client_id, "access_token": access_token}
    try:
        decoded = jwt.decode(token, keys, registry=registry)
        CodeIDToken(decoded.claims, decoded.header, options, params).validate(now=now, leeway=LEEWAY_SECONDS)
    except InvalidKeyIdError:
        raise KeyUnknown from None
    except ClaimError as error:
        raise IdentityInvalid(f"{error.error}:{error.claim}") from None
    except JoseError as error:
        raise IdentityInvalid(error.error) from None
    except (ValueError, TypeError, KeyError, AttributeError):
        raise IdentityInvalid("unreadable") from None
    return decoded.claims


def identity_from(
    claims: Mapping[str, Any], userinfo: Mapping[str, Any], operators: Sequence[OperatorRule] = ()
) -> Identity:
    """The person `claims` name; `userinfo` only adds what is shown. Of the claims those are kept that `operators` ask
    about. Raises IdentityInvalid for an unusable subject.
    """
    subject = claims["sub"]
    if not (isinstance(subject, str) and 1 <= len(subject) <= SUBJECT_MAX_CHARS and _storable(subject)):
        raise IdentityInvalid("sub")
    shown = {**userinfo, **claims} if userinfo.get("sub") == subject else claims
    return Identity(
        subject=subject,
        name=_display(shown.get("name")) or _display(shown.get("preferred_username")),
        email=_display(shown.get("email")),
        claims=claims_named(operators, claims),
    )


def _storable(text: str) -> bool:
    return not any(char == "\0" or "\ud800" <= char <= "\udfff" for char in text)


def _display(value: object) -> str | None:
    """`value` as one short line to show, or None when there is nothing to show."""
    if not isinstance(value, str):
        return None
    kept = (" " if unicodedata.category(char) in _BREAKS else char for char in value if char not in _TURNS_TEXT)
    line = " ".join("".join(char for char in kept if not "\ud800" <= char <= "\udfff").split())
    return line[:_NAME_MAX_CHARS] or None
