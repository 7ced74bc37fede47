"""R4: every pair of moves of which one is about a parent, its children or its event: nobody waits for what has come.

Parks, ends of children, events, wakings and the two rules that mend them meet each other and every move of
test_interleavings.py, on a parent that runs, is parked, or has ended. What becomes of the whole family is what becomes of it
when one comes after the other; then no child is left, and nobody waits for what is there. Two of them meet a third that takes
the parent from its worker, or ends it, as well.
"""

import contextlib
from collections.abc import Awaitable, Callable, Iterable, Sequence
from datetime import timedelta
from functools import partial
from itertools import combinations, combinations_with_replacement
from typing import Any, NamedTuple

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
from tests.property.interleave import FEW_WALKS, MOST_OF_THREE, Driver, Program, driving, walks
from tests.property.oracle import InTurn
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
# What is wrong from the beginning is mended in the end, by the rule that is there for it, also if it did not meet them.
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
# Two moves of the family, and a third: of the family too, or one that ends a task or takes it from its worker.
THIRDS = {"cancel", "reap", "expire"}
THREES: dict[str, list[tuple[str, ...]]] = {
    ground: [
        three
        for three in combinations([name for name in MOVES if name in begins & (FAMILY.keys() | THIRDS)], 3)
        if len(THIRDS & {*three}) <= 1 and not NEVER[ground] & {*three}
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
    async with staging(database_url) as stage, driving(database_url) as driver:
        scene = await Scene.lay(db, stage, ground)
        for pair in PAIRS[ground]:
            await meet(driver, scene, pair, few=FEW, most=MOST)
    assert driver.blocked > 0


@pytest.mark.contract("R4", "T19", "K4")
@pytest.mark.parametrize("ground", GROUNDS, ids=lambda name: name.replace(" ", "_"))
async def test_of_three_at_once_nobody_waits_for_what_has_come(ground: str, db: Database, database_url: str) -> None:
    async with staging(database_url) as stage, driving(database_url, actors=3) as driver:
        scene = await Scene.lay(db, stage, ground)
        for three in THREES[ground]:
            await meet(driver, scene, three, few=FEW_WALKS, most=MOST_OF_THREE)
    assert driver.blocked > 0


class Scene(NamedTuple):
    """A family on its ground, kept so that it can be laid again."""

    db: Database
    stage: Stage
    ground: str
    family: Family

    @classmethod
    async def lay(cls, db: Database, stage: Stage, ground: str) -> "Scene":
        async with db.transaction() as tx:
            family = await lay(tx, GROUNDS[ground])
        await stage.keep()
        return cls(db, stage, ground, family)

    def programs(self, names: Iterable[str]) -> list[Program]:
        return [partial(MOVES[name], self.family) for name in names]


async def meet(driver: Driver, scene: Scene, names: Sequence[str], *, few: int, most: int) -> None:
    """Let some meet, and see that the family becomes what it does when one comes after the other."""
    programs = scene.programs(names)
    turns = InTurn(programs, partial(in_turn, scene))
    for walk in walks(f"{scene.ground}{names}", few=few, most=most):
        await scene.stage.reset()
        try:
            left = await driver.walk(programs, walk)
            await look_again(scene, programs, left, times=len(names) - 1)
            found = await judged(scene)
            assert await turns.tells(found, driver.came(left)), (found, turns.could)
        except BaseException as error:
            error.add_note(f"{scene.ground}: {names} in the order {walk.path}")
            raise


async def in_turn(scene: Scene, programs: Sequence[Program]) -> list[tuple[str, ...]]:
    """Say what becomes of the family when one comes after the other."""
    await scene.stage.reset()
    await look_again(scene, programs, [True] * len(programs), times=len(programs))
    return await judged(scene)


async def look_again(scene: Scene, programs: Sequence[Program], left: Sequence[bool], *, times: int) -> None:
    """Let those look again who did nothing or left something, more than once: one may find what another has just done."""
    for _ in range(times):
        left = await again(scene.db, programs, left)


async def again(db: Database, programs: Sequence[Program], left: Sequence[bool]) -> list[bool]:
    """Let those act alone who did nothing or left something, one after another."""
    said = []
    for program, more in zip(programs, left, strict=True):
        if not more:
            said.append(False)
            continue
        async with db.transaction() as tx:
            said.append(await program(tx))
    return said


async def judged(scene: Scene) -> list[tuple[str, ...]]:
    """Nobody is stuck, no child has strayed, and the rows are sound; return what has become of all, as one thing."""
    mends = scene.programs([MENDS[scene.ground]] if scene.ground in MENDS else [])
    await again(scene.db, mends, [True] * len(mends))
    async with scene.db.session() as tx:
        assert await SOUND.broken(tx) == []
        assert (list(await steps.stuck(tx, 10)), list(await steps.strays(tx, 10))) == ([], [])
        return [tuple(await found(tx))]
