"""Finished tasks are kept for their time, and then leave, a set at a time (T20)."""

from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from uuid import UUID, uuid4

import pytest

from ferryman.app import wiring
from ferryman.kernel import ids, invariants, watchdog
from ferryman.kernel.pool import Database, Line, Session
from ferryman.tasks import store, watch
from ferryman.tasks.states import CANCELLED, FAILED, PENDING, READY, RUNNING, SUCCEEDED, TASK
from ferryman.testing import plant, travel

DAY = timedelta(days=1)
WEEK, MONTH = 7 * DAY, 30 * DAY
RULE = watch.retention(kept=WEEK, failed_kept=MONTH)


@pytest.fixture
async def line(database_url: str) -> AsyncIterator[Line]:
    line = Line(database_url)
    yield line
    await line.close()


async def kept(db: Database) -> set[UUID]:
    async with db.session() as tx:
        return {row["id"] for row in await tx.fetch("select id from ferryman.tasks")}


async def begin_again(db: Database) -> None:
    """Let the walk look at once, wherever it is."""
    async with db.session() as tx:
        await tx.fetch("update ferryman.retention set next_at = '-infinity'")


def old(ago: timedelta) -> UUID:
    """Make an id as it was made that long ago."""
    moment = int((datetime.now(UTC) - ago).timestamp() * 1000)
    return UUID(int=(moment << 80) | (uuid4().int & ((1 << 80) - 1)))


async def ended(tx: Session, *, ago: timedelta, state: object = SUCCEEDED, id: UUID | None = None) -> UUID:
    return await plant(tx, TASK, state, id=id or old(ago), finished_at=-ago)  # type: ignore[arg-type]


@pytest.mark.contract("T20")
async def test_what_ended_longer_ago_than_it_is_kept_is_deleted_and_nothing_else(db: Database, line: Line) -> None:
    async with db.session() as tx:
        for state in (SUCCEEDED, CANCELLED):
            await ended(tx, ago=WEEK + DAY, state=state)
        await ended(tx, ago=MONTH + DAY, state=FAILED)
        stay = {
            await ended(tx, ago=WEEK - DAY),
            await ended(tx, ago=MONTH - DAY, state=FAILED),
            await ended(tx, ago=DAY, id=old(MONTH)),  # it lived long, and ended a day ago
            await plant(tx, TASK, READY, id=old(MONTH)),
            await plant(tx, TASK, PENDING, id=old(MONTH)),
            await plant(tx, TASK, RUNNING, id=old(MONTH)),
        }

    report = await watchdog.tick(line, [RULE])

    assert report.acted("T20") == 3
    assert await kept(db) == stay


@pytest.mark.contract("T20")
async def test_ids_that_callers_chose_are_found_wherever_they_lie(db: Database, line: Line) -> None:
    async with db.session() as tx:
        for first in ("00000000", "01900000", "7fffffff", "ffffffff"):
            await ended(tx, ago=WEEK + DAY, id=UUID(f"{first}-0000-4000-8000-00000000000{first[0]}"))
        young = await ended(tx, ago=DAY, id=UUID("ffffffff-ffff-4fff-8fff-ffffffffffff"))

    await watchdog.tick(line, [RULE])

    assert await kept(db) == {young}


@pytest.mark.contract("T20")
async def test_what_belongs_to_a_task_goes_with_it_and_the_log_stays(db: Database, line: Line) -> None:
    async with db.session() as tx:
        task = await ended(tx, ago=WEEK + DAY)
        await tx.fetch("insert into ferryman.task_progress values ($1, 5, now())", task)
        await tx.fetch(
            "insert into ferryman.task_logs (task, at, attempt, level, message) values ($1, now(), 1, 'info', 'm')",
            task,
        )
        await tx.fetch(
            "insert into ferryman.events (at, subject, tenant, kind, to_state) values (now(), $1, 'default', 'task', 'ready')",
            task,
        )

    await watchdog.tick(line, [RULE])

    async with db.session() as tx:
        [row] = await tx.fetch(
            "select (select count(*) from ferryman.task_progress) + (select count(*) from ferryman.task_logs) as parts,"
            " (select count(*) from ferryman.events) as events"
        )
    assert (row["parts"], row["events"]) == (0, 1)


