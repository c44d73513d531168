"""Who operates this deployment: rules over what sign-in proved, judged again at each request. Pure.

A rule names a subject, or a claim of the signed ID token and the value it must have. What a person can change
themselves (their e-mail address, their names) makes nobody an operator.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

#: The claim that every rule without one of its own is about.
SUBJECT = "sub"
#: Claims that people, or whoever keeps their addresses, can change.
CHANGEABLE = frozenset({"email", "name", "preferred_username"})


@dataclass(frozen=True, slots=True)
class OperatorRule:
    """``claim`` has this value, or holds it in its list. Values are compared letter by letter."""

    claim: str
    value: str = field(repr=False)


def is_operator(rules: Iterable[OperatorRule], subject: str, claims: Mapping[str, Any]) -> bool:
    """Whether one of the rules fits a person."""
    return any(_fits(rule, subject if rule.claim == SUBJECT else claims.get(rule.claim)) for rule in rules)


def claims_named(rules: Iterable[OperatorRule], claims: Mapping[str, Any]) -> dict[str, Any]:
    """The claims that the rules ask about and nothing else: texts, lists of texts, yes or no."""
    names = {rule.claim for rule in rules} - {SUBJECT}
    kept = {name: _kept(claims[name]) for name in sorted(names) if name in claims}
    return {name: value for name, value in kept.items() if value is not None}


def _fits(rule: OperatorRule, claim: object) -> bool:
    if isinstance(claim, bool):
        return rule.value == str(claim).lower()
    return rule.value in claim if isinstance(claim, list) else rule.value == claim


def _kept(claim: object) -> str | bool | list[str] | None:
    if isinstance(claim, bool) or (isinstance(claim, str) and _storable(claim)):
        return claim
    if isinstance(claim, list):
        return [part for part in claim if isinstance(part, str) and _storable(part)]
    return None


def _storable(text: str) -> bool:
    return not any(char == "\0" or "\ud800" <= char <= "\udfff" for char in text)
