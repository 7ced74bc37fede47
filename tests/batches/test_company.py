"""One agent that cannot be written to, or that somebody holds: nobody else's tasks wait for it (B5, K25)."""

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from datetime import timedelta
from uuid import UUID

import pytest

from ferryman.batches import watch
from ferryman.batches.model import Terms
from ferryman.batches.work.part import BatchWorker
from ferryman.kernel.doorbell import NoDoorbell
from ferryman.kernel.pool import Database, Line
from ferryman.kernel.watchdog import Watchdog
from tests.agents.crew import until
from tests.batches.yard import Yard, task
from tests.patience import PATIENCE_SECONDS

pytestmark = pytest.mark.usefixtures("endless_waits")

# What PostgreSQL says: a page that cannot be read, a disk that fails, and what it did not foresee.
CODES = ("XX001", "58030", "XX000")
BAD = """
create function public.bad() returns trigger language plpgsql as
$$ begin raise exception 'bad' using errcode = '{code}'; end $$;
create trigger bad before {move} on ferryman.{table} for each row when ({when}) execute function public.bad();
"""
# A head of which no column can be read, as on a page that is damaged, for whoever is not above policies.
UNREAD = """
create function public.unread(agent text) returns boolean language plpgsql as $$
begin
    if agent = 'bob' then raise exception 'bad' using errcode = 'XX001'; end if;
    return true;
end $$;
alter table ferryman.agent_state_head enable row level security;
create policy unread on ferryman.agent_state_head using (public.unread(agent_id));
grant usage on schema ferryman to pg_monitor;
grant all on all tables in schema ferryman to pg_monitor;
grant all on all sequences in schema ferryman to pg_monitor;
"""

Way = Callable[[Yard, UUID], Awaitable[None]]


async def _by_the_worker(yard: Yard, other: UUID) -> None:
    part = BatchWorker(yard.owner, NoDoorbell(), line=Line(yard.db.url))
    part.start()
    try:
        await until(lambda: _sent(yard, other), PATIENCE_SECONDS)
    finally:
        await part.close()


async def _by_the_watchdog(yard: Yard, _other: UUID) -> None:
    async with asyncio.timeout(PATIENCE_SECONDS):
        await yard.tick_batches("B5")


async def _sent(yard: Yard, batch: UUID) -> bool:
    return set(await yard.statuses(batch)) == {"dispatched"}


async def spoil(yard: Yard, table: str, when: str, *, code: str = "XX001", move: str = "insert") -> None:
    async with yard.db.session() as tx:
        await tx.execute(BAD.format(code=code, move=move, table=table, when=when))


async def _two(yard: Yard) -> tuple[UUID, UUID]:
    """Fork two batches, of which the first has one task for bob."""
    await yard.agent("bob")
    return await yard.fork(task("bob", strategy="reuse"), task()), await yard.fork(task())


@pytest.mark.contract("B5", "K24", "K25", "W23")
@pytest.mark.parametrize("code", CODES)
@pytest.mark.parametrize("way", [_by_the_worker, _by_the_watchdog])
async def test_an_agent_of_which_nothing_can_be_written_keeps_no_other_task_waiting(
    yard: Yard, way: Way, code: str, caplog: pytest.LogCaptureFixture
) -> None:
    first, second = await _two(yard)
    await yard.write("update ferryman.pmo_batch_tasks set attempt_count = 9 where agent_id = 'bob'")
    await spoil(yard, "agent_inbox", "new.agent_id = 'bob'", code=code)

    with caplog.at_level(logging.ERROR, logger="ferryman.database"):
        await way(yard, second)

    assert await yard.statuses(first) == ["pending", "dispatched"]
    assert await yard.statuses(second) == ["dispatched"]
    told = [record for record in caplog.records if record.name == "ferryman.database"]
    assert bool(told) == (code == "XX001")
    await yard.write("drop trigger bad on ferryman.agent_inbox")
    await yard.travel(40)
    await yard.dispatch()
    assert await yard.statuses(first) == ["dispatched", "dispatched"]
    assert await yard.broken() == []


@pytest.mark.contract("B5", "K25", "W23")
@pytest.mark.parametrize("way", [_by_the_worker, _by_the_watchdog])
async def test_an_agent_whose_head_cannot_be_read_keeps_no_other_task_waiting(
    yard: Yard, way: Way, database_url: str
) -> None:
    first, second = await _two(yard)
    async with yard.db.session() as tx:
        await tx.execute(UNREAD)
    yard.db = Database(f"{database_url}{'&' if '?' in database_url else '?'}role=pg_monitor")
    await yard.db.open()

    await way(yard, second)

    assert await yard.statuses(first) == ["pending", "dispatched"]
    await yard.db.close()


