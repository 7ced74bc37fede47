"""R4: every pair of moves on one set of tasks, in the orders of their statements: one winner, sound rows, no deadlock.

The actors want the same two tasks and name them in opposite orders. What each says it moved is compared with the log: as
many events as there were movers, and each task has one history that leads from move to move. Three of those that can begin
on one ground meet as well, and a claim that follows one of them while another goes on. Whoever else was there, what somebody
cancelled does not live on.
"""

from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from datetime import timedelta
from itertools import combinations_with_replacement
from math import comb
from typing import Any, NamedTuple
from uuid import UUID

import pytest

from ferryman.kernel import ids
from ferryman.kernel.db import Row, Tx
from ferryman.kernel.doorbell import NoDoorbell
from ferryman.kernel.pool import Database, Line, Session
from ferryman.tasks import store, watch
from ferryman.tasks.intake import cancel
from ferryman.tasks.model import Ended, Outcome
from ferryman.tasks.ports import Owners
from ferryman.tasks.states import CANCELLED, FAILED, PENDING, READY, RUNNING, SUCCEEDED, TASK, TaskState
from ferryman.tasks.watch import TASK_INVARIANTS
from ferryman.tasks.work.settle import settle
from ferryman.testing.plants import plant
from tests.property.interleave import MOST_OF_THREE, Driver, Walks, driving, orders, some, walks

SECOND = timedelta(seconds=1)
LEASE, MARGIN = timedelta(seconds=30), timedelta(seconds=5)
HOLDER = ids.boot_id()
NEWCOMERS = (ids.boot_id(), ids.boot_id(), ids.boot_id())
EPOCH = 7


class Parents:
    """The owner of a callback, with a row that it locks and counts in."""

    async def lock(self, tx: Tx, refs: Sequence[str]) -> None:
        await tx.fetch("select from parents where ref = any($1) order by ref for update", list(refs))

    async def settle(self, tx: Tx, ended: Sequence[Ended]) -> None:
        told = [each.callback_ref for each in ended]
        await tx.fetch("update parents set told = told + 1 where ref = any($1) returning ref", told)


OWNERS = Owners({"tool": Parents()})

Moved = set[UUID]
Move = Callable[[Session, Sequence[UUID], int], Awaitable[Moved]]


def told(tasks: Sequence[UUID], state: TaskState, *, owing: bool) -> list[Outcome]:
    failed: dict[str, Any] = {"code": "TASK_EXECUTION_FAILED", "reason": "no", "used": int(state is READY)}
    says = {} if state is SUCCEEDED else failed
    if owing:
        says = says | {"callback": "tool", "callback_ref": "one"}
    return [Outcome(task, EPOCH, HOLDER, state)._replace(**says) for task in tasks]


def by_turn(state: TaskState) -> Move:
    async def act(tx: Session, tasks: Sequence[UUID], _place: int) -> Moved:
        outcomes = told(tasks, state, owing=False)
        _, stale, busy = await store.turn(
            tx, outcomes, owner=HOLDER, lanes=(), names=[], kinds=[], lease=LEASE, margin=MARGIN
        )
        return set(tasks) - stale - busy

    return act


def by_settle(state: TaskState) -> Move:
    async def act(tx: Session, tasks: Sequence[UUID], _place: int) -> Moved:
        rows, _busy = await settle(tx, OWNERS, told(tasks, state, owing=True))
        return {row["id"] for row in rows}

    return act


async def claims(tx: Session, _tasks: Sequence[UUID], place: int) -> Moved:
    claimed, *_ = await store.turn(
        tx,
        (),
        owner=NEWCOMERS[place],
        lanes=[("default", "default", 10)],
        names=["mail"],
        kinds=OWNERS.kinds,
        lease=LEASE,
        margin=MARGIN,
    )
    return {task.id for task in claimed}


async def renews(tx: Session, tasks: Sequence[UUID], _place: int) -> Moved:
    await store.renew(tx, tasks, [EPOCH] * len(tasks), owner=HOLDER, lease=LEASE, margin=MARGIN)
    return set()  # a renewal is no move


async def cancels(tx: Session, tasks: Sequence[UUID], _place: int) -> Moved:
    return {row["id"] for row in await cancel.end(tx, OWNERS, tasks, tenant="default")}


async def reaps(tx: Session, tasks: Sequence[UUID], _place: int) -> Moved:
    return await _by_rule("W13", tx, tasks)


