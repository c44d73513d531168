"""Who calls: the API key of a request, what it may do, and how often somebody may guess.

A key that is unknown, wrong, expired, revoked or another organization's is refused alike. Only presented keys that are
wrong count as guesses; whoever has guessed too often from one address is not listened to for a while.
"""

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager

from starlette.requests import Request

from agent.errors import TooManyTurns
from memory_core.database.transaction import Unit
from webapp.audit import ActorKind, Auditor
from webapp.auth.api_keys import ApiKey, Scope, authenticate
from webapp.errors import ApiKeyRefused, ScopeMissing, TooManyWrongKeys
from webapp.limits import Rate, rate_key
from webapp.services import Services

HEADER = "x-api-key"
WRONG_KEYS_A_MINUTE = 30


class Doorkeeper:
    """Lets keys in. One for a process: it remembers who has guessed, and how much each key asks for at once."""

    def __init__(self, wrong_keys_a_minute: int = WRONG_KEYS_A_MINUTE) -> None:
        self._guesses = Rate(wrong_keys_a_minute, error=TooManyWrongKeys)
        self._answers: Counter[str] = Counter()

    async def admit(self, request: Request, services: Services, scope: Scope) -> ApiKey:
        """The key that came with a request. Raises ApiKeyRefused, TooManyWrongKeys, ScopeMissing and StorageFailed."""
        address = rate_key(request)
        presented = request.headers.getlist(HEADER)
        self._guesses.check(address)
        if not presented:
            raise ApiKeyRefused

        def look_up(unit: Unit) -> ApiKey | None:
            return authenticate(unit, services.organization.id, presented[0])

        key = await services.change(look_up) if len(presented) == 1 else None
        if key is None:
            self._guesses.take(address)
            raise ApiKeyRefused
        if scope not in key.scopes:
            raise ScopeMissing(scope)
        return key

    @contextmanager
    def one_answer_more(self, key: ApiKey, at_once: int) -> Iterator[None]:
        """Bound the answers that one key waits for and that are nobody's turn. Raises TooManyTurns."""
        if self._answers[key.id] >= at_once:
            raise TooManyTurns(at_once)
        self._answers[key.id] += 1
        try:
            yield
        finally:
            self._answers[key.id] -= 1


def auditor_of(key: ApiKey) -> Auditor:
    """The key as the one who acts."""
    return Auditor(key.organization_id, ActorKind.KEY, key.id)
