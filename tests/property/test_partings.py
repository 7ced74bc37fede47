"""R4: parents, children and events in many orders of their statements: nobody waits for what has come, no child is left.

Where there are more than ORDERS of them, that many are taken by chance, the same each time.
"""

import random
from collections.abc import AsyncIterator, Callable, Sequence
from datetime import timedelta
from typing import Any, NamedTuple
from uuid import UUID

import pytest

from ferryman.kernel import errors, ids, invariants
from ferryman.kernel.pool import Database, Session
from ferryman.tasks import joins, store
from ferryman.tasks.intake import signal
from ferryman.tasks.model import Outcome, Park
from ferryman.tasks.ports import Owners
from ferryman.tasks.states import FAILED, READY, RUNNING, SUCCEEDED, TASK
from ferryman.tasks.store import steps
from ferryman.tasks.watch import TASK_INVARIANTS
from ferryman.tasks.work.settle import settle
from ferryman.testing.plants import plant
from tests.property.interleave import Driver, Program, driving, orders

pytestmark = pytest.mark.contract("R4", "T19")

ORDERS = 30
HOLDER = ids.boot_id()
OWNERS = Owners({joins.CHILD: joins.Joins()})


class Family(NamedTuple):
    """A parent and the children it waits for."""

    parent: UUID
    children: tuple[UUID, UUID]


async def planted(db: Database, *, parked: bool) -> Family:
    """Plant a parent, running or parked in a join and for an event, and two running children."""
    async with db.transaction() as tx:
        held: dict[str, Any] = {"epoch": 1, "lease_count": 1}
        where = {"rank": None, "wake_at": timedelta(days=1)} if parked else {"lease_owner": HOLDER}
        parent = await plant(tx, TASK, READY if parked else RUNNING, **held, **where)
        children = tuple(
            [
                await plant(tx, TASK, RUNNING, **held, lease_owner=HOLDER, callback="child", callback_ref=str(parent))
                for _ in range(2)
            ]
        )
        for n, child in enumerate(children, 1):
            await tx.fetch(
                "insert into ferryman.task_steps (task, kind, name, nth, child, state, at)"
                " values ($1, 'child', 'mail', $2, $3, 'open', now())",
                parent,
                n,
                child,
            )
        if parked:
            await tx.fetch(
                "insert into ferryman.task_waits (task, epoch, open, children, names) values ($1, 1, 2, $2, '{go}')",
                parent,
                list(children),
            )
    return Family(parent, (children[0], children[1]))


def ends(child: int, state: Any = SUCCEEDED) -> Callable[[Family], Program]:
    def of(family: Family) -> Program:
        async def program(tx: Session) -> Any:
            told = Outcome(family.children[child], 1, HOLDER, state, callback="child", callback_ref=str(family.parent))
            if state is FAILED:
                told = told._replace(code="TASK_EXECUTION_FAILED", reason="no")
            rows, busy = await settle(tx, OWNERS, [told])
            return len(rows), len(busy)

        return program

    return of


def parks(family: Family) -> Program:
    async def program(tx: Session) -> Any:
        park = Park(names=("go",), children=family.children, open=2)
        return await steps.park(tx, [Outcome(family.parent, 1, HOLDER, READY, park=park)])

    return program


def parks_for_one(family: Family) -> Program:
    async def program(tx: Session) -> Any:
        park = Park(children=family.children[:1], open=1)
        return await steps.park(tx, [Outcome(family.parent, 1, HOLDER, READY, park=park)])

    return program


def sends(family: Family) -> Program:
    async def program(tx: Session) -> Any:
        return await signal.send(tx, family.parent, "go", "1", tenant="default")

    return program


def promotes(_family: Family) -> Program:
    async def program(tx: Session) -> Any:
        return await store.promote(tx, limit=10)

    return program


def cancels(which: Callable[[Family], UUID]) -> Callable[[Family], Program]:
    def of(family: Family) -> Program:
        async def program(tx: Session) -> Any:
            return await joins.end(tx, OWNERS, [which(family)], tenant="default")

        return program

    return of


def fails(family: Family) -> Program:
    async def program(tx: Session) -> Any:
        told = Outcome(family.parent, 1, HOLDER, FAILED, code="TASK_EXECUTION_FAILED", reason="no", bore=True)
        return await settle(tx, OWNERS, [told])

    return program


def _parent(family: Family) -> UUID:
    return family.parent


def _first(family: Family) -> UUID:
    return family.children[0]


# What meets, and whether the parent is parked before.
MEETINGS: dict[str, tuple[bool, Callable[[Family], Program], Callable[[Family], Program]]] = {
    "the last two children end": (True, ends(0), ends(1, FAILED)),
    "a parent parks while its child ends": (False, parks_for_one, ends(0)),
    "a parent parks while its event comes": (False, parks, sends),
    "an event comes while the time is over": (True, sends, promotes),
    "an event comes while a child ends": (True, sends, ends(0)),
    "a parent is cancelled while its child ends": (True, cancels(_parent), ends(0)),
    "a parent is cancelled while its child is": (True, cancels(_parent), cancels(_first)),
    "a parent is cancelled while its event comes": (True, cancels(_parent), sends),
    "a parent fails while its child ends": (False, fails, ends(0)),
    "a parent fails while it is cancelled": (False, fails, cancels(_parent)),
}


@pytest.fixture
async def driver(database_url: str) -> AsyncIterator[Driver]:
    async with driving(database_url) as made:
        yield made


@pytest.mark.parametrize("meeting", MEETINGS)
async def test_nobody_waits_for_what_has_come_and_no_child_is_left(meeting: str, db: Database, driver: Driver) -> None:
    parked, one, other = MEETINGS[meeting]
    counts = []
    for place, program in enumerate((one, other)):
        counts.append(await driver.count(place, program(await planted(db, parked=parked))))
    async with db.session() as tx:
        await tx.fetch("delete from ferryman.tasks")

    possible = list(orders(*counts))
    chosen = random.Random(meeting).sample(possible, min(ORDERS, len(possible)))
    for order in chosen:
        family = await planted(db, parked=parked)
        try:
            await driver.run((one(family), other(family)), order)
        except errors.TaskEnded:
            assert "cancelled" in meeting
        await judge(db, family, order)


async def judge(db: Database, family: Family, order: Sequence[int]) -> None:
    async with db.session() as tx:
        [parent] = await tx.fetch("select * from ferryman.tasks where id = $1", family.parent)
        live = await tx.fetch(
            "select id from ferryman.tasks where id = any($1) and finished_at is null", list(family.children)
        )
        open_calls = await tx.fetch(
            "select child from ferryman.task_steps where task = $1 and state = 'open'", family.parent
        )
        broken = [each for each in await invariants.check(tx, TASK_INVARIANTS) if each.name in SOUND]
        stuck, strays = await steps.stuck(tx, 10), await steps.strays(tx, 10)
        await tx.fetch("delete from ferryman.tasks")
    assert (broken, list(stuck), list(strays)) == ([], [], []), order
    assert {row["id"] for row in live} == {row["child"] for row in open_calls}, order
    if parent["finished_at"] is not None:
        assert live == [], order


# Planted rows have no log; what is said of rows must hold.
SOUND = {"running_is_leased", "one_place_to_wait", "ended_is_finished", "parked_has_a_clock", "join_counts_the_living"}
