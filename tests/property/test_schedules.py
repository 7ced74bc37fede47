"""R4 for schedules: two who fire, or one who fires and one who moves, in every order of their statements, and three (T10, T11).

What becomes of the schedule and its tasks is what becomes of them when one comes after another; and what is due has fired
once, unless somebody paused or ended it.
"""

from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from datetime import timedelta
from functools import partial
from itertools import chain, combinations, combinations_with_replacement, pairwise
from typing import Any
from uuid import UUID

import pytest

from ferryman.kernel import errors, invariants
from ferryman.kernel.doorbell import NoDoorbell
from ferryman.kernel.pool import Database, Line, Session
from ferryman.tasks.intake import schedule as intake
from ferryman.tasks.model import ScheduleDraft, ScheduleRecord
from ferryman.tasks.rules import request, standing
from ferryman.tasks.states import ACTIVE, ENDED, SCHEDULE, ScheduleState
from ferryman.tasks.watch import SCHEDULE_INVARIANTS, TASK_INVARIANTS
from ferryman.tasks.work.scheduler import Scheduler
from tests.property.interleave import MOST_OF_THREE, Program, driving, orders, some, walks
from tests.property.oracle import InTurn
from tests.property.stage import Stage, staging

DAY = timedelta(days=1)
OVERLAP = "cancel_previous"
# What it answers: the tasks that it made.
Act = Callable[[ScheduleRecord, Session], Awaitable[Sequence[UUID]]]


def drafted(name: str, **more: Any) -> ScheduleDraft:
    return standing.draft(
        tenant="default", name="mail", payload="{}", defaults=request.Defaults(), schedule_type="every", interval=60,
        task_id=name, **more,
    )  # fmt: skip


async def fires(_schedule: ScheduleRecord, tx: Session) -> Sequence[UUID]:
    told, _cancelled = await Scheduler(Line("never opened"), NoDoorbell(), ends_after=DAY).fire(tx)
    return [id for row in told for id in row["tasks"]]


async def triggers(schedule: ScheduleRecord, tx: Session) -> Sequence[UUID]:
    try:
        return [(await intake.trigger(tx, schedule, ends_after=DAY)).task]
    except errors.InvalidTransition:
        return []


async def pauses(schedule: ScheduleRecord, tx: Session) -> Sequence[UUID]:
    return await _tried(intake.pause(tx, schedule, reason=None))


async def resumes(schedule: ScheduleRecord, tx: Session) -> Sequence[UUID]:
    return await _tried(intake.resume(tx, schedule))


async def ends(schedule: ScheduleRecord, tx: Session) -> Sequence[UUID]:
    return await _tried(intake.end(tx, schedule, reason=None))


async def declares(schedule: ScheduleRecord, tx: Session) -> Sequence[UUID]:
    await intake.declare(tx, [drafted(schedule.schedule_id, declared=True, overlap=OVERLAP).schedule])
    return []


async def _tried(move: Awaitable[bool]) -> Sequence[UUID]:
    with suppress(errors.InvalidTransition):  # the other has ended it
        await move
    return []


ACTS: dict[str, Act] = {
    "fire": fires, "trigger": triggers, "pause": pauses, "resume": resumes, "end": ends, "declare": declares,
}  # fmt: skip


PAIRS = list(combinations_with_replacement(ACTS, 2))
# Only there a schedule can go on.
GROUNDS = {"due": PAIRS, "paused": [pair for pair in PAIRS if "resume" in pair]}
# Who fires may meet another who does, or two.
THREES: dict[str, list[tuple[str, ...]]] = {
    ground: [
        three
        for three in [*combinations(ACTS, 3), *(("fire", "fire", third) for third in ACTS)]
        if ground == "due" or "resume" in three
    ]
    for ground in GROUNDS
}


async def due(db: Database, *, paused: bool) -> ScheduleRecord:
    """Make a schedule whose time came a second ago; perhaps it was paused then."""
    async with db.session() as tx:
        made = (await intake.create(tx, drafted("s", overlap=OVERLAP))).schedule
        await tx.fetch(
            "update ferryman.schedules set next_run_at = ferryman.clock() - interval '1 s' where id = $1", made.id
        )
        if paused:
            assert await intake.pause(tx, made, reason=None)
    return made


@pytest.mark.contract("T11", "T10", "R4")
@pytest.mark.parametrize("ground", GROUNDS)
async def test_whoever_meets_whom_a_firing_makes_one_task_and_nobody_waits_for_ever(
    ground: str, db: Database, database_url: str
) -> None:
    async with staging(database_url) as stage, driving(database_url) as driver:
        schedule = await due(db, paused=ground == "paused")
        await stage.keep()
        alone = {}
        for name, act in ACTS.items():
            await stage.reset()
            alone[name] = await driver.count(0, partial(act, schedule))
        for pair in GROUNDS[ground]:
            programs = [partial(ACTS[name], schedule) for name in pair]
            turns = InTurn(programs, partial(in_turn, db, stage, schedule))
            for order in some(orders(*(alone[name] for name in pair))):
                await stage.reset()
                try:
                    made = await driver.run(programs, order)
                    became = await settled(db, schedule, pair, made, ground, said=f"in {order}")
                    assert await turns.tells(became, driver.came()), f"{became} is none of {turns.could}"
                except BaseException as error:
                    error.add_note(f"{ground}: {pair} in the order {order}")
                    raise
            await sound(db)


