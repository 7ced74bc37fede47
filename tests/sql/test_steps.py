"""The statements of durable calls: what a stale holder sends is not written, a busy row is passed over, sets are sets."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from datetime import timedelta
from typing import Any
from uuid import UUID

import pytest

from ferryman.kernel import errors, ids, invariants
from ferryman.kernel.db import Tx
from ferryman.kernel.doorbell import NoDoorbell
from ferryman.kernel.pool import Database, Line, Session
from ferryman.tasks import store
from ferryman.tasks.joins import CHILD, Joins, child_id
from ferryman.tasks.model import Answer, Asked, Birth, Call, Ended, Kept, NewTask, Outcome, Park
from ferryman.tasks.ports import Owners
from ferryman.tasks.rules import request
from ferryman.tasks.states import FAILED, READY, RUNNING, SUCCEEDED, TASK, TaskState
from ferryman.tasks.store import steps
from ferryman.tasks.watch import TASK_INVARIANTS
from ferryman.tasks.work.scribe import Scribe
from ferryman.tasks.work.settle import settle
from ferryman.testing import plant, travel
from tests.patience import PATIENCE_SECONDS
from tests.sql.counted import Counted
from tests.sql.moves import EPOCH, OTHER, OWNER, SOUND, columns
from tests.sql.test_races import begin_and_wait

pytestmark = pytest.mark.contract("T19")

DAY = timedelta(days=1)
HOLDS: dict[str, Any] = {**SOUND[RUNNING], "leased_until": timedelta(seconds=30)}


def call(task: UUID, kind: str = "step", name: str = "a", nth: int = 1, *, epoch: int = EPOCH) -> Call:
    return Call(task, epoch, kind, name, nth, nth)


def born(task: UUID) -> NewTask:
    drafted = request.draft(tenant="default", name="mail", payload="{}", defaults=request.Defaults()).task
    return drafted._replace(callback=CHILD, callback_ref=str(task))


async def _remember(tx: Session, task: UUID, epoch: int, owner: UUID) -> bool:
    return bool(await steps.remember(tx, [Kept(call(task, epoch=epoch), "done", "1")], owner=owner))


async def _wait(tx: Session, task: UUID, epoch: int, owner: UUID) -> bool:
    return bool(await steps.wait(tx, [Asked(call(task, "event", epoch=epoch))], owner=owner))


async def _sleep(tx: Session, task: UUID, epoch: int, owner: UUID) -> bool:
    return bool(await steps.wait(tx, [Asked(call(task, "sleep", epoch=epoch), 1.0)], owner=owner))


async def _bear(tx: Session, task: UUID, epoch: int, owner: UUID) -> bool:
    return bool(await steps.bear(tx, [Birth(call(task, "child", epoch=epoch), born(task))], owner=owner))


async def _mine(tx: Session, task: UUID, epoch: int, owner: UUID) -> bool:
    return bool(await steps.mine(tx, [(task, epoch)], owner=owner))


Write = Callable[[Session, UUID, int, UUID], Awaitable[bool]]
WRITES: list[Write] = [_remember, _wait, _sleep, _bear]


async def kept(tx: Session) -> int:
    [row] = await tx.fetch("select count(*) as count from ferryman.task_steps")
    return int(row["count"])


@pytest.mark.contract("K4", "T7")
@pytest.mark.parametrize("write", [*WRITES, _mine])
async def test_only_the_holder_of_the_current_claim_writes(tx: Session, write: Write) -> None:
    task = await plant(tx, TASK, RUNNING, **HOLDS)

    assert not await write(tx, task, EPOCH - 1, OWNER)
    assert not await write(tx, task, EPOCH, OTHER)
    assert await kept(tx) == 0

    assert await write(tx, task, EPOCH, OWNER)
    assert await kept(tx) == (0 if write is _mine else 1)


@pytest.mark.contract("K4", "T7")
@pytest.mark.parametrize("state", [state for state in TaskState if state is not RUNNING])
@pytest.mark.parametrize("write", [*WRITES, _mine])
async def test_a_task_that_does_not_run_is_not_written(tx: Session, write: Write, state: TaskState) -> None:
    # The owner is left there by force: the state alone must do.
    await tx.execute("alter table ferryman.tasks drop constraint tasks_lease_owner_present")
    task = await plant(tx, TASK, state, epoch=EPOCH, lease_owner=OWNER)

    assert not await write(tx, task, EPOCH, OWNER)
    assert await kept(tx) == 0


@pytest.mark.contract("K5")
@pytest.mark.parametrize("write", WRITES)
async def test_a_row_that_somebody_else_writes_is_passed_over(db: Database, write: Write) -> None:
    async with db.transaction() as tx:
        task = await plant(tx, TASK, RUNNING, **HOLDS)

    async with db.transaction() as other:
        await other.fetch("select from ferryman.tasks where id = $1 for update", task)
        async with db.transaction() as tx:
            assert not await write(tx, task, EPOCH, OWNER)
            assert await _mine(tx, task, EPOCH, OWNER)


@pytest.mark.contract("K4")
@pytest.mark.parametrize("write", WRITES)
async def test_nobody_takes_the_task_over_while_its_call_is_being_written(db: Database, write: Write) -> None:
    async with db.transaction() as tx:
        task = await plant(tx, TASK, RUNNING, **HOLDS)

    async with db.transaction() as writing:
        await write(writing, task, EPOCH, OWNER)
        async with db.session() as other:
            found = await other.fetch("select from ferryman.tasks where id = $1 for update skip locked", task)
    assert found == []


@pytest.mark.contract("K24")
@pytest.mark.parametrize("write", WRITES)
async def test_a_repeat_meets_its_own_row(tx: Session, write: Write) -> None:
    task = await plant(tx, TASK, RUNNING, **HOLDS)

    assert [await write(tx, task, EPOCH, OWNER) for _ in range(2)] == [True, True]
    assert await kept(tx) == 1


@pytest.mark.contract("T19", "R5")
async def test_what_a_step_came_to_first_stays(tx: Session) -> None:
    task = await plant(tx, TASK, RUNNING, **HOLDS)
    for word in ('"first"', '"second"'):
        assert await steps.remember(tx, [Kept(call(task), "done", word)], owner=OWNER)

    assert await steps.recall(tx, [task]) == {task: {("step", "a", 1): Answer("done", '"first"', 1)}}


async def test_what_is_remembered_is_read_back_for_each_task_alone(tx: Session) -> None:
    one, other = [await plant(tx, TASK, RUNNING, **HOLDS) for _ in range(2)]
    rows = [Kept(call(one), "done", "1"), Kept(call(one, nth=2), "failed", '"no"'), Kept(call(other), "done", None)]
    assert await steps.remember(tx, rows, owner=OWNER)

    assert await steps.recall(tx, [one, other]) == {
        one: {("step", "a", 1): Answer("done", "1", 1), ("step", "a", 2): Answer("failed", '"no"', 2)},
        other: {("step", "a", 1): Answer("done", None, 1)},
    }


async def signals(tx: Session, task: UUID, *names: str) -> None:
    for name in names:
        await steps.send(tx, task, name, f'"{name}"')


async def test_a_wait_takes_the_oldest_event_of_its_name_and_task(tx: Session) -> None:
    task, stranger = [await plant(tx, TASK, RUNNING, **HOLDS) for _ in range(2)]
    await signals(tx, stranger, "go")
    await signals(tx, task, "other")
    await tx.fetch("insert into ferryman.task_signals (task, at, name, payload) select $1, now(), 'go', n::text::jsonb"
                   " from generate_series(1, 2) as n", task)  # fmt: skip

    answers = [
        (await steps.wait(tx, [Asked(call(task, "event", "go", nth))], owner=OWNER))[task] for nth in (1, 2, 1, 3)
    ]

    assert [(answer and (answer.state, answer.result)) for answer in answers] == [
        ("done", "1"), ("done", "2"), ("done", None), ("open", None),
    ]  # fmt: skip
    left = await tx.fetch("select task, name from ferryman.task_signals order by id")
    assert [(row["task"], row["name"]) for row in left] == [(stranger, "go"), (task, "other")]


async def test_an_event_that_comes_after_its_time_is_left_for_another_wait(tx: Session) -> None:
    task = await plant(tx, TASK, RUNNING, **HOLDS)
    asked = Asked(call(task, "event", "go"), 10.0)
    await steps.wait(tx, [asked], owner=OWNER)
    await travel(tx, timedelta(seconds=11))
    await signals(tx, task, "go")

    late = (await steps.wait(tx, [asked], owner=OWNER))[task]
    next_one = (await steps.wait(tx, [Asked(call(task, "event", "go", 2), 10.0)], owner=OWNER))[task]

    assert late is not None
    assert next_one is not None
    assert (late.state, next_one.state) == ("failed", "done")


async def test_a_sleep_takes_no_event(tx: Session) -> None:
    task = await plant(tx, TASK, RUNNING, **HOLDS)
    await signals(tx, task, "a")

    asleep = (await steps.wait(tx, [Asked(call(task, "sleep"), 10.0)], owner=OWNER))[task]
    await travel(tx, timedelta(seconds=11))
    slept = (await steps.wait(tx, [Asked(call(task, "sleep"), 10.0)], owner=OWNER))[task]

    assert (asleep and asleep.state, slept and slept.state) == ("open", "done")
    assert len(await tx.fetch("select from ferryman.task_signals")) == 1


@pytest.mark.contract("T21")
async def test_a_wait_that_would_outlast_its_task_is_not_written_and_takes_nothing(tx: Session) -> None:
    task = await plant(tx, TASK, RUNNING, **HOLDS, ends_at=DAY)
    await signals(tx, task, "go")

    answers = await steps.wait(tx, [Asked(call(task, "event", "go"), 2 * DAY.total_seconds())], owner=OWNER)

    assert answers == {task: None}
    assert (await kept(tx), len(await tx.fetch("select from ferryman.task_signals"))) == (0, 1)


async def parked(
    tx: Session, *, names: tuple[str, ...] = (), children: int = 0, **more: Any
) -> tuple[UUID, list[UUID]]:
    """Plant a parked task and the children it waits for."""
    task = await plant(tx, TASK, RUNNING, **HOLDS, **more)
    births = [Birth(call(task, "child", "mail", n), born(task)) for n in range(1, children + 1)]
    if births:
        await steps.bear(tx, births, owner=OWNER)
    found = [birth.task.id for birth in births]
    park = Park(names=names, children=tuple(found), open=len(found) or None)
    await steps.park(tx, [Outcome(task, EPOCH, OWNER, READY, park=park)])
    return task, found


def end(child: UUID, parent: UUID, state: TaskState = SUCCEEDED) -> Ended:
    won = state is SUCCEEDED
    return Ended(
        id=child,
        tenant="default",
        task_id=None,
        name="mail",
        state=state,
        attempt=1,
        code=None if won else "TASK_EXECUTION_FAILED",
        reason=None if won else "no",
        result='{"n": 1}' if won else None,
        callback=CHILD,
        callback_ref=str(parent),
    )


async def test_a_join_counts_down_and_wakes_its_parent_at_zero_alone(tx: Session) -> None:
    task, [one, two, three] = await parked(tx, children=3)

    assert await steps.answer(tx, [end(one, task)]) == []
    assert await steps.answer(tx, [end(one, task)]) == []  # told twice, counted once
    assert (await columns(tx, task, "rank"))["rank"] is None
    assert await steps.answer(tx, [end(two, task), end(three, task, FAILED)]) == ["default\x1fdefault"]

    woken = await columns(tx, task, "rank", "wake_at", "state", "attempt")
    assert (woken["rank"] is not None, woken["wake_at"], woken["state"], woken["attempt"]) == (True, None, "ready", 2)
    answers = (await steps.recall(tx, [task]))[task]
    assert [answers["child", "mail", n].state for n in (1, 2, 3)] == ["done", "done", "failed"]


async def test_the_end_of_a_child_that_is_not_waited_for_counts_for_nothing(tx: Session) -> None:
    task, [waited, other] = await parked(tx, children=2)
    await tx.fetch("update ferryman.task_waits set open = 1, children = $1", [waited])

    assert await steps.answer(tx, [end(other, task)]) == []
    assert await steps.answer(tx, [end(waited, task)]) != []


@pytest.mark.parametrize("by", ["child", "event"])
async def test_what_comes_to_a_running_task_keeps_it_from_parking(tx: Session, by: str) -> None:
    task = await plant(tx, TASK, RUNNING, **HOLDS)
    child = born(task)
    await steps.bear(tx, [Birth(call(task, "child"), child)], owner=OWNER)
    if by == "child":
        await steps.answer(tx, [end(child.id, task)])
    else:
        await steps.send(tx, task, "go", None)
    outcome = Outcome(task, EPOCH, OWNER, READY, park=Park(names=("go",), children=(child.id,), open=1))

    answer = await steps.park(tx, [outcome])

    row = await columns(tx, task, "rank", "wake_at", "roused")
    assert answer.lanes == ["default\x1fdefault"]
    assert (row["rank"] is not None, row["wake_at"], row["roused"]) == (True, None, None)


@pytest.mark.contract("T5")
@pytest.mark.parametrize("by", ["child", "event"])
async def test_a_task_that_backs_off_is_not_woken_by_what_it_waited_for_before(tx: Session, by: str) -> None:
    task, [child] = await parked(tx, names=("go",), children=1)
    await tx.fetch("update ferryman.tasks set epoch = epoch + 1 where id = $1", task)

    if by == "child":
        await steps.answer(tx, [end(child, task)])
    else:
        await steps.send(tx, task, "go", None)

    assert (await columns(tx, task, "rank"))["rank"] is None


async def test_a_parked_task_is_woken_by_an_event_of_its_name_alone(tx: Session) -> None:
    task, _ = await parked(tx, names=("go", "stop"))

    assert (await steps.send(tx, task, "other", None))[1] is None
    assert (await steps.send(tx, task, "stop", None))[1] == "default\x1fdefault"
    assert (await steps.send(tx, task, "go", None))[1] is None  # it is on its way already


async def test_a_park_takes_no_more_than_a_current_claim_gives(tx: Session) -> None:
    task = await plant(tx, TASK, RUNNING, **HOLDS, ends_at=DAY)
    outcome = Outcome(task, EPOCH, OWNER, READY, park=Park())

    for stale in (outcome._replace(epoch=EPOCH - 1), outcome._replace(owner=OTHER)):
        assert await steps.park(tx, [stale]) == (set(), [], set())
    assert (await steps.park(tx, [outcome])).ids == {task}

    row = await columns(tx, task, "wake_at", "ends_at")
    assert row["wake_at"] == row["ends_at"]
    assert await tx.fetch("select from ferryman.task_waits") == []  # it waits for a time alone


async def test_a_park_of_a_busy_row_is_asked_again(db: Database) -> None:
    async with db.transaction() as tx:
        task = await plant(tx, TASK, RUNNING, **HOLDS)

    async with db.transaction() as other:
        await other.fetch("select from ferryman.tasks where id = $1 for update", task)
        async with db.session() as tx:
            answer = await steps.park(tx, [Outcome(task, EPOCH, OWNER, READY, park=Park())])

    assert answer == (set(), [], {task})


async def test_the_sweeps_find_strays_and_the_stuck_and_nothing_else(tx: Session) -> None:
    sound, [living] = await parked(tx, children=1, names=("go",))
    emptied, [gone] = await parked(tx, children=1)
    await tx.fetch("update ferryman.task_steps set state = 'done' where child = $1", gone)
    called, _ = await parked(tx, names=("go",))
    other, _ = await parked(tx, names=("go",))
    await tx.fetch(
        "insert into ferryman.task_signals (task, at, name) values ($1, now(), 'go'), ($2, now(), 'no')", called, other
    )
    awake, _ = await parked(tx, names=("go",))
    await steps.send(tx, awake, "go", None)

    assert {row["id"] for row in await steps.stuck(tx, 10)} == {emptied, called}
    assert len(await steps.stuck(tx, 1)) == 1
    assert sorted(await steps.wake(tx, [emptied, called, awake])) == sorted([emptied, called])
    assert list(await steps.strays(tx, 10)) == []
    await tx.fetch(
        "update ferryman.tasks set state = 'cancelled', wake_at = null, finished_at = now() where id = $1", sound
    )
    assert [row["id"] for row in await steps.strays(tx, 10)] == [living]
    assert await steps.children(tx, [sound, emptied]) == [living]


# Round trips


@pytest.fixture
async def line(database_url: str) -> AsyncIterator[Line]:
    made = Line(database_url)
    yield made
    await made.close()


async def running(line: Line, count: int) -> list[UUID]:
    async with line.transaction() as tx:
        return [await plant(tx, TASK, RUNNING, **HOLDS) for _ in range(count)]


async def test_the_steps_of_many_tasks_take_one_trip_and_those_that_come_meanwhile_one_more(line: Line) -> None:
    tasks = await running(line, 50)
    wire = Counted(line)
    scribe = Scribe(wire, NoDoorbell(), owner=OWNER, ends_after=DAY)  # type: ignore[arg-type]  # counted, else a line

    await asyncio.gather(*(scribe.remember([Kept(call(task), "done", "1")]) for task in tasks))

    assert (wire.trips, wire.transactions) == (1, 0)


async def test_the_children_of_one_call_take_two_statements_in_a_transaction(line: Line) -> None:
    [task] = await running(line, 1)
    wire = Counted(line)
    scribe = Scribe(wire, NoDoorbell(), owner=OWNER, ends_after=DAY)  # type: ignore[arg-type]  # counted, else a line

    await scribe.bear([Birth(call(task, "child", "mail", n), born(task)) for n in range(1, 101)])

    assert (wire.trips, wire.transactions) == (2, 1)


@pytest.mark.contract("P9")
async def test_the_ends_of_a_hundred_children_take_three_statements_in_a_transaction(line: Line) -> None:
    async with line.transaction() as tx:
        task, children = await parked(tx, children=100)
        owned = [
            await plant(tx, TASK, RUNNING, **HOLDS, id=id, callback=CHILD, callback_ref=str(task)) for id in children
        ]
    wire = Counted(line)
    told = [Outcome(id, EPOCH, OWNER, SUCCEEDED, callback=CHILD, callback_ref=str(task)) for id in owned]

    async with wire.transaction():
        rows, _busy = await settle(wire, Owners({CHILD: Joins()}), told)

    assert (len(rows), wire.trips, wire.transactions) == (100, 3, 1)
    assert (await columns(line, task, "rank"))["rank"] is not None  # type: ignore[arg-type]  # a line fetches too


@pytest.mark.contract("K4", "T7")
async def test_a_stale_step_spoils_no_other_of_its_set(line: Line) -> None:
    good, lost = await running(line, 2)
    scribe = Scribe(line, NoDoorbell(), owner=OWNER, ends_after=DAY)

    answers = await asyncio.gather(
        scribe.remember([Kept(call(good), "done", "1")]),
        scribe.remember([Kept(call(lost, epoch=EPOCH - 1), "done", "1")]),
        scribe.remember([Kept(call(ids.new_id()), "done", "1")]),
        return_exceptions=True,
    )

    assert answers[0] is None
    assert [type(each) for each in answers[1:]] == [errors.TaskCancelled] * 2


@pytest.mark.contract("K25")
async def test_a_step_that_postgresql_refuses_spoils_no_other_of_its_set(line: Line) -> None:
    tasks = await running(line, 5)
    scribe = Scribe(line, NoDoorbell(), owner=OWNER, ends_after=DAY)

    answers = await asyncio.gather(
        *(scribe.remember([Kept(call(task), "done", "not json" if n == 2 else "1")]) for n, task in enumerate(tasks)),
        return_exceptions=True,
    )

    assert [isinstance(answer, Exception) for answer in answers] == [n == 2 for n in range(5)]


SPOIL = """
create function public.spoil() returns trigger language plpgsql as
$$ begin raise exception 'a page cannot be read' using errcode = 'XX001'; end $$;
create trigger spoil before insert on ferryman.task_steps for each row
    when (new.task = '{task}') execute function public.spoil();
