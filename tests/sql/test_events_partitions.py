"""K10: the log is append only, and retention drops whole days of it."""

import asyncio
from datetime import UTC, date, datetime, timedelta
from uuid import UUID, uuid4

import asyncpg
import pytest

from ferryman.kernel import events
from ferryman.kernel.db import Tx
from ferryman.kernel.pool import Database

TOMORROW = timedelta(days=1)
WAITING = "select count(*) as count from pg_locks where not granted"
WRITE = """
    insert into ferryman.events (logged_at, at, subject, tenant, kind) values ($1, $1, $2, 'default', 'thing')
    returning tableoid::regclass::text as home
"""


async def write(tx: Tx, *, at: datetime | None = None, subject: UUID | None = None) -> str:
    (row,) = await tx.fetch(WRITE, at or datetime.now(UTC), subject or uuid4())
    return str(row["home"])


async def until_somebody_waits(tx: Tx) -> None:
    while True:
        (row,) = await tx.fetch(WAITING)
        if row["count"]:
            return


async def make_day(tx: Tx, day: date) -> str:
    name = f"ferryman.events_{day:%Y%m%d}"
    await tx.fetch(
        f"create table {name} partition of ferryman.events for values from ('{day} 0:00Z') to ('{day + timedelta(1)} 0:00Z')"
    )
    return name


@pytest.mark.contract("K10")
@pytest.mark.parametrize("deed", ["update {} set tenant = 'x'", "delete from {}", "truncate {}"])
@pytest.mark.parametrize("place", ["events", "events_default", "a day"])
async def test_the_database_refuses_to_rewrite_the_log(db: Database, deed: str, place: str) -> None:
    async with db.session() as session:
        await events.ensure_partitions(session)
        await write(session)
        day = await write(session, at=datetime.now(UTC) + TOMORROW)
        table = day.removeprefix("ferryman.") if place == "a day" else place

        with pytest.raises(asyncpg.PostgresError, match="EVENTS_APPEND_ONLY"):
            await session.fetch(deed.format(f"ferryman.{table}"))


@pytest.mark.contract("K10")
async def test_the_coming_days_are_made_once_by_whoever_is_first(db: Database) -> None:
    async def ensure() -> list[str]:
        async with db.transaction() as tx:
            return list(await events.ensure_partitions(tx, ahead=timedelta(days=3)))

    made = await asyncio.gather(*(ensure() for _ in range(8)))

    assert sorted(map(len, made)) == [0] * 7 + [3]
    async with db.session() as session:
        assert await write(session, at=datetime.now(UTC) + TOMORROW) == f"ferryman.{max(made)[0]}"
        assert await events.ensure_partitions(session, ahead=timedelta(days=3)) == []


@pytest.mark.contract("K10")
async def test_a_day_that_the_net_holds_already_stays_there(db: Database) -> None:
    tomorrow = datetime.now(UTC) + TOMORROW
    async with db.session() as session:
        assert await write(session, at=tomorrow) == "ferryman.events_default"

        made = await events.ensure_partitions(session, ahead=timedelta(days=2))

        assert len(made) == 1
        assert await write(session, at=tomorrow) == "ferryman.events_default"
        assert await write(session, at=tomorrow + TOMORROW) == f"ferryman.{made[0]}"


@pytest.mark.contract("K10")
async def test_making_days_refuses_no_writer_into_the_net(db: Database) -> None:
    async def write_one() -> str:
        async with db.session() as session:
            return await write(session, at=datetime.now(UTC) + timedelta(days=30))

    async with db.transaction() as tx:
        await events.ensure_partitions(tx)
        writer = asyncio.create_task(write_one())
        async with db.session() as looker:
            await until_somebody_waits(looker)

    assert await writer == "ferryman.events_default"


@pytest.mark.contract("K10")
async def test_the_net_of_a_new_database_stays_empty(db: Database) -> None:
    today = datetime.now(UTC)
    async with db.session() as session:
        assert await write(session, at=today) == f"ferryman.events_{today:%Y%m%d}"