@pytest.mark.contract("T11", "T10", "R4")
@pytest.mark.parametrize("ground", GROUNDS)
async def test_of_three_at_once_a_firing_makes_one_task(ground: str, db: Database, database_url: str) -> None:
    async with staging(database_url) as stage, driving(database_url, actors=3) as driver:
        schedule = await due(db, paused=ground == "paused")
        await stage.keep()
        for three in THREES[ground]:
            programs = [partial(ACTS[name], schedule) for name in three]
            turns = InTurn(programs, partial(in_turn, db, stage, schedule))
            for walk in walks(f"{ground}{three}", most=MOST_OF_THREE):
                await stage.reset()
                made = await driver.walk(programs, walk)
                became = await settled(db, schedule, three, made, ground, said=f"in {walk.path}")
                assert await turns.tells(became, driver.came()), (
                    f"{three} in order {walk.path}: {became} is none of {turns.could}"
                )
        assert driver.blocked > 0  # they did meet
    await sound(db)


async def settled(
    db: Database,
    schedule: ScheduleRecord,
    names: Sequence[str],
    made: Sequence[Sequence[UUID]],
    ground: str,
    *,
    said: str,
) -> list[Any]:
    """Let who fired in vain look again, see that all of it is right, and say what became of the schedule."""
    again = await look_again(db, schedule) if "fire" in names and not all(made) else []
    born = [*chain.from_iterable(made), *again]
    await judge(db, schedule, born, names=names, paused=ground == "paused", said=f"{names} {said}")
    return await found(db, schedule)


async def sound(db: Database) -> None:
    async with db.session() as tx:
        assert await invariants.check(tx, [*SCHEDULE_INVARIANTS, *TASK_INVARIANTS], deep=False) == []


async def look_again(db: Database, schedule: ScheduleRecord) -> Sequence[UUID]:
    """Let whoever fires look once more: what another held was passed over."""
    async with db.transaction() as tx:
        return await fires(schedule, tx)


async def in_turn(db: Database, stage: Stage, schedule: ScheduleRecord, programs: Sequence[Program]) -> list[Any]:
    """Say what becomes of the schedule when one comes after another."""
    await stage.reset()
    for program in programs:
        async with db.transaction() as tx:
            await program(tx)
    return await found(db, schedule)


FOUND = """
select schedule.state, schedule.fired, schedule.next_run_at > ferryman.clock() as ahead,
       array(select concat_ws(' ', event.from_state, event.to_state) from ferryman.events as event
             where event.subject = schedule.id and event.to_state is not null order by event.id)::text as went,
       array(select task.state from ferryman.tasks as task where task.schedule = schedule.id order by 1)::text as tasks
from ferryman.schedules as schedule
where schedule.id = $1
"""


async def found(db: Database, schedule: ScheduleRecord) -> list[Any]:
    async with db.session() as tx:
        return [tuple(row) for row in await tx.fetch(FOUND, schedule.id)]  # type: ignore[arg-type]  # a record is a sequence


async def judge(
    db: Database, schedule: ScheduleRecord, born: Sequence[UUID], *, names: Sequence[str], paused: bool, said: str
) -> None:
    """What they say they made is there, once; the schedule has one history."""
    async with db.session() as tx:
        tasks = await tx.fetch("select id, state from ferryman.tasks where schedule = $1", schedule.id)
        [row] = await tx.fetch("select state, fired from ferryman.schedules where id = $1", schedule.id)
        events = await tx.fetch(
            "select from_state, to_state from ferryman.events where subject = $1 and to_state is not null order by id",
            schedule.id,
        )
    assert sorted(task["id"] for task in tasks) == sorted(born), said
    assert row["fired"] == len(born), said
    most = min(1, names.count("fire")) + names.count("trigger")
    assert len(born) <= most, said
    assert len(born) == most or paused or {"pause", "end"} & {*names}, said  # nobody else keeps it from firing
    assert not paused or {"pause", "end"} & {*names} or row["state"] == ACTIVE, said  # what may go on goes on
    assert sum(task["state"] == "ready" for task in tasks) <= 1, said  # each cancels the one before
    assert row["state"] == ENDED or "end" not in names, said
    went = [(event["from_state"], event["to_state"]) for event in events]
    assert went[0] == (None, ACTIVE), said
    assert went[-1][1] == row["state"], said
    for (_, before), (begins, ends_in) in pairwise(went):
        assert before == begins, said
        assert (ScheduleState(begins), ScheduleState(ends_in)) in SCHEDULE.legal, said