@pytest.mark.contract("T20")
async def test_a_mass_of_them_leaves_in_sets(db: Database, line: Line) -> None:
    async with db.session() as tx:
        await fill(tx, 1700, ago=WEEK + DAY)
        young = await ended(tx, ago=DAY)

    report = await watchdog.tick(line, [RULE])

    assert [each.acted for each in report.outcomes] == [500, 500, 500, 200]
    assert await kept(db) == {young}


async def fill(tx: Session, count: int, *, ago: timedelta) -> None:
    """Put many finished rows in, as old by their ids as by their ends."""
    await tx.fetch("select set_config('session_replication_role', 'replica', false)")
    await tx.fetch(
        """
        insert into ferryman.tasks (id, state, name, payload, due_at, ends_at, created_at, updated_at, timeout_ms, max_retries,
            finished_at, started_at, epoch, lease_count)
        select (left(ferryman.id_at(clock_timestamp() - $2::interval)::text, 13) || right(gen_random_uuid()::text, 23))::uuid,
            'succeeded', 'mail', '{}', now(), now(), now(), now(), 1, 1, now() - $2::interval, now(), 1, 1
        from generate_series(1, $1::integer)
        """,
        count,
        ago,
    )
    await tx.fetch("select set_config('session_replication_role', 'origin', false)")


@pytest.mark.contract("T20")
async def test_a_walk_goes_on_where_it_stopped_and_begins_anew_when_it_has_seen_all(db: Database, line: Line) -> None:
    async with db.session() as tx:
        live = sorted([await plant(tx, TASK, READY, id=old(MONTH)) for _ in range(4)])
        last = await ended(tx, ago=WEEK + DAY)

        async def step() -> tuple[list[UUID], UUID]:
            await begin_again(db)
            found = await store.walk(tx, 500, kept=WEEK, failed_kept=MONTH, span=2, pace=DAY, rest=DAY)
            [row] = await tx.fetch("select after_id from ferryman.retention where domain = 'task'")
            return [each["id"] for each in found], row["after_id"]

        steps = [await step() for _ in range(4)]

    nowhere = UUID(int=0)
    assert steps == [([], live[1]), ([], live[3]), ([last], nowhere), ([], live[1])]


@pytest.mark.contract("T20")
async def test_what_is_too_young_by_its_id_is_not_walked(db: Database) -> None:
    async with db.session() as tx:
        past = await ended(tx, ago=WEEK + DAY)
        for _ in range(5):
            await ended(tx, ago=DAY)

        found = await store.walk(tx, 9, kept=WEEK, failed_kept=MONTH, span=3, pace=DAY, rest=DAY)
        [row] = await tx.fetch("select after_id from ferryman.retention where domain = 'task'")

    assert [each["id"] for each in found] == [past]
    assert row["after_id"] == UUID(int=0)  # the walk is over: nothing was left to look at


@pytest.mark.contract("T20")
async def test_each_domain_has_a_place_of_its_own(db: Database) -> None:
    async with db.session() as tx:
        past = await ended(tx, ago=WEEK + DAY)
        await tx.fetch("insert into ferryman.retention (domain, after_id) values ('other', $1)", past)

        found = await store.walk(tx, 9, kept=WEEK, failed_kept=MONTH, span=9, pace=DAY, rest=DAY)
        untouched = await tx.fetch(
            "select domain from ferryman.retention where after_id = $1 and next_at = '-infinity'", past
        )

    assert [each["id"] for each in found] == [past]
    assert [row["domain"] for row in untouched] == ["other"]