@pytest.mark.contract("B5", "K25", "W23")
@pytest.mark.parametrize("way", [_by_the_worker, _by_the_watchdog])
@pytest.mark.parametrize("who", ["bob", "ann"])
async def test_an_agent_that_somebody_holds_keeps_no_other_task_waiting(yard: Yard, way: Way, who: str) -> None:
    caller = await yard.parent("ann")
    await yard.agent("bob")
    first = await yard.fork(task("bob", strategy="reuse"), caller=caller)
    second = await yard.fork(task())

    async with yard.db.transaction() as tx:
        await tx.fetch("select from ferryman.agent_state_head where agent_id = $1 for update", who)
        await way(yard, second)
        [passed] = await yard.tasks_of(first)

    assert (passed.status, passed.attempt_count) == ("pending", 0)
    assert await yard.statuses(second) == ["dispatched"]
    assert (await yard.dispatch()).taken == 1
    assert await yard.broken() == []


# The server gives up a statement after 0.8 s; the inbox takes three messages in that time.
PATIENCE = timedelta(seconds=1)
SLOW_INBOX = """
create function public.slow() returns trigger language plpgsql as $$ begin perform pg_sleep(0.25); return new; end $$;
create trigger slow before insert on ferryman.agent_inbox for each row execute function public.slow();
"""


@asynccontextmanager
async def _sending(yard: Yard, *, worker: bool) -> AsyncIterator[None]:
    """Let a worker, or a watchdog, send for as long as this lasts."""
    async with yard.db.session() as tx:
        await tx.execute(SLOW_INBOX)
    line = Line(yard.db.url, patience=PATIENCE)
    if worker:
        part = BatchWorker(yard.owner, NoDoorbell(), line=line)
        part.start()
        try:
            yield
        finally:
            await part.close()
    else:
        [rule] = [each for each in watch.rules(yard.owner, NoDoorbell(), sweep=PATIENCE / 10) if each.name == "B5"]
        dog = Watchdog(line, [rule])
        running = asyncio.create_task(dog.run())
        try:
            yield
        finally:
            dog.stop()
            await running
            await line.close()


@pytest.mark.contract("B5", "K24", "K25")
@pytest.mark.parametrize("worker", [True, False], ids=["a worker", "a watchdog"])
async def test_tasks_that_take_too_long_together_are_sent_in_smaller_sets(
    yard: Yard, caplog: pytest.LogCaptureFixture, *, worker: bool
) -> None:
    batch = await yard.fork(*[task() for _ in range(5)])

    async with _sending(yard, worker=worker):
        await until(lambda: _sent(yard, batch), PATIENCE_SECONDS)

    assert await yard.statuses(batch) == ["dispatched"] * 5
    assert await yard.broken() == []
    assert {record.levelname for record in caplog.records} == {"WARNING"}


@pytest.mark.contract("B5", "K24", "K25")
@pytest.mark.parametrize("worker", [True, False], ids=["a worker", "a watchdog"])
async def test_a_set_that_takes_too_long_holds_no_batch_until_the_last_is_sent(yard: Yard, *, worker: bool) -> None:
    batches = [await yard.fork(task()) for _ in range(8)]

    async def sent() -> set[UUID]:
        return {batch for batch in batches if await _sent(yard, batch)}

    async with _sending(yard, worker=worker):
        await until(sent, PATIENCE_SECONDS)
        async with yard.db.transaction() as tx:
            free = {row["id"] for row in await tx.fetch("select id from ferryman.pmo_batches for update skip locked")}
        assert set(batches) > await sent()
        assert free - await sent()


@pytest.mark.contract("B5", "B12")
async def test_tasks_of_agents_that_are_held_take_no_place_from_others(db: Database) -> None:
    yard = Yard(db, terms=Terms(dispatch_concurrency=2))
    for name in ("bob", "cid"):
        await yard.agent(name)
    held = [await yard.fork(task(name, strategy="reuse")) for name in ("bob", "cid") * 2]
    free = await yard.fork(task())

    async with yard.db.transaction() as tx:
        await tx.fetch("select from ferryman.agent_state_head where agent_id in ('bob', 'cid') for update")
        done = [await yard.dispatch(), await yard.dispatch()]

    assert [(each.taken, each.more) for each in done] == [(1, True), (0, True)]
    assert await yard.statuses(free) == ["dispatched"]
    assert [await yard.statuses(each) for each in held] == [["pending"]] * 4
    assert [(await yard.dispatch()).taken for _ in range(3)] == [2, 2, 0]