@pytest.mark.contract("K10")
async def test_a_net_that_holds_rows_is_read_for_one_day_at_a_time(db: Database) -> None:
    async with db.session() as session:
        await write(session, at=datetime.now(UTC) + timedelta(days=30))
        made = [len(await events.ensure_partitions(session, ahead=timedelta(days=2))) for _ in range(3)]
    assert made == [1, 1, 0]


@pytest.mark.contract("K10")
async def test_what_cannot_be_locked_is_left_for_the_next_time(db: Database) -> None:
    async with db.session() as session:
        async with db.transaction() as reader:
            await reader.fetch("select from ferryman.events")
            assert await events.ensure_partitions(session, ahead=TOMORROW) == []
        assert len(await events.ensure_partitions(session, ahead=TOMORROW)) == 1


@pytest.mark.contract("K10")
async def test_old_days_are_dropped_whole_and_young_ones_stay(db: Database) -> None:
    async with db.session() as session:
        for day in (1, 2, 3):
            await make_day(session, date(2020, 1, day))
            await write(session, at=datetime(2020, 1, day, 12, tzinfo=UTC))
        since = datetime.now(UTC) - datetime(2020, 1, 3, tzinfo=UTC)

        dropped = await events.drop_partitions(session, older_than=since)
        left = await session.fetch("select logged_at from ferryman.events")

    assert dropped == ["events_20200101", "events_20200102"]
    assert [row["logged_at"] for row in left] == [datetime(2020, 1, 3, 12, tzinfo=UTC)]


@pytest.mark.contract("K10")
async def test_a_day_that_a_consumer_has_still_to_read_is_kept(db: Database) -> None:
    async with db.session() as session:
        await make_day(session, date(2020, 1, 1))
        await write(session, at=datetime(2020, 1, 1, tzinfo=UTC))
        await events.begin(session, "slow")

        assert await events.drop_partitions(session, older_than=timedelta(days=7)) == []
        async with db.transaction() as tx:
            assert len(await events.read(tx, "slow")) == 1
        assert await events.drop_partitions(session, older_than=timedelta(days=7)) == ["events_20200101"]


@pytest.mark.contract("K10")
async def test_an_unread_day_is_dropped_when_told_so(db: Database) -> None:
    async with db.session() as session:
        await make_day(session, date(2020, 1, 1))
        await write(session, at=datetime(2020, 1, 1, tzinfo=UTC))
        await events.begin(session, "abandoned")

        dropped = await events.drop_partitions(session, older_than=timedelta(days=7), even_unread=True)

    assert dropped == ["events_20200101"]


@pytest.mark.contract("K10")
async def test_a_net_with_only_old_rows_is_spread_anew(db: Database) -> None:
    async with db.session() as session:
        await write(session, at=datetime(2020, 1, 1, tzinfo=UTC))

        dropped = await events.drop_partitions(session, older_than=timedelta(days=7))

        assert dropped == ["events_default"]
        assert await events.drop_partitions(session, older_than=timedelta(days=7)) == []
        assert await write(session, at=datetime.now(UTC) + timedelta(days=30)) == "ferryman.events_default"
        with pytest.raises(asyncpg.PostgresError, match="EVENTS_APPEND_ONLY"):
            await session.fetch("delete from ferryman.events_default")


@pytest.mark.contract("K10")
async def test_the_log_is_read_by_id_whatever_day_a_row_lies_in(db: Database) -> None:
    thing = uuid4()
    async with db.session() as session:
        for day in (2, 1):
            await make_day(session, date(2020, 1, day))
        for day in (3, 2, 1):
            await write(session, at=datetime(2020, 1, day, tzinfo=UTC), subject=thing)

        story = await events.of(session, thing)
        async with db.transaction() as tx:
            read = await events.read(tx, "reader")

    assert [event.at.day for event in story] == [3, 2, 1]
    assert [event.at.day for event in read] == [3, 2, 1]
