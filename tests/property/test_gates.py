"""R4: limits and pauses hold in every order of statements, whoever meets at a gate, and with many hands there."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from datetime import timedelta
from functools import partial
from itertools import combinations_with_replacement
from typing import NamedTuple

import pytest

from ferryman.kernel import ids
from ferryman.kernel.pool import Database, Line, Session
from ferryman.tasks import store
from ferryman.tasks.model import Claimed, Outcome
from ferryman.tasks.states import READY, RUNNING, SUCCEEDED, TASK
from ferryman.tasks.store import agreements, gates
from ferryman.tasks.store.gates import Asked
from ferryman.testing.plants import plant
from tests.property.interleave import Driver, Walks, driving, orders, walks
from tests.property.stage import Stage, staging

LEASE, MARGIN = timedelta(seconds=30), timedelta(seconds=5)
HOLDER = ids.boot_id()
OWNERS = (ids.boot_id(), ids.boot_id())
SLOTS = 2
READY_TASKS = 4
# How many orders of each pair are walked in the usual run, and with ALL_ORDERS: no pair has as many, so each of them is.
FEW, MOST = 2, 1_000

# What it answers: how many it claimed.
Act = Callable[[Session, int], Awaitable[int]]


async def claims(tx: Session, place: int) -> int:
    claimed, _ = await gates.pass_through(
        tx, [Asked("default", "default", 10, "")], locked=["default"], room=10, keys=50, owner=OWNERS[place], names=["mail"],
        kinds=[], lease=LEASE, margin=MARGIN,
    )  # fmt: skip
    return len(claimed)


async def passes(tx: Session, place: int) -> int:
    return await claims(tx, place) if await gates.lock(tx, ["default"]) else 0


async def turns(tx: Session, place: int) -> int:
    """A worker that knows of no limit and no pause."""
    claimed, *_ = await store.turn(
        tx,
        (),
        owner=OWNERS[place],
        lanes=[("default", "default", 10)],
        names=["mail"],
        kinds=[],
        lease=LEASE,
        margin=MARGIN,
    )
    return len(claimed)


async def settles(tx: Session, _place: int) -> int:
    rows = await tx.fetch("select id from ferryman.tasks where lease_owner = $1", HOLDER)
    told = [Outcome(row["id"], 1, HOLDER, SUCCEEDED) for row in rows]
    await store.turn(tx, told, owner=HOLDER, lanes=(), names=[], kinds=[], lease=LEASE, margin=MARGIN)
    return 0


async def lowers(tx: Session, _place: int) -> int:
    await agreements.add(tx, "default", tenant="*")
    await agreements.change(tx, "default", tenant="*", changes={"concurrency": SLOTS})
    await agreements.mark(tx, 10)
    return 0


def pausing(*, paused: bool) -> Act:
    async def act(tx: Session, _place: int) -> int:
        await agreements.add(tx, "default", tenant="*")
        await agreements.pause(tx, "default", tenant="*", paused=paused)
        await agreements.mark(tx, 10)
        return 0

    return act


ACTS: dict[str, Act] = {
    "pass": passes, "turn": turns, "settle": settles, "set": lowers, "pause": pausing(paused=True),
    "resume": pausing(paused=False),
}  # fmt: skip


class Ground(NamedTuple):
    """How the queue stands before both begin: one task runs there, and four are ready."""

    limited: bool = True
    paused: bool = False
    key: str | None = None


GROUNDS = {
    "limited": Ground(),
    "limited by key": Ground(key="k"),
    "paused": Ground(paused=True),
    "paused, limited by key": Ground(paused=True, key="k"),
    "open": Ground(limited=False),
}
Pair = tuple[str, str]
EVERY: list[Pair] = list(combinations_with_replacement(ACTS, 2))
# Only what is paused can go on; elsewhere a queue goes on after a pause.
PAIRS: dict[str, list[Pair]] = {
    name: [pair for pair in EVERY if ("resume" in pair if ground.paused else pair.count("resume") <= ("pause" in pair))]
    for name, ground in GROUNDS.items()
}
# Where a claim meets another, an end or a limit each order is walked in the usual run too.
CLOSE: list[Pair] = [("pass", "pass"), ("pass", "turn"), ("pass", "settle"), ("pass", "set")]
HELD = (
    "select count(*) as held from ferryman.tasks where leased_until is not null and limit_key is not distinct from $1"
)
FOUND = """
select queue.paused_at is not null as paused, coalesce(queue.concurrency, queue.key_concurrency) is not null as limited,
       (select count(*) from ferryman.tasks where leased_until is not null) as held,
       (select count(*) from ferryman.tasks where state = 'succeeded') as done
