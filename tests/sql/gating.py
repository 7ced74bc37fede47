"""What tests of gates have in common: agreeing, claiming through a gate, and what waits before it."""

from typing import Any
from uuid import UUID

from ferryman.kernel.pool import Session
from ferryman.tasks.model import Claimed
from ferryman.tasks.states import READY, TASK
from ferryman.tasks.store import agreements, gates
from ferryman.tasks.store.gates import Asked, Looked
from ferryman.testing import plant
from tests.sql.moves import LEASE, MARGIN, OWNER


async def agree(tx: Session, name: str = "default", tenant: str = "*", **terms: Any) -> None:
    await agreements.add(tx, name, tenant=tenant)
    await agreements.change(tx, name, tenant=tenant, changes=terms)


async def claim(
    tx: Session, *asked: Asked, room: int = 100, keys: int = 50, names: Any = ("mail",), kinds: Any = ()
) -> tuple[list[Claimed], list[Looked]]:
    wanted = asked or (Asked("default", "default", 100, ""),)
    locked = await gates.lock(tx, sorted({each.queue for each in wanted}))
    return await gates.pass_through(
        tx,
        wanted,
        locked=locked,
        room=room,
        keys=keys,
        owner=OWNER,
        names=list(names),
        kinds=list(kinds),
        lease=LEASE,
        margin=MARGIN,
    )


async def ready(tx: Session, count: int = 1, **columns: Any) -> list[UUID]:
    return [await plant(tx, TASK, READY, **columns) for _ in range(count)]


def ids(claimed: list[Claimed]) -> set[UUID]:
    return {task.id for task in claimed}