async def expires(tx: Session, tasks: Sequence[UUID], _place: int) -> Moved:
    return await _by_rule("T21", tx, tasks)


async def _by_rule(name: str, tx: Session, tasks: Sequence[UUID]) -> Moved:
    """Find and act as the watchdog does; which of the found were moved is told by the log.

    Each time it is a watchdog that has not looked before. A look waits for the driver here, and where looks take long the next
    ones see only what came due since the last.
    """
    rules = watch.rules(OWNERS, NoDoorbell(), sweep=SECOND, interval=SECOND)
    [rule] = [each for each in rules if each.name == name]
    found = await rule.find(tx, 10)
    if not found:
        return set()
    count = await rule.act(tx, sorted(found, key=lambda row: list(tasks).index(row["id"])))
    assert count in (0, 1, 2)
    return set(list(tasks)[:count])


async def promotes(tx: Session, tasks: Sequence[UUID], _place: int) -> Moved:
    count, _, _ = await store.promote(tx, limit=10)
    return set(list(tasks)[:count])


async def reclaims(tx: Session, tasks: Sequence[UUID], _place: int) -> Moved:
    count, _busy = await store.reclaim(tx, owner=HOLDER, held=[])
    return set(list(tasks)[:count])


MOVES: dict[str, Move] = {
    "claim": claims,
    "renew": renews,
    "complete": by_turn(SUCCEEDED),
    "fail": by_turn(FAILED),
    "retry": by_turn(READY),
    "complete owing": by_settle(SUCCEEDED),
    "fail owing": by_settle(FAILED),
    "retry owing": by_settle(READY),
    "cancel": cancels,
    "reap": reaps,
    "expire": expires,
    "promote": promotes,
    "reclaim": reclaims,
}


class Ground(NamedTuple):
    """How the tasks stand before anybody begins."""

    state: TaskState
    columns: dict[str, Any]


LAPSED = {"epoch": EPOCH, "lease_count": EPOCH, "lease_owner": HOLDER, "leased_until": -SECOND}
GROUNDS = {
    "running": Ground(RUNNING, LAPSED),
    "running owing": Ground(RUNNING, LAPSED | {"callback": "tool", "callback_ref": "one"}),
    "last attempt": Ground(RUNNING, LAPSED | {"max_retries": 0, "callback": "tool", "callback_ref": "one"}),
    "ready": Ground(READY, {"epoch": EPOCH, "lease_count": EPOCH, "rank": -SECOND}),
    "too late": Ground(READY, {"ends_at": -SECOND, "rank": -SECOND, "callback": "tool", "callback_ref": "one"}),
    "due": Ground(PENDING, {"wake_at": -SECOND, "due_at": -SECOND}),
}

# Which moves can begin on which ground; each pair is tried wherever one of the two can.
BEGINS: dict[str, set[str]] = {
    "running": {"renew", "complete", "fail", "retry", "cancel", "reap", "reclaim"},
    "running owing": {"renew", "complete owing", "fail owing", "retry owing", "cancel", "reap", "reclaim"},
    "last attempt": {"complete owing", "fail owing", "cancel", "reap"},
    "ready": {"claim", "cancel"},
    "too late": {"cancel", "expire"},
    "due": {"promote", "cancel"},
}
# After one of these the others find nothing left to do: they leave the state that all begin in, under one fence.
ONCE = {"complete", "fail", "complete owing", "fail owing", "retry", "retry owing", "reap", "reclaim"}

# How many steps each move takes alone on each ground (statements and the commit), where it is not 2 (nothing to do, or one
# statement). Each is counted again when it runs: the number of schedules is what this table says, or the test fails.
STEPS = {
    ("running", "cancel"): 3, ("running", "reap"): 3, ("running", "complete owing"): 3, ("running", "fail owing"): 3,
    ("running owing", "cancel"): 5, ("running owing", "reap"): 3, ("running owing", "complete owing"): 4,
    ("running owing", "fail owing"): 4, ("last attempt", "cancel"): 5, ("last attempt", "reap"): 6,
    ("last attempt", "complete owing"): 4, ("last attempt", "fail owing"): 4, ("ready", "cancel"): 3,
    ("ready", "complete owing"): 3, ("ready", "fail owing"): 3, ("too late", "cancel"): 5, ("too late", "expire"): 5,
    ("too late", "complete owing"): 3, ("too late", "fail owing"): 3, ("due", "cancel"): 3, ("due", "complete owing"): 3,
    ("due", "fail owing"): 3,
}  # fmt: skip
MOST_STEPS = max(STEPS.values())

