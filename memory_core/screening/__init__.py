"""What may never be stored. The door is `screen`; every path that writes goes through it.

    screen            one entry, normalised, on its own
    screen_document   the rendered whole: what only shows when entries stand together

A finding names its rule and holds no text; rules live in one module each kind. Standard library only.
"""

from __future__ import annotations

from memory_core.screening.finding import Finding, Severity
from memory_core.screening.structure import document_findings, entry_findings

__all__ = ["Finding", "Severity", "screen", "screen_document"]


def screen(text: str) -> tuple[Finding, ...]:
    """The findings in one normalised entry; none means it may be stored."""
    return entry_findings(text)


def screen_document(rendered: str) -> tuple[Finding, ...]:
    """The findings in a rendered document that entries can make together, one for each place."""
    return document_findings(rendered)
