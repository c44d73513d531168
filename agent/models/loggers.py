"""The loggers of the packages below the adapter, and how they are kept from saying anything.

No switch may show content: `OPENAI_LOG=debug`, a root logger at DEBUG, a later release that logs bodies again. Cutting
propagation holds whatever levels are set afterwards, on these loggers or on their children.
"""

from __future__ import annotations

import logging
from typing import Final

QUIET_LOGGERS: Final = ("openai", "httpx2", "httpcore2", "httpx", "httpcore", "aiohttp")


def quiet_loggers() -> None:
    """Let no record of these packages reach a handler. Call it once, after they were imported and logging was set up.

    Imported with `OPENAI_LOG` set, the SDK also calls `logging.basicConfig`: whoever sets logging up removes its
    handler from the root.
    """
    for name in QUIET_LOGGERS:
        logger = logging.getLogger(name)
        logger.handlers = [logging.NullHandler()]
        logger.propagate = False
        logger.setLevel(logging.WARNING)