# What no worker does there: at its cap a task is not tried again.
NEVER: dict[str, set[str]] = {ground: set() for ground in GROUNDS} | {"last attempt": {"retry", "retry owing"}}

Pair = tuple[str, str]
PAIRS: dict[str, list[Pair]] = {
    ground: [
        pair for pair in combinations_with_replacement(MOVES, 2) if begins & {*pair} and not NEVER[ground] & {*pair}
    ]
    for ground, begins in BEGINS.items()
}
Three = tuple[str, ...]
THREES: dict[str, list[Three]] = {
    ground: list(combinations_with_replacement([name for name in MOVES if name in begins], 3))
    for ground, begins in BEGINS.items()
}
# A claim can begin there when another move has been, while a third goes on that began before.
FOLLOWED: dict[str, list[Three]] = {
    ground: [
        ("claim", *pair)
        for pair in combinations_with_replacement([name for name in MOVES if name in BEGINS[ground]], 2)
    ]
    for ground in ("running", "running owing", "due")
}
FEW_OF_THREE = 2  # orders of each three in the usual run


def steps(ground: str, move: str) -> int:
    return STEPS.get((ground, move), 2)


def schedules(ground: str, pair: Pair) -> int:
    """Return in how many orders the steps of two can come."""
    one, other = (steps(ground, move) for move in pair)
    return comb(one + other, one)


# A fresh ground in one round trip: rows put past the guard of births, by a connection that fires no triggers. It is one of its
# own, because to switch them off and on again would throw away every plan of the session.
PAST_GUARDS = {"session_replication_role": "replica"}
RESET = """
create function reset(ground jsonb) returns uuid[] language plpgsql as $$
declare
    made uuid[];
begin
    delete from ferryman.events;
    delete from ferryman.tasks;
    delete from parents;
    insert into parents (ref) values ('one');
    with born as (
        insert into ferryman.tasks
        select task.*
        from (select gen_random_uuid() as id from generate_series(1, 2)) as fresh,
             jsonb_populate_record(null::ferryman.tasks, ground || jsonb_build_object('id', fresh.id)) as task
        returning id
    )
    select array_agg(id order by id) into made from born;
    return made;
end
$$
"""
FOUND = """
select task.id, task.state, task.callback, parent.told,
       array(select event.to_state from ferryman.events as event where event.subject = task.id order by event.id) as went
from ferryman.tasks as task, parents as parent
"""
# Every invariant, in one round trip.
BROKEN = " union all ".join(
    f"(select '{each.name}' as name, found.row from ({each.statement.sql()}) as found)" for each in TASK_INVARIANTS
)


class Field:
    """The database that all act on."""

    def __init__(self, db: Database, past_guards: Line, ground: dict[str, str]) -> None:
        self._db = db
        self._past_guards = past_guards
        self._ground = ground

    async def reset(self, ground: str) -> list[UUID]:
        [row] = await self._past_guards.fetch("select reset($1::jsonb) as made", self._ground[ground])
        return list(row["made"])

    async def found(self) -> Sequence[Row]:
        async with self._db.session() as session:
            return await session.fetch(FOUND)

    async def broken(self) -> list[str]:
        async with self._db.session() as session:
            return [f"{row['name']}: {row['row']}" for row in await session.fetch(BROKEN, 10)]


@pytest.fixture
async def field(database_url: str, db: Database) -> AsyncIterator[Field]:
    async with db.transaction() as tx:
        await tx.fetch("create table parents (ref text primary key, told integer not null default 0)")
        await tx.fetch(RESET)
        grounds = {}
        for name, ground in GROUNDS.items():
            planted = await plant(tx, TASK, ground.state, **ground.columns)
            [row] = await tx.fetch(
                "select to_jsonb(task)::text as row from ferryman.tasks as task where id = $1", planted
            )
            grounds[name] = row["row"]
    line = Line(database_url, settings=PAST_GUARDS)
    yield Field(db, line, grounds)
    await line.close()


def test_every_pair_of_moves_meets_in_thousands_of_orders() -> None:
    met = {frozenset(pair) for pairs in PAIRS.values() for pair in pairs}

    assert met == {frozenset(pair) for pair in combinations_with_replacement(MOVES, 2)}
    assert sum(schedules(ground, pair) for ground, pairs in PAIRS.items() for pair in pairs) == 7094


