"""Numbers for Prometheus: what the records of ``telemetry`` say, counted. Labels are codes of ours, never words or ids.

With several worker processes the counts of all of them are added up, whichever answers: each writes to files in the
folder that the environment names (FOLDER_VARIABLE) when this module is first imported.
"""

from typing import Final

from prometheus_client import REGISTRY, CollectorRegistry, Counter, Histogram, generate_latest
from prometheus_client.multiprocess import MultiProcessCollector

FOLDER_VARIABLE: Final = "PROMETHEUS_MULTIPROC_DIR"
#: Seconds: from a first word out of a cache to a turn at its limit.
_BUCKETS: Final = (0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120, 300, 600)

_turns = Counter("remembrancer_turns", "Turns that have ended.", ["outcome", "memory_outcome"])
_turn_seconds = Histogram("remembrancer_turn_seconds", "From the message to the end on record.", buckets=_BUCKETS)
_first_token_seconds = Histogram("remembrancer_first_token_seconds", "Until the model's first text.", buckets=_BUCKETS)
_tokens = Counter("remembrancer_tokens", "Tokens as the model's server counts them.", ["kind"])
_memory_updates = Counter("remembrancer_memory_updates", "Turns that used the memory tool.", ["outcome", "code"])


def turn_ended(
    outcome: str,
    memory_outcome: str,
    *,
    seconds: float,
    first_token_ms: int | None,
    input_tokens: int | None,
    output_tokens: int | None,
) -> None:
    """Count a turn."""
    _turns.labels(outcome, memory_outcome).inc()
    _turn_seconds.observe(seconds)
    if first_token_ms is not None:
        _first_token_seconds.observe(first_token_ms / 1000)
    _tokens.labels("input").inc(input_tokens or 0)
    _tokens.labels("output").inc(output_tokens or 0)


def memory_updated(outcome: str, code: str) -> None:
    """Count a turn in which the model used its memory tool."""
    _memory_updates.labels(outcome, code).inc()


def exposition(*, shared: bool) -> bytes:
    """Everything in Prometheus' text format. ``shared``: of all worker processes."""
    registry = REGISTRY
    if shared:
        registry = CollectorRegistry()
        MultiProcessCollector(registry)
    return generate_latest(registry)