from ferryman.queues as queue
"""


async def lay(db: Database, *, key: str | None, running: int, limited: bool = True, paused: bool = False) -> None:
    async with db.transaction() as tx:
        await tx.execute("delete from ferryman.tasks; delete from ferryman.queues")
        await tx.execute("insert into ferryman.queues (name) values ('default')")
        if limited:
            await tx.execute(f"update ferryman.queues set {'key_concurrency' if key else 'concurrency'} = {SLOTS}")
        if paused:
            await agreements.pause(tx, "default", tenant="*", paused=True)
        for _ in range(READY_TASKS):
            await plant(tx, TASK, READY, limit_key=key)
        for _ in range(running):
            await plant(tx, TASK, RUNNING, limit_key=key, slot=True, lease_owner=HOLDER)


async def held(db: Database, key: str | None) -> int:
    async with db.session() as tx:
        [row] = await tx.fetch(HELD, key)
    return int(row["held"])


def test_every_pair_meets_at_a_gate() -> None:
    met = {frozenset(pair) for pairs in PAIRS.values() for pair in pairs}

    assert met == {frozenset(pair) for pair in combinations_with_replacement(ACTS, 2)}


@pytest.mark.contract("R4", "T17")
@pytest.mark.parametrize("ground", GROUNDS)
async def test_a_limit_holds_in_every_order_of_two_actors_statements(
    ground: str, database_url: str, db: Database
) -> None:
    async with staging(database_url) as stage, driving(database_url) as driver:
        await lay(db, running=1, **GROUNDS[ground]._asdict())
        await stage.keep()
        for pair in PAIRS[ground]:
            for walk in walks(f"{ground}{pair}", few=MOST if pair in CLOSE else FEW, most=MOST):
                await meet(db, stage, driver, ground, pair, walk)
    assert driver.blocked > 0  # they did meet


async def meet(db: Database, stage: Stage, driver: Driver, ground: str, pair: Pair, walk: Walks) -> None:
    """Let two meet in one order, and see what they claimed and what can be claimed then."""
    await stage.reset()
    try:
        answers = await driver.walk([partial(run, ACTS[name], place) for place, name in enumerate(pair)], walk)
        await judge(db, GROUNDS[ground], pair, answers)
    except BaseException as error:
        error.add_note(f"{ground}: {pair} in the order {walk.path}")
        raise


async def judge(db: Database, ground: Ground, pair: Pair, answers: Sequence[int]) -> None:
    """No more is held than there are slots; what is paused stands still, and nothing else stands before a free slot."""
    left = 0 if "settle" in pair else 1
    paused, limited, holding, done = await found(db)
    assert limited == (ground.limited or "set" in pair)
    assert {"pause", "resume"} <= {*pair} or paused == ("pause" in pair or (ground.paused and "resume" not in pair))
    assert (holding, done) == (left + sum(answers), 1 - left)
    assert holding <= SLOTS or (not ground.limited and "turn" in pair)
    # What was passed over because somebody held the gate is found by the next look; what lanes claimed holds slots then.
    async with db.transaction() as tx:
        await agreements.mark(tx, 10)
        await passes(tx, 0)
        await turns(tx, 0)
    room = max(SLOTS, holding) if limited else left + READY_TASKS
    assert (await found(db))[2] == (holding if paused else room)


async def found(db: Database) -> tuple[bool, bool, int, int]:
    async with db.session() as tx:
        [row] = await tx.fetch(FOUND)
    return row["paused"], row["limited"], row["held"], row["done"]


async def run(act: Act, place: int, tx: Session) -> int:
    return await act(tx, place)


@pytest.mark.parametrize("key", [None, "k"])
async def test_without_the_lock_the_same_orders_exceed_the_limit(
    key: str | None, database_url: str, db: Database
) -> None:
    """So that the test above is known to bite."""
    exceeded = 0
    async with driving(database_url) as driver:
        for order in orders(2, 2):
            await lay(db, key=key, running=0)
            await driver.run((lambda tx: claims(tx, 0), lambda tx: claims(tx, 1)), order)
            exceeded += await held(db, key) > SLOTS

    assert exceeded > 0


@pytest.mark.contract("R4", "T17")
async def test_many_hands_at_one_gate_never_hold_more_than_its_slots(database_url: str, db: Database) -> None:
    """Ten connections claim and settle as fast as they can; after each claim, all that is leased is counted."""
    tasks, hands, seen = 300, 10, []
    async with db.transaction() as tx:
        await tx.execute("insert into ferryman.queues (name, concurrency, key_concurrency) values ('default', 5, 2)")
        for n in range(tasks):
            await plant(tx, TASK, READY, limit_key=None if n % 3 == 0 else f"k{n % 2}")

    async def hand(line: Line, watcher: Line) -> int:
        owner, done = ids.boot_id(), 0
        while True:
            async with line.transaction() as tx:
                locked = await gates.lock(tx, ["default"])
                claimed: list[Claimed] = []
                if locked:
                    claimed, _ = await gates.pass_through(
                        tx, [Asked("default", "default", 3, "")], locked=locked, room=3, keys=50, owner=owner, names=["mail"],
                        kinds=[], lease=LEASE, margin=MARGIN,
                    )  # fmt: skip
            rows = await watcher.fetch(
                "select count(*) as held, max(same) as same,"
                " (select count(*) from ferryman.tasks where rank is not null) as waiting"
                " from (select limit_key, count(*) over (partition by limit_key) as same from ferryman.tasks"
                "       where leased_until is not null and limit_key is not null"
                "       union all"
                "       select null, 0 from ferryman.tasks where leased_until is not null and limit_key is null) as held"
            )
            seen.append((rows[0]["held"], rows[0]["same"] or 0))
            told = [Outcome(each.id, each.epoch, owner, SUCCEEDED) for each in claimed]
            await store.turn(line, told, owner=owner, lanes=(), names=[], kinds=[], lease=LEASE, margin=MARGIN)
            done += len(told)
            if not rows[0]["waiting"] and not claimed:
                return done

    lines = [Line(database_url) for _ in range(2 * hands)]
    try:
        done = await asyncio.gather(*(hand(one, other) for one, other in zip(lines[::2], lines[1::2], strict=True)))
    finally:
        for line in lines:
            await line.close()

    assert sum(done) == tasks
    assert max(held for held, _ in seen) == 5
    assert max(same for _, same in seen) == 2