@pytest.mark.contract("R4", "K4", "T2")
@pytest.mark.parametrize("ground", GROUNDS, ids=lambda name: name.replace(" ", "_"))
async def test_two_moves_in_every_order_have_one_history(ground: str, database_url: str, field: Field) -> None:
    async with driving(database_url) as driver:
        for place, move in {one for pair in PAIRS[ground] for one in enumerate(pair)}:
            await alone(field, driver, ground, place, move)
        for pair in PAIRS[ground]:
            possible = list(orders(*(steps(ground, move) for move in pair)))
            assert len(possible) == schedules(ground, pair)
            for order in some(possible):
                await meet(driver, field, ground, pair, order)


@pytest.mark.contract("R4", "K4", "T2")
@pytest.mark.parametrize("ground", GROUNDS, ids=lambda name: name.replace(" ", "_"))
async def test_three_moves_at_once_have_one_history(ground: str, database_url: str, field: Field) -> None:
    async with driving(database_url, actors=3) as driver:
        for three in [*THREES[ground], *FOLLOWED.get(ground, ())]:
            for walk in walks(f"{ground}{three}", few=FEW_OF_THREE, most=MOST_OF_THREE):
                await meet(driver, field, ground, three, walk)
        assert driver.blocked > 0  # they did meet


@pytest.mark.contract("R4", "K4")
@pytest.mark.parametrize("ground", FOLLOWED, ids=lambda name: name.replace(" ", "_"))
async def test_who_held_a_task_moves_nothing_that_was_claimed_anew(
    ground: str, database_url: str, field: Field
) -> None:
    claimed = 0
    async with driving(database_url, actors=3) as driver:
        for three in FOLLOWED[ground]:
            for first, late in ((1, 2), (2, 1)):
                for begun in range(steps(ground, three[late])):
                    order = (*[late] * begun, *[first] * MOST_STEPS, *[0] * MOST_STEPS)
                    claimed += len((await meet(driver, field, ground, three, order))[0])
    assert claimed > 0


async def meet(
    driver: Driver, field: Field, ground: str, names: Sequence[str], order: Sequence[int] | Walks
) -> Sequence[Moved]:
    """Let some move the same tasks at once in one order, and see what came of it; return what each says that it moved."""
    tasks = await field.reset(ground)
    programs = [acting(name, tasks if place == 0 else tasks[::-1], place) for place, name in enumerate(names)]
    try:
        movers = await (driver.walk(programs, order) if isinstance(order, Walks) else driver.run(programs, order))
        judge(tasks, movers, await field.found(), names=names, ground=ground)
        assert await field.broken() == []
    except BaseException as error:
        error.add_note(f"{ground}: {names} in the order {getattr(order, 'path', order)}")
        raise
    return movers


def acting(name: str, tasks: Sequence[UUID], place: int) -> Callable[[Session], Awaitable[Moved]]:
    return lambda tx: MOVES[name](tx, tasks, place)


async def alone(field: Field, driver: Driver, ground: str, place: int, move: str) -> None:
    """Count the steps of a move that meets nobody: they are as many as its table says."""
    counted = await driver.count(place, acting(move, await field.reset(ground), place))
    assert counted == steps(ground, move), (ground, move)


def judge(
    tasks: Sequence[UUID], movers: Sequence[Moved], found: Sequence[Row], *, names: Sequence[str], ground: str
) -> None:
    went = {row["id"]: row["went"] for row in found}
    assert sum(map(len, went.values())) == sum(map(len, movers)), went
    if ONCE.issuperset(names) and BEGINS[ground].issuperset(names):
        assert [len(went[task]) for task in tasks] == [1, 1], went
    assert "cancel" not in names or all(row["state"] in TASK.terminal for row in found), found
    for row in found:
        ends = [state for state in row["went"] if state in TASK.terminal]
        assert ends == ([row["state"]] if row["state"] in TASK.terminal else []), row
        assert not row["went"] or row["went"][-1] == row["state"], row
        # What somebody has claimed anew is not moved by whoever held it before; a cancel asks for no holder.
        assert RUNNING not in row["went"] or row["went"][row["went"].index(RUNNING) + 1 :] in ([], [CANCELLED]), row
    # The owner was told in the transaction of each end, once a set.
    owing = [row["id"] for row in found if row["callback"] is not None and row["state"] in TASK.terminal]
    assert (found[0]["told"] > 0) == bool(owing), found
    assert found[0]["told"] <= len(owing), found
