"""Ended batches are kept for their time, and then leave with what was made for them (T20)."""

import asyncio
import json
from datetime import timedelta
from uuid import UUID, uuid4

import asyncpg
import pytest

from ferryman.agents.watch import retention as turns
from ferryman.app.doctor import keeping
from ferryman.batches import watch
from ferryman.batches.store import retention
from ferryman.kernel import watchdog
from ferryman.kernel.pool import Line
from tests.batches.yard import Yard, task
from tests.patience import PATIENCE_SECONDS
from tests.sql import walking
from tests.sql.test_plans import scans

WEEK = timedelta(days=7)
LEFT = (
    "pmo_batches",
    "pmo_batch_tasks",
    "agent_inbox",
    "execution_edges",
    "boxes",
    "cards",
    "agents",
    "agent_state_head",
)


async def walk(yard: Yard, url: str, *, turns_kept: timedelta = WEEK) -> int:
    line = Line(url)
    await yard.write("update ferryman.retention set next_at = '-infinity'")
    try:
        told = await walking.past(line, "batch", kept=WEEK)
        report = await watchdog.tick(line, [watch.retention(kept=WEEK), turns(kept=turns_kept)])
    finally:
        await line.close()
    assert told == report.acted("T20-batches"), "doctor counts what the walk finds"
    return told


async def left(yard: Yard) -> dict[str, int]:
    counts = {name: await yard.value(f"select count(*) from ferryman.{name}") for name in LEFT}
    return {name: count for name, count in counts.items() if count}


@pytest.mark.contract("T20", "B9")
async def test_a_batch_leaves_with_its_tasks_agents_boxes_and_cards(yard: Yard, database_url: str) -> None:
    batch, [first, second] = await yard.running()
    never = await yard.fork(task(), task())
    await yard.cancel_batch(never)
    await yard.finish(first)
    await yard.finish(second)
    assert len(await left(yard)) == len(LEFT)
    await yard.travel(timedelta(days=6))
    early = await walk(yard, database_url)
    await yard.travel(timedelta(days=2))

    assert (early, await walk(yard, database_url)) == (0, 2)
    assert await left(yard) == {}
    assert batch != never


@pytest.mark.contract("T20")
async def test_what_is_live_or_owed_stays_with_the_turns_it_refers_to(yard: Yard, database_url: str) -> None:
    batch, [first, _] = await yard.running(deadline_seconds=1e6)
    await yard.finish(first)
    ended, [third] = await yard.running(1)
    await yard.finish(third)
    untold = await yard.fork(task())
    await yard.cancel_batch(untold)
    await yard.write("update ferryman.pmo_batches set parent_told_at = null where id = $1", untold)
    await yard.travel(timedelta(days=8))

    assert await walk(yard, database_url, turns_kept=2 * WEEK) == 1

    assert {row["id"] for row in await yard.rows("select id from ferryman.pmo_batches")} == {batch, untold}
    assert await yard.value("select count(*) from ferryman.pmo_batch_tasks") == 3
    # The turn of the batch that left is kept for longer, with its boxes.
    assert await yard.value("select count(*) from ferryman.boxes") == 8
    assert await walk(yard, database_url) == 0
    left_turns = {row["id"] for row in await yard.rows("select id from ferryman.agent_inbox")}
    assert (first.id in left_turns, third.id in left_turns, ended != batch) == (True, False, True)
    assert await yard.value("select count(*) from ferryman.boxes") == 6


@pytest.mark.contract("T20", "B5")
async def test_an_agent_that_a_task_is_still_to_be_sent_to_stays(yard: Yard, database_url: str) -> None:
    """A derived agent that has had nothing to do for long is asked again, and the dispatch comes later than the walk."""
    _, [child] = await yard.running(1)
    await yard.finish(child)
    await yard.travel(timedelta(days=8))
    again = await yard.fork(task(child.agent_id, strategy="reuse"))

    await walk(yard, database_url)
    await yard.dispatch()

    [taken] = await yard.children()
    await yard.finish(taken)
    assert (taken.agent_id, (await yard.batch(again)).status) == (child.agent_id, "success")
    await yard.travel(timedelta(days=8))
    await walk(yard, database_url)
    assert await left(yard) == {}