@pytest.mark.contract("B5", "B12", "W23")
@pytest.mark.parametrize("what", ["parents", "batches"])
async def test_tasks_whose_parents_or_batches_are_held_take_no_place_from_others(db: Database, what: str) -> None:
    yard = Yard(db, terms=Terms(dispatch_concurrency=2))
    callers = [await yard.parent(name, f"call of {name}") for name in ("ann", "abe")]
    held = [await yard.fork(task(), caller=caller) for caller in callers]
    free = await yard.fork(task())
    rows = {
        "parents": "select from ferryman.agent_state_head where agent_id in ('ann', 'abe') for update",
        "batches": "select from ferryman.pmo_batches where parent_agent_id is not null for update",
    }

    async with yard.db.transaction() as tx:
        await tx.fetch(rows[what])
        done = [await yard.dispatch(), await yard.dispatch()]

    assert [(each.taken, each.more) for each in done] == [(1, True), (0, True)]
    assert await yard.statuses(free) == ["dispatched"]
    assert [await yard.statuses(each) for each in held] == [["pending"]] * 2
    assert [(await yard.dispatch()).taken for _ in range(2)] == [2, 0]


@pytest.mark.contract("B5", "B12", "W23")
@pytest.mark.parametrize("what", ["an agent", "a parent", "batches", "a batch"])
async def test_more_tasks_that_are_held_than_a_walk_has_steps_hide_nobody_behind_them(db: Database, what: str) -> None:
    yard = Yard(db, terms=Terms(scan_limit=2))
    caller = await yard.parent("ann")
    await yard.agent("bob")
    if what == "a batch":
        held = [await yard.fork(task(), task(), task(), caller=caller)]
        await yard.write(
            "update ferryman.pmo_batch_tasks set next_retry_at = next_retry_at - interval '1 s' * task_index"
        )
    else:
        held = [await yard.fork(task("bob", strategy="reuse"), caller=caller) for _ in range(5)]
    free = await yard.fork(task())
    rows = {
        "an agent": "select from ferryman.agent_state_head where agent_id = 'bob' for update",
        "a parent": "select from ferryman.agent_state_head where agent_id = 'ann' for update",
        "batches": "select from ferryman.pmo_batches where parent_agent_id is not null for update",
        "a batch": "select from ferryman.pmo_batches where parent_agent_id is not null for update",
    }

    async with yard.db.transaction() as tx:
        await tx.fetch(rows[what])
        sent = await yard.dispatch()

    assert sent.taken == 1
    assert await yard.statuses(free) == ["dispatched"]
    assert {status for each in held for status in await yard.statuses(each)} == {"pending"}


@pytest.mark.contract("B5", "B11", "K25")
async def test_an_orphan_that_cannot_be_ended_keeps_no_task_from_being_sent(yard: Yard) -> None:
    caller = await yard.parent("ann")
    orphan = await yard.fork(task(), caller=caller)
    await yard.dispatch()
    assert caller.turn is not None
    await yard.stop(caller.turn, "ann")
    await yard.carry_out_stops()
    await spoil(yard, "pmo_batches", f"new.id = '{orphan}'", move="update")
    other = await yard.fork(task())
    part = BatchWorker(yard.owner, NoDoorbell(), line=Line(yard.db.url))
    part._hear_of_stopped(frozenset())

    part.start()
    try:
        await until(lambda: _sent(yard, other), PATIENCE_SECONDS)
    finally:
        await part.close()

    assert (await yard.batch(orphan)).status == "running"


@pytest.mark.contract("B5", "B11", "K25")
async def test_an_orphan_that_somebody_holds_keeps_no_task_from_being_sent(yard: Yard) -> None:
    caller = await yard.parent("ann")
    orphan = await yard.fork(task(), caller=caller)
    await yard.dispatch()
    assert caller.turn is not None
    await yard.stop(caller.turn, "ann")
    await yard.carry_out_stops()
    other = await yard.fork(task())
    part = BatchWorker(yard.owner, NoDoorbell(), line=Line(yard.db.url))
    part._hear_of_stopped(frozenset())

    async with yard.db.transaction() as stranger:
        await stranger.fetch("select from ferryman.pmo_batches where id = $1 for update", orphan)
        part.start()
        try:
            await until(lambda: _sent(yard, other), PATIENCE_SECONDS)
        finally:
            await part.close()

    assert (await yard.batch(orphan)).status == "running"
