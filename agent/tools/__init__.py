"""What a model can be given to call. Two explicit tuples, so that no tool reaches a request by accident.

A tool is one module: its schema as the model sees it, and one function from untrusted arguments to a result.
"""

from collections.abc import Mapping
from typing import Any

from agent.tools import memory_update

#: Tools of a signed-in person's agent, by the name an agent's configuration switches them with.
WITH_MEMORY: tuple[tuple[str, Mapping[str, Any]], ...] = (("memory", memory_update.SCHEMA),)

#: Tools of the agent that knows nobody.
MEMORY_FREE: tuple[tuple[str, Mapping[str, Any]], ...] = ()