"""
MEND = "drop function public.spoil() cascade"
Told = Callable[[Scribe, UUID], Awaitable[Any]]

TOLD: dict[str, Told] = {
    "remember": lambda scribe, task: scribe.remember([Kept(call(task), "done", "1")]),
    "wait": lambda scribe, task: scribe.wait(Asked(call(task, "event"))),
    "bear": lambda scribe, task: scribe.bear([Birth(call(task, "child", "mail"), born(task))]),
}


@pytest.mark.contract("K24", "K25")
@pytest.mark.parametrize("tell", TOLD.values(), ids=TOLD)
async def test_a_call_whose_row_cannot_be_written_keeps_no_other_waiting(line: Line, db: Database, tell: Told) -> None:
    bad, *good = await running(line, 5)
    scribe = Scribe(line, NoDoorbell(), owner=OWNER, ends_after=DAY)
    async with db.session() as tx:
        await tx.execute(SPOIL.format(task=bad))

    async with asyncio.timeout(PATIENCE_SECONDS):
        stuck = asyncio.ensure_future(tell(scribe, bad))
        await asyncio.gather(*(tell(scribe, task) for task in good[:3]))
        await tell(scribe, good[3])
        assert not stuck.done()
        async with db.session() as tx:
            await tx.execute(MEND)
        await stuck


@pytest.mark.contract("K24", "K25")
@pytest.mark.parametrize("read", ["recall", "mine"])
async def test_a_task_that_cannot_be_read_keeps_no_other_waiting(
    line: Line, monkeypatch: pytest.MonkeyPatch, read: str
) -> None:
    bad, *good = await running(line, 4)
    scribe = Scribe(line, NoDoorbell(), owner=OWNER, ends_after=DAY)
    damaged, sound = {bad}, getattr(steps, read)

    async def reads(tx: Tx, asked: Sequence[Any], **more: Any) -> Any:
        if damaged & {each if read == "recall" else each[0] for each in asked}:
            raise errors.DatabaseDamaged("a page cannot be read", narrow=True)
        return await sound(tx, asked, **more)

    def tell(task: UUID) -> Awaitable[Any]:
        # Of those that are not held any more it is asked whose they are.
        old = [Kept(call(task, epoch=EPOCH - 1), "done", "1")]
        return scribe.recall(task) if read == "recall" else scribe.remember(old)

    monkeypatch.setattr(steps, read, reads)
    async with asyncio.timeout(PATIENCE_SECONDS):
        stuck = asyncio.ensure_future(tell(bad))
        told = await asyncio.gather(*(tell(task) for task in good), return_exceptions=True)
        assert not stuck.done()
        damaged.clear()
        told += await asyncio.gather(stuck, return_exceptions=True)

    assert [type(each) for each in told] == [dict if read == "recall" else errors.TaskCancelled] * 4


async def test_a_busy_row_is_written_when_it_is_free_again(line: Line, db: Database) -> None:
    [task] = await running(line, 1)
    scribe = Scribe(line, NoDoorbell(), owner=OWNER, ends_after=DAY)

    asked = (
        "select from pg_stat_activity where datname = current_database() and pid <> pg_backend_pid()"
        " and query like '%claims are still current%'"
    )
    async with db.transaction() as other, db.session() as watcher:
        await other.fetch("select from ferryman.tasks where id = $1 for update", task)
        writing = asyncio.ensure_future(scribe.remember([Kept(call(task), "done", "1")]))
        # Once it has asked whose the claim is, it will send again.
        while not await watcher.fetch(asked):
            continue
        assert not writing.done()
    await asyncio.wait_for(writing, PATIENCE_SECONDS)

    assert await steps.recall(line, [task]) == {task: {("step", "a", 1): Answer("done", "1", 1)}}


async def test_the_look_for_the_stuck_walks_by_pages_and_rests_between(tx: Session) -> None:
    waiting = sorted([(await parked(tx, names=("go",)))[0] for _ in range(5)])
    await tx.fetch(
        "insert into ferryman.task_signals (task, at, name) select unnest($1::uuid[]), now(), 'go'", waiting[1:]
    )

    async def look(limit: int, span: int) -> tuple[list[int], int | None]:
        found = await steps.stuck(tx, limit, span=span, pace=DAY)
        [row] = await tx.fetch("select after_id as id from ferryman.retention where domain = 'stuck'")
        return [waiting.index(each["id"]) for each in found], waiting.index(row["id"]) if row["id"].int else None

    full, page, resting = await look(1, 4), await look(9, 2), await look(9, 9)
    await travel(tx, DAY)

    assert (full, page, resting, await look(9, 9)) == (([1], 1), ([2, 3], 3), ([], 3), ([4], None))
    places = await tx.fetch("select domain from ferryman.retention where next_at > '-infinity'")
    assert [row["domain"] for row in places] == ["stuck"]


async def test_one_looks_for_the_stuck_at_a_time(db: Database) -> None:
    async with db.transaction() as tx:
        await parked(tx, names=("go",))
        await tx.fetch(
            "insert into ferryman.task_signals (task, at, name) select task, now(), 'go' from ferryman.task_waits"
        )

    async with db.transaction() as one, db.transaction() as other:
        assert [len(await steps.stuck(each, 9)) for each in (one, other)] == [1, 0]


# Children that must look before they are born


def single(task: UUID, nth: int = 1) -> Birth:
    made = call(task, "child", "mail", nth)
    child = born(task)._replace(id=child_id(made), singleton="s")
    return Birth(made, child)


@pytest.fixture
async def flows(database_url: str) -> AsyncIterator[Line]:
    line = Line(database_url)
    yield line
    await line.close()


@pytest.mark.contract("T17")
@pytest.mark.parametrize("ending", ["commit", "rollback"])
async def test_a_child_waits_for_who_holds_its_key_and_no_step_waits_with_it(
    db: Database, line: Line, flows: Line, ending: str
) -> None:
    parent, other = await running(line, 2)
    scribe = Scribe(line, NoDoorbell(), owner=OWNER, ends_after=DAY, flows=flows)
    living = born(other)._replace(callback=None, callback_ref=None, singleton="s")
    birth = single(parent)
    async with db.session() as first:
        await first.execute("begin")
        await store.create(first, [living], ends_after=DAY)
        bearing = await begin_and_wait(db, flows, _awaited(scribe.bear([birth])))

        await scribe.remember([Kept(call(other), "done", "1")])
        assert not bearing.done()
        await first.execute(ending)
        refused = await bearing

    async with db.session() as tx:
        kids = await tx.fetch("select child from ferryman.task_steps where kind = 'child'")
        assert await invariants.check(tx, TASK_INVARIANTS) == []
        lives = await tx.fetch("select id from ferryman.tasks where singleton = 's'")
    if ending == "commit":
        assert [(id, each.code) for id, each in refused.items()] == [(birth.task.id, "TASK_ALREADY_LIVE")]
        assert ([row["id"] for row in lives], list(kids)) == ([living.id], [])
    else:
        assert refused == {}
        assert [row["id"] for row in lives] == [row["child"] for row in kids] == [birth.task.id]


async def _awaited(future: Any) -> Any:
    return await future


@pytest.mark.contract("T17")
async def test_a_child_under_flow_control_that_was_sent_twice_is_born_once(db: Database, line: Line) -> None:
    [parent] = await running(line, 1)
    scribe = Scribe(line, NoDoorbell(), owner=OWNER, ends_after=DAY)

    answers = [await scribe.bear([single(parent)]) for _ in range(2)]

    assert answers == [{}, {}]
    async with db.session() as tx:
        assert len(await tx.fetch("select from ferryman.tasks where singleton = 's'")) == 1


@pytest.mark.contract("T17", "T7")
async def test_a_stale_parent_bears_no_child_under_flow_control(db: Database, line: Line) -> None:
    parent, good = await running(line, 2)
    scribe = Scribe(line, NoDoorbell(), owner=OWNER, ends_after=DAY)
    stale = single(parent)
    stale = stale._replace(call=stale.call._replace(epoch=EPOCH - 1), task=stale.task._replace(singleton="other"))

    told = await asyncio.gather(scribe.bear([stale]), scribe.bear([single(good)]), return_exceptions=True)

    assert isinstance(told[0], errors.TaskCancelled)
    assert told[1] == {}
    async with db.session() as tx:
        rows = await tx.fetch("select singleton from ferryman.tasks where callback = 'child'")
    assert [row["singleton"] for row in rows] == ["s"]
