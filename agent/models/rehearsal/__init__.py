"""The rehearsal model: a deterministic stand-in for when no model is configured, on the first run and in tests.

phrases         what a person can say to it
memory_block    reading the memory block of the prompt
words           everything it says
replies         request → reply, a pure function
server          the wire protocol, on `connection`
"""

from agent.models.rehearsal.server import MODEL_NAME, RehearsalServer

__all__ = ["MODEL_NAME", "RehearsalServer"]
