"""API keys: the list, one of them, and the form for a new one."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

from webapp.auth.api_keys import ApiKey, Scope
from webapp.operator_pages import words

NAME_MAX_CHARS: Final = 100
#: How long a new key may live: what the form sends, what it says, and how long that is.
EXPIRIES: Final[tuple[tuple[str, str, timedelta | None], ...]] = (
    ("30", "30 days", timedelta(days=30)),
    ("90", "90 days", timedelta(days=90)),
    ("365", "A year", timedelta(days=365)),
    ("none", "Never", None),
)
_FIRST_EXPIRY: Final = "90"


@dataclass(frozen=True, slots=True)
class KeyView:
    """A key as its list tells; nothing here opens anything."""

    id: str
    name: str
    scopes: tuple[str, ...]
    created_at: datetime
    used_at: datetime | None
    expires_at: datetime | None
    revoked_at: datetime | None
    is_live: bool
    state: str
    tone: str


@dataclass(frozen=True, slots=True)
class ScopeChoice:
    value: str
    label: str
    is_chosen: bool


@dataclass(frozen=True, slots=True)
class ExpiryChoice:
    value: str
    label: str
    is_chosen: bool


@dataclass(frozen=True, slots=True)
class KeyForm:
    """The form for a new key, with what was chosen and what is wrong with it."""

    name: str = ""
    scopes: tuple[Scope, ...] = ()
    expiry: str = _FIRST_EXPIRY
    name_problem: str = ""
    scopes_problem: str = ""
    expiry_problem: str = ""

    @property
    def is_good(self) -> bool:
        return not (self.name_problem or self.scopes_problem or self.expiry_problem)

    @property
    def expires_in(self) -> timedelta | None:
        return next(length for value, _, length in EXPIRIES if value == self.expiry)

    @property
    def scope_choices(self) -> tuple[ScopeChoice, ...]:
        return tuple(ScopeChoice(scope, words.SCOPES[scope], scope in self.scopes) for scope in Scope)

    @property
    def expiry_choices(self) -> tuple[ExpiryChoice, ...]:
        return tuple(ExpiryChoice(value, label, value == self.expiry) for value, label, _ in EXPIRIES)


def read_key_form(name: str, scopes: Sequence[str], expiry: str) -> KeyForm:
    """What the form brought, judged."""
    name = " ".join(name.split())
    known = {str(scope) for scope in Scope}
    chosen = tuple(Scope(scope) for scope in scopes if scope in known)
    name_problem = scopes_problem = expiry_problem = ""
    if not name:
        name_problem = "Write what the key is for, so that you know it again."
    elif len(name) > NAME_MAX_CHARS or "\0" in name:
        name_problem = f"A name has at most {NAME_MAX_CHARS} characters, and no control characters."
    if not chosen or len(chosen) != len(scopes):
        scopes_problem = "Choose at least one thing that the key may do."
    if expiry not in {value for value, _, _ in EXPIRIES}:
        expiry, expiry_problem = _FIRST_EXPIRY, "Choose how long the key lives."
    return KeyForm(name, chosen, expiry, name_problem, scopes_problem, expiry_problem)


def key_view(key: ApiKey) -> KeyView:
    """A key with its state in a word."""
    state, tone = _state(key)
    return KeyView(
        id=key.id,
        name=key.name or key.id,
        scopes=tuple(scope.value for scope in Scope if scope in key.scopes),
        created_at=key.created_at,
        used_at=key.used_at,
        expires_at=key.expires_at,
        revoked_at=key.revoked_at,
        is_live=key.is_live,
        state=state,
        tone=tone,
    )


def _state(key: ApiKey) -> tuple[str, str]:
    if key.revoked_at is not None:
        return "Revoked", "bad"
    return ("Live", "good") if key.is_live else ("Expired", "")