@pytest.mark.contract("T20")
async def test_a_full_set_is_followed_at_once_and_a_page_after_its_pace(db: Database) -> None:
    async with db.session() as tx:
        for _ in range(4):
            await ended(tx, ago=WEEK + DAY)

        async def look(limit: int, span: int) -> int:
            return len(await store.walk(tx, limit, kept=WEEK, failed_kept=MONTH, span=span, pace=5 * DAY, rest=9 * DAY))

        full, again, paced = await look(1, 9), await look(9, 1), await look(9, 9)
        await travel(tx, timedelta(days=5, seconds=1))
        after_pace, rested = await look(9, 9), await look(9, 9)
        await travel(tx, timedelta(days=9, seconds=1))

        assert (full, again, paced, after_pace, rested, await look(9, 9)) == (1, 1, 0, 2, 0, 4)


@pytest.mark.contract("T20")
async def test_two_watchdogs_do_not_walk_together(db: Database, line: Line) -> None:
    async with db.session() as tx:
        await ended(tx, ago=WEEK + DAY)
    terms = {"kept": WEEK, "failed_kept": MONTH, "pace": DAY, "rest": DAY}

    async with db.transaction() as one:
        first = await store.walk(one, 9, span=9, **terms)
        second = await store.walk(line, 9, span=9, **terms)

    assert (len(first), len(second)) == (1, 0)


@pytest.mark.contract("T20")
async def test_a_row_that_somebody_holds_is_left_for_the_next_walk(db: Database, line: Line) -> None:
    async with db.session() as tx:
        held, free = await ended(tx, ago=WEEK + DAY), await ended(tx, ago=WEEK + DAY)

    async with db.transaction() as other:
        await other.fetch("select from ferryman.tasks where id = $1 for update", held)
        await watchdog.tick(line, [RULE])
        left = await kept(db)
    await begin_again(db)
    await watchdog.tick(line, [RULE])

    assert left == {held}
    assert held != free
    assert await kept(db) == set()


@pytest.mark.contract("T20")
@pytest.mark.parametrize("state", [PENDING, READY, RUNNING])
async def test_a_live_row_is_never_deleted_whoever_asks(db: Database, state: object) -> None:
    async with db.session() as tx:
        live = await plant(tx, TASK, state)  # type: ignore[arg-type]
        gone = await ended(tx, ago=DAY)

        assert await store.forget(tx, [live, gone, uuid4()]) == 1

    assert await kept(db) == {live}


@pytest.mark.contract("T20", "T12")
async def test_a_key_is_free_when_its_task_has_left(db: Database, line: Line) -> None:
    async with db.session() as tx:
        await plant(tx, TASK, SUCCEEDED, id=old(MONTH), finished_at=-MONTH, idempotency_key="k", task_id="t")
    await watchdog.tick(line, [RULE])

    async with db.session() as tx:
        await plant(tx, TASK, READY, idempotency_key="k", task_id="t")
        assert await invariants.check(tx, wiring.invariants()) == []


@pytest.mark.contract("T20")
async def test_ten_thousand_that_were_scheduled_far_ahead_do_not_hold_up_the_rest(db: Database, line: Line) -> None:
    async with db.session() as tx:
        await fill(tx, 6000, ago=MONTH)
        await tx.fetch(
            "update ferryman.tasks set finished_at = now() - interval '1 day' where id in"
            " (select id from ferryman.tasks order by id limit 5500)"
        )

    for _ in range(2):  # what stays is more than one page of the walk
        await watchdog.tick(line, [RULE])
        await begin_again(db)

    assert len(await kept(db)) == 5500


@pytest.mark.contract("T20")
async def test_the_smallest_id_of_a_time_stands_before_all_that_were_made_since(db: Database) -> None:
    async with db.session() as tx:
        before = ids.new_id()
        [row] = await tx.fetch(
            "select ferryman.id_at(clock_timestamp() - interval '1 minute') as early,"
            " ferryman.id_at(clock_timestamp() + interval '1 minute') as late, ferryman.id_at('1900-01-01Z') as first"
        )

    assert UUID(int=0) == row["first"] < row["early"] < before < row["late"]
