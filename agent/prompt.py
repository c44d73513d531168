"""The system prompt: instructions and policy first, the memory block last.

Stable text stands first so that a provider's prefix cache can keep it; what changes from person to person stands at the
end. The text around the block says that it is data, not instructions. This module reads no database and asks no model.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from importlib import resources

from agent.outcome import MemoryStatus
from memory_core.document import Snapshot, Target, Usage, usage
from memory_core.screening import screen

BLOCK_OPENS = "<persistent_memory_data>"
BLOCK_CLOSES = "</persistent_memory_data>"
HEADINGS = {Target.USER: "USER PROFILE", Target.MEMORY: "AGENT MEMORY"}

#: Stands where an entry that no longer passes screening would stand. It is not content and is not counted.
HELD_BACK = "[one entry is held back and not shown]"
EMPTY = "(empty)"
UNAVAILABLE = (
    "Memory cannot be read right now, so nothing is shown here and nothing can be saved in this turn. "
    "Answer without it. If the person asks, say that their memory could not be read this time and that nothing in it "
    "is lost."
)
DEFAULT_INSTRUCTIONS = (
    "You are a helpful assistant. Answer plainly and to the point, in the language the person writes in. "
    "Use Markdown where it helps reading. Say so when you are not sure."
)
#: Asked for once when a model ends a round of tools without a word to the person.
ASK_FOR_REPLY = "Write your reply to the person now."


@dataclass(frozen=True, slots=True)
class Policy:
    """A reviewed text and the version a turn records."""

    version: str
    text: str


@lru_cache
def load_policy(version: str) -> Policy:
    """The policy of that version, e.g. ``memory_v1``. FileNotFoundError when there is none: a fault of the release."""
    return Policy(
        version, resources.files("agent.policies").joinpath(f"{version}.md").read_text(encoding="utf-8").strip()
    )


def memory_variables(snapshot: Snapshot | None) -> Mapping[str, str]:
    """The five variables of the memory block.

    ``memory_status`` (available, unavailable), ``user_memory_content`` and ``memory_content`` (entries as the model
    may see them), ``user_memory_used`` and ``memory_used`` (code points, as the rules count). ``None`` is
    unavailable memory.
    """
    if snapshot is None:
        return {
            "memory_status": str(MemoryStatus.UNAVAILABLE),
            "user_memory_content": "",
            "memory_content": "",
            "user_memory_used": "",
            "memory_used": "",
        }
    return {
        "memory_status": str(MemoryStatus.AVAILABLE),
        "user_memory_content": _shown(snapshot.user),
        "memory_content": _shown(snapshot.memory),
        "user_memory_used": _used(usage(snapshot, Target.USER)),
        "memory_used": _used(usage(snapshot, Target.MEMORY)),
    }


def memory_block(snapshot: Snapshot | None) -> str:
    """Both documents between their tags, as the model reads them; unavailable memory shows no entries and says so."""
    variables = memory_variables(snapshot)
    if variables["memory_status"] == MemoryStatus.UNAVAILABLE:
        return f"{BLOCK_OPENS}\n{UNAVAILABLE}\n{BLOCK_CLOSES}"
    return (
        f"{BLOCK_OPENS}\n"
        f"{HEADINGS[Target.USER]} [{variables['user_memory_used']}]\n{variables['user_memory_content']}\n\n"
        f"{HEADINGS[Target.MEMORY]} [{variables['memory_used']}]\n{variables['memory_content']}\n"
        f"{BLOCK_CLOSES}"
    )


def compile_prompt(instructions: str, policy: Policy | None, snapshot: Snapshot | None) -> str:
    """The whole system prompt. Without a policy (memory is off, or the agent is memory-free) there is no block at
    all.
    """
    opening = instructions.strip() or DEFAULT_INSTRUCTIONS
    if policy is None:
        return opening
    return f"{opening}\n\n{policy.text}\n\n{memory_block(snapshot)}"


def is_held_back(entry: str) -> bool:
    """Whether a stored entry no longer passes today's screening, so that the model must not see it."""
    return bool(_findings(entry))


def _shown(entries: tuple[str, ...]) -> str:
    return "\n§\n".join(HELD_BACK if is_held_back(entry) else entry for entry in entries) or EMPTY


def _used(size: Usage) -> str:
    return f"{size.percent}% - {size.used}/{size.limit} characters"


@lru_cache(maxsize=4096)
def _findings(entry: str) -> bool:
    return bool(screen(entry))
