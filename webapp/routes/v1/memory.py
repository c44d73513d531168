"""Memory of a subject, for programs: seeding it before the first word, reading it, and erasing the subject."""

from functools import partial

from sqlalchemy.engine import Connection
from starlette.responses import Response

from agent.erasure import erase
from agent.outcome import Outcome
from agent.transcript import storable
from memory_core.database.owner_row import find_owner
from memory_core.database.transaction import Unit
from memory_core.document import FILENAMES, LIMITS, PURPOSES, Target, usage
from memory_core.errors import MemoryUnavailable, OwnerGone, UnavailableReason
from memory_core.owner import Owner
from memory_core.seeding import seed_memory
from memory_core.store import MemoryView, load_memory
from webapp.api.call import Call, reply
from webapp.api.inputs import SeedMemory
from webapp.api.outputs import Memory, Store
from webapp.api.table import ApiRoute
from webapp.audit import Action
from webapp.auth.api_keys import Scope

SEEDING = (
    "Seeding is for concise facts that an operator wrote or checked: who the subject is, how they like to be answered, "
    "what the work is about. Never send raw messages of end users or documents nobody vouches for: what is seeded "
    "stands in every prompt from then on."
)


async def seed(call: Call) -> Response:
    body: SeedMemory = call.body
    entries = {Target.USER: body.user_memory_entries, Target.MEMORY: body.agent_memory_entries}
    owner = await call.owner()

    def work(unit: Unit) -> Memory:
        seed_memory(unit, entries)
        counts = {target.value: len(texts) for target, texts in entries.items()}
        owner_id = unit.locked_owner.id
        call.auditor.record(unit.connection, Action.MEMORY_SEEDED, agent_id=owner.agent_id, owner_id=owner_id, **counts)
        return _memory(owner, load_memory(unit.connection, owner))

    return reply(await call.create_for(owner, work), 201)


async def show_of_subject(call: Call) -> Response:
    owner = await call.owner()
    return reply(await call.services.write(owner, lambda unit: _read(call, unit.connection, owner)))


async def show(call: Call) -> Response:
    memory_id, organization_id = storable(call.ids["memoryId"]), call.organization_id
    owner = await call.services.read(lambda connection: find_owner(connection, organization_id, memory_id))
    if owner is None:
        raise OwnerGone
    return reply(await call.services.write(owner, lambda unit: _read(call, unit.connection, owner)))


async def erase_subject(call: Call) -> Response:
    owner, services = await call.owner(), call.services

    def record(unit: Unit) -> None:
        call.auditor.record_erasure(unit.connection, owner.agent_id, owner.subject)

    for turn_id in await services.workers.run(partial(erase, services.engine, owner, record)):
        services.running.interrupt(turn_id, Outcome.STOPPED)
    return Response(status_code=204)


def _read(call: Call, connection: Connection, owner: Owner) -> Memory:
    view = load_memory(connection, owner)
    memory = _memory(owner, view)
    call.auditor.record(connection, Action.MEMORY_READ, agent_id=owner.agent_id, owner_id=view.owner_id)
    return memory


def _memory(owner: Owner, view: MemoryView) -> Memory:
    """Raises OwnerGone and MemoryUnavailable."""
    if view.owner_id is None:
        raise OwnerGone
    snapshot = view.snapshot
    if snapshot is None:
        raise MemoryUnavailable(view.unavailable or UnavailableReason.UNREADABLE)
    stores = [
        Store(
            store=target.value,
            filename=FILENAMES[target],
            purpose=PURPOSES[target],
            entries=list(snapshot.of(target)),
            characters=usage(snapshot, target).used,
            limit=LIMITS[target],
        )
        for target in Target
    ]
    return Memory(
        memory_id=view.owner_id,
        agent_id=owner.agent_id,
        subject_id=owner.subject,
        stores=stores,
        updated_at=view.updated_at,
    )


_SUBJECT = "/v1/agents/{agentId}/users/{subjectId}"

ROUTES = (
    ApiRoute(
        method="PUT",
        path=f"{_SUBJECT}/memory",
        handler=seed,
        scope=Scope.MEMORY_SEED,
        summary="Seed a subject's memory",
        about=f"{SEEDING} Create-only, whole or not at all: 409 if there is memory, or was, or a session was created; "
        "422 names the document, the index and the code of the entry that a rule refused, never its text.",
        takes=SeedMemory,
        gives={201: Memory},
        refuses=(409,),
    ),
    ApiRoute(
        method="GET",
        path=f"{_SUBJECT}/memory",
        handler=show_of_subject,
        scope=Scope.MEMORY_READ,
        summary="Read a subject's memory",
        about="Needs no session. 404 for a subject of whom nothing is stored.",
        gives={200: Memory},
    ),
    ApiRoute(
        method="GET",
        path="/v1/memories/{memoryId}",
        handler=show,
        scope=Scope.MEMORY_READ,
        summary="Read a memory by its id",
        gives={200: Memory},
    ),
    ApiRoute(
        method="DELETE",
        path=_SUBJECT,
        handler=erase_subject,
        scope=Scope.ERASE,
        summary="Erase a subject",
        about="Stops what runs for the subject and deletes every row about them with this agent: memory, sessions, "
        "turns and receipts. Their sign-ins end. 204 also when nobody was there.",
        gives={204: None},
    ),
)