PLANT = (
    "insert into ferryman.pmo_batches (id, tenant, created_at, updated_at, deadline_at, finished_at, parent_told_at,"
    " task_count, recursion_depth, status) values ($1, 'default', now(), now(), now(), $2, $3, 1, 0, $4)"
)


async def plant(yard: Yard, *, ago: timedelta | None, told: bool = True) -> UUID:
    """Put a batch in that ended so long ago, or lives."""
    id = uuid4()
    at = None if ago is None else await yard.value("select ferryman.clock() - $1::interval", ago)
    await yard.write(PLANT, id, at, at if told else None, "running" if ago is None else "success")
    return id


@pytest.mark.contract("T20")
async def test_the_walk_goes_page_by_page(yard: Yard, database_url: str) -> None:
    ids = sorted([await plant(yard, ago=timedelta(days=8)) for _ in range(3)])
    line = Line(database_url)
    try:
        await walking.assert_walks(yard.db, line, retention.walk, "batch", ids)
    finally:
        await line.close()


@pytest.mark.contract("T20")
async def test_only_what_has_ended_and_was_told_is_found_and_deleted(yard: Yard) -> None:
    past = await plant(yard, ago=timedelta(days=8))
    kept = [
        await plant(yard, ago=None), await plant(yard, ago=timedelta(days=8), told=False),
        await plant(yard, ago=timedelta(days=6)),
    ]  # fmt: skip
    async with yard.db.transaction() as tx:
        found = await retention.walk(tx, 9, span=9, **walking.TERMS)
        gone = await retention.forget(tx, [past, *kept[:2]])

        left = {row["id"] for row in await tx.fetch("select id from ferryman.pmo_batches")}

    assert [row["id"] for row in found] == [row["id"] for row in gone] == [past]
    assert left == set(kept)


@pytest.mark.contract("T20")
async def test_a_batch_that_somebody_holds_is_left_for_the_next_walk(yard: Yard) -> None:
    past = await plant(yard, ago=timedelta(days=8))
    async with yard.db.transaction() as other, yard.db.transaction() as tx:
        await other.fetch("select from ferryman.pmo_batches where id = $1 for update", past)
        async with asyncio.timeout(PATIENCE_SECONDS):
            assert await retention.forget(tx, [past]) == []


YOUNG = """
insert into ferryman.pmo_batches (id, tenant, status, task_count, recursion_depth, deadline_at, created_at, updated_at,
    finished_at, parent_told_at)
select gen_random_uuid(), 'default', 'success', 1, 1, now(), now(), now(), now() - n * interval '1 minute', now()
from generate_series(1, 5000) as n
"""


@pytest.mark.contract("T20")
async def test_doctor_looks_for_old_batches_without_reading_the_young(database_url: str) -> None:
    terms = ", ".join("interval '7 days'" for _ in keeping.RETENTION.names)
    connection = await asyncpg.connect(database_url)
    try:
        await connection.execute("set session_replication_role = replica")  # which writes past the guard of births
        await connection.execute(YOUNG)
        await connection.execute("analyze ferryman.pmo_batches")
        types = ", ".join("interval" for _ in keeping.RETENTION.names)
        await connection.execute(f"prepare past ({types}) as {keeping.RETENTION.sql()}")
        told = await connection.fetchval(f"explain (format json) execute past ({terms})")
    finally:
        await connection.close()
    read = [each for each in scans(json.loads(told)[0]["Plan"]) if "pmo_batches" in str(each)]
    assert {each.get("Index Name") for each in read} == {"pmo_batches_ended", "pmo_batches_deadline"}, (
        "the other: of the live"
    )
    assert all("Index Cond" in each for each in read if each["Index Name"] == "pmo_batches_ended")
