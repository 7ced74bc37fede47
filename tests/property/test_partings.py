"""R4: every pair of moves of which one is about a parent, its children or its event: nobody waits for what has come.

Parks, ends of children, events, wakings and the two rules that mend them meet each other and every move of
test_interleavings.py, on a parent that runs, is parked, or has ended. What becomes of the whole family is what becomes of it
when one of the two comes after the other; then no child is left, and nobody waits for what is there.
"""

import contextlib
from collections.abc import Awaitable, Callable, Sequence
from datetime import timedelta
from functools import partial
from itertools import combinations_with_replacement
from typing import Any

import pytest

from ferryman.kernel import errors, ids
from ferryman.kernel.doorbell import NoDoorbell
from ferryman.kernel.pool import Database, Session
from ferryman.tasks import joins, store, watch
from ferryman.tasks.intake import signal
from ferryman.tasks.model import Outcome, Park
from ferryman.tasks.ports import Owners
from ferryman.tasks.states import FAILED, READY, SUCCEEDED, TaskState
from ferryman.tasks.store import steps
from ferryman.tasks.watch import TASK_INVARIANTS
from ferryman.tasks.work.settle import settle
from tests.property import test_interleavings
from tests.property.family import EPOCH, EVENT, GROUNDS, HOLDER, SECOND, Family, found, lay
from tests.property.interleave import Program, driving, walks
from tests.property.stage import Sound, Stage, staging

LEASE, MARGIN = timedelta(seconds=30), timedelta(seconds=5)
OWNERS = Owners({joins.CHILD: joins.Joins()})
SOUND = Sound(TASK_INVARIANTS)
# How many orders of each pair are walked in the usual run, and with ALL_ORDERS: no pair has as many, so each of them is.
FEW, MOST = 2, 1_000

# What it answers: whether it did nothing, or left something that another held; then it looks again, as workers and rules do.
Way = Callable[[Family, Session], Awaitable[bool]]


def of_parent(state: TaskState) -> Way:
    async def act(family: Family, tx: Session) -> bool:
        told = Outcome(family.parent, EPOCH, HOLDER, state, bore=True)
        _, busy = await settle(tx, OWNERS, [_failed(told)])
        return bool(busy)

    return act


def of_child(nth: int, state: TaskState) -> Way:
    async def act(family: Family, tx: Session) -> bool:
        owed = {"callback": joins.CHILD, "callback_ref": str(family.parent)}
        told = Outcome(family.children[nth], EPOCH, HOLDER, state)._replace(**owed)  # type: ignore[arg-type]
        _, busy = await settle(tx, OWNERS, [_failed(told)])
        return bool(busy)

    return act


def _failed(told: Outcome) -> Outcome:
    if told.state is SUCCEEDED:
        return told
    return told._replace(code="TASK_EXECUTION_FAILED", reason="no", used=int(told.state is READY))


async def parks(family: Family, tx: Session) -> bool:
    park = Park(names=(EVENT,), children=family.children, open=2)
    return bool((await steps.park(tx, [Outcome(family.parent, EPOCH, HOLDER, READY, park=park)])).busy)


async def sends(family: Family, tx: Session) -> bool:
    with contextlib.suppress(errors.TaskEnded):  # then no event is kept, and that is among what is compared
        await signal.send(tx, family.parent, EVENT, "1", tenant="default")
    return False


async def promotes(_family: Family, tx: Session) -> bool:
    count, _, _ = await store.promote(tx, limit=10)
    return count == 0


async def claims(_family: Family, tx: Session) -> bool:
    claimed, *_ = await store.turn(
        tx, (), owner=NEWCOMER, lanes=[("default", "default", 10)], names=["mail"], kinds=OWNERS.kinds, lease=LEASE,
        margin=MARGIN,
    )  # fmt: skip
    return not claimed


async def renews(family: Family, tx: Session) -> bool:
    await store.renew(tx, [family.parent], [EPOCH], owner=HOLDER, lease=LEASE, margin=MARGIN)
    return False


async def reclaims(family: Family, tx: Session) -> bool:
    count, busy = await store.reclaim(tx, owner=HOLDER, held=family.children)
    return count == 0 or bool(busy)


def cancels(which: Callable[[Family], Any]) -> Way:
    async def act(family: Family, tx: Session) -> bool:
        await joins.end(tx, OWNERS, [which(family)], tenant="default")
        return False

    return act


def rule(name: str) -> Way:
    async def look(_family: Family, tx: Session) -> bool:
        rules = watch.rules(OWNERS, NoDoorbell(), sweep=SECOND, interval=timedelta(0))
        [chosen] = [each for each in rules if each.name == name]
        rows = await chosen.find(tx, 10)
        return not rows or await chosen.act(tx, rows) < len(rows)

    return look


NEWCOMER = ids.boot_id()

