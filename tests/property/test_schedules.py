"""R4 for schedules: two who fire, or one who fires and one who moves, in every order of their statements (T10, T11)."""

from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from datetime import timedelta
from itertools import combinations_with_replacement, pairwise
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
from tests.property.interleave import driving, orders, some

DAY = timedelta(days=1)
Act = Callable[[Session, ScheduleRecord], Awaitable[Any]]


def drafted(name: str, **more: Any) -> ScheduleDraft:
    return standing.draft(
        tenant="default", name="mail", payload="{}", defaults=request.Defaults(), schedule_type="every", interval=60,
        task_id=name, **more,
    )  # fmt: skip


async def fires(tx: Session, _schedule: ScheduleRecord) -> Sequence[UUID]:
    told, _cancelled = await Scheduler(Line("never opened"), NoDoorbell(), ends_after=DAY).fire(tx)
    return [id for row in told for id in row["tasks"]]


async def triggers(tx: Session, schedule: ScheduleRecord) -> Sequence[UUID]:
    try:
        return [(await intake.trigger(tx, schedule, ends_after=DAY)).task]
    except errors.InvalidTransition:
        return []


async def pauses(tx: Session, schedule: ScheduleRecord) -> Sequence[UUID]:
    return await _tried(intake.pause(tx, schedule, reason=None))


async def resumes(tx: Session, schedule: ScheduleRecord) -> Sequence[UUID]:
    return await _tried(intake.resume(tx, schedule))


async def ends(tx: Session, schedule: ScheduleRecord) -> Sequence[UUID]:
    return await _tried(intake.end(tx, schedule, reason=None))


async def declares(tx: Session, schedule: ScheduleRecord) -> Sequence[UUID]:
    await intake.declare(tx, [drafted(schedule.schedule_id, declared=True).schedule])
    return []


async def _tried(move: Awaitable[bool]) -> Sequence[UUID]:
    with suppress(errors.InvalidTransition):  # the other has ended it
        await move
    return []


ACTS: dict[str, Act] = {
    "fire": fires, "trigger": triggers, "pause": pauses, "resume": resumes, "end": ends, "declare": declares,
}  # fmt: skip


async def due(db: Database, place: int) -> ScheduleRecord:
    """Make a schedule whose time came a second ago; those of earlier orders are out of the way."""
    async with db.session() as tx:
        await tx.fetch(
            "update ferryman.schedules set state = 'ended', ended_at = ferryman.clock(), next_run_at = null"
            " where state <> 'ended'"
        )
        made = (await intake.create(tx, drafted(f"s.{place}", overlap="cancel_previous"))).schedule
        await tx.fetch(
            "update ferryman.schedules set next_run_at = ferryman.clock() - interval '1 s' where id = $1", made.id
        )
    return made


def acting(name: str, on: ScheduleRecord) -> Callable[[Session], Awaitable[Sequence[UUID]]]:
    return lambda tx: ACTS[name](tx, on)


@pytest.mark.contract("T11", "T10", "R4")
@pytest.mark.parametrize("pair", list(combinations_with_replacement(ACTS, 2)), ids="-".join)
async def test_whoever_meets_whom_a_firing_makes_one_task_and_nobody_waits_for_ever(
    pair: tuple[str, str], db: Database, database_url: str
) -> None:
    async with driving(database_url) as driver:
        alone = [await driver.count(place, acting(name, await due(db, -place - 1))) for place, name in enumerate(pair)]
        for nth, order in enumerate(some(orders(*alone))):
            schedule = await due(db, nth)
            one, other = await driver.run((acting(pair[0], schedule), acting(pair[1], schedule)), order)

            await judge(db, schedule, [*one, *other], pair=pair, said=f"{pair} in order {order}")
    async with db.session() as tx:
        assert await invariants.check(tx, [*SCHEDULE_INVARIANTS, *TASK_INVARIANTS], deep=False) == []


async def judge(
    db: Database, schedule: ScheduleRecord, born: Sequence[UUID], *, pair: tuple[str, str], said: str
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
    assert len(born) <= min(1, pair.count("fire")) + pair.count("trigger"), said
    assert sum(task["state"] == "ready" for task in tasks) <= 1, said  # each cancels the one before
    assert row["state"] == ENDED or "end" not in pair, said
    went = [(event["from_state"], event["to_state"]) for event in events]
    assert went[0] == (None, ACTIVE), said
    assert went[-1][1] == row["state"], said
    for (_, before), (begins, ends_in) in pairwise(went):
        assert before == begins, said
        assert (ScheduleState(begins), ScheduleState(ends_in)) in SCHEDULE.legal, said