# What is about a parent and what it waits for.
FAMILY: dict[str, Way] = {
    "park": parks,
    "event": sends,
    "child ends": of_child(0, SUCCEEDED),
    "other child fails": of_child(1, FAILED),
    "child is tried again": of_child(0, READY),
    "child is cancelled": cancels(lambda family: family.children[0]),
    "wake": rule("T19-stuck"),
    "collect": rule("T19-strays"),
}
# What befalls every task.
EVERYBODY: dict[str, Way] = {
    "claim": claims,
    "renew": renews,
    "complete": of_parent(SUCCEEDED),
    "fail": of_parent(FAILED),
    "retry": of_parent(READY),
    "cancel": cancels(lambda family: family.parent),
    "reap": rule("W13"),
    "expire": rule("T21"),
    "promote": promotes,
    "reclaim": reclaims,
}
MOVES = FAMILY | EVERYBODY

# Which moves can begin on which ground; each pair is tried wherever one of the two can, and one is about the family.
ENDS = {"child ends", "other child fails", "child is tried again", "child is cancelled"}
HERE = {"event", "cancel", *ENDS}
BEGINS: dict[str, set[str]] = {
    "running": {"park", "renew", "complete", "fail", "retry", "reap", "reclaim", *HERE},
    "last attempt": {"park", "fail", "reap", *HERE},
    "parked": {"promote", *HERE},
    "parked too long": {"expire", "promote", *HERE},
    "last child": {"reap", *HERE} - {"other child fails"},
    "stuck": {"wake", *HERE},
    "strays": {"collect", "reap", *ENDS},
}
NEVER: dict[str, set[str]] = {ground: set() for ground in GROUNDS} | {
    # At its cap a task is not tried again.
    "last attempt": {"retry", "child is tried again"},
    "last child": {"child is tried again"},
}
# What is wrong from the beginning is mended in the end, by the rule that is there for it, also if it was not among the two.
MENDS = {"stuck": "wake", "strays": "collect"}

Pair = tuple[str, str]
PAIRS: dict[str, list[Pair]] = {
    ground: [
        pair
        for pair in combinations_with_replacement(MOVES, 2)
        if FAMILY.keys() & {*pair} and begins & {*pair} and not NEVER[ground] & {*pair}
    ]
    for ground, begins in BEGINS.items()
}


def test_every_move_of_a_family_meets_every_move_of_a_task() -> None:
    met = {frozenset(pair) for pairs in PAIRS.values() for pair in pairs}

    assert {*EVERYBODY} == {name.removesuffix(" owing") for name in test_interleavings.MOVES}
    assert met == {frozenset(pair) for pair in combinations_with_replacement(MOVES, 2) if FAMILY.keys() & {*pair}}


@pytest.mark.contract("R4", "T19", "K4")
@pytest.mark.parametrize("ground", GROUNDS, ids=lambda name: name.replace(" ", "_"))
async def test_nobody_waits_for_what_has_come_and_no_child_is_left(
    ground: str, db: Database, database_url: str
) -> None:
    async with db.transaction() as tx:
        family = await lay(tx, GROUNDS[ground])
    async with staging(database_url) as stage, driving(database_url) as driver:
        await stage.keep()
        mends = [partial(MOVES[MENDS[ground]], family)] if ground in MENDS else []
        for pair in PAIRS[ground]:
            programs = [partial(MOVES[name], family) for name in pair]
            could = await in_turn(db, stage, programs, mends)
            for walk in walks(f"{ground}{pair}", few=FEW, most=MOST):
                await stage.reset()
                try:
                    await again(db, programs, await driver.walk(programs, walk))
                    assert await judged(db, mends) in could
                except BaseException as error:
                    error.add_note(f"{ground}: {pair} in the order {walk.path}")
                    raise
    assert driver.blocked > 0


async def in_turn(db: Database, stage: Stage, programs: Sequence[Program], mends: Sequence[Program]) -> list[list[str]]:
    """Say what may become of the family: what does when one comes after the other."""
    ways = []
    for order in (programs, programs[::-1]):
        await stage.reset()
        await again(db, order, await again(db, order, [True, True]))
        ways.append(await judged(db, mends))
    return ways


async def again(db: Database, programs: Sequence[Program], left: Sequence[bool]) -> list[bool]:
    """Let those act alone who did nothing or left something, one after another."""
    said = []
    for program, more in zip(programs, left, strict=True):
        async with db.transaction() as tx:
            said.append(more and await program(tx))
    return said


async def judged(db: Database, mends: Sequence[Program]) -> list[str]:
    """Nobody is stuck, no child has strayed, and the rows are sound; return what has become of each."""
    await again(db, mends, [True] * len(mends))
    async with db.session() as tx:
        assert await SOUND.broken(tx) == []
        assert (list(await steps.stuck(tx, 10)), list(await steps.strays(tx, 10))) == ([], [])
        return await found(tx)
