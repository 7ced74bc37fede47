"""K10: a sequence that is behind its table, after logical replication or a partial restore, is repaired and loses no event."""

from collections.abc import Sequence
from contextlib import suppress
from datetime import timedelta
from uuid import UUID, uuid4

import asyncpg
import pytest

from ferryman import Ferryman
from ferryman.app.doctor import event_log
from ferryman.app.doctor.report import BAD, GOOD
from ferryman.kernel import errors, events, ids, sequences, watchdog
from ferryman.kernel.db import Tx
from ferryman.kernel.doorbell import NoDoorbell
from ferryman.kernel.events import Event
from ferryman.kernel.follow import Choice, Reader
from ferryman.kernel.pool import Database, Line

OLD, NEW = 6, 4
DAYS = timedelta(days=3)


class Undone(Exception):
    """Rolls a transaction back."""


RULE = sequences.rule(every=timedelta(seconds=5))

WRITE = """
    insert into ferryman.events (logged_at, at, subject, tenant, kind, to_state)
    values (now() - $1::interval, now(), $2::uuid, 'default', 'thing', $3::text)
"""
RESTART = "alter sequence ferryman.events_id_seq restart"
LOG = "select id, to_state from ferryman.events order by id"


async def write(tx: Tx, *states: str, subject: UUID | None = None, ago: timedelta = timedelta(0)) -> None:
    for number, state in enumerate(states):
        await tx.fetch(WRITE, ago - timedelta(minutes=number) if ago else ago, subject or uuid4(), state)


async def history(db: Database, subject: UUID, *, new: int = NEW) -> None:
    """Write a log, and go on with a sequence that begins at 1, as after a logical switch-over."""
    async with db.session() as tx:
        await write(tx, *(f"old {n}" for n in range(1, OLD + 1)), subject=subject, ago=DAYS)
    async with db.transaction() as tx:
        await events.begin(tx, "reader", after_id=OLD)
    async with db.session() as tx:
        await tx.fetch(RESTART)
        await write(tx, *(f"new {n}" for n in range(1, new + 1)), subject=subject)


async def repair(url: str) -> int:
    line = Line(url)
    try:
        return (await watchdog.tick(line, [RULE])).acted()
    finally:
        await line.close()


async def read(db: Database) -> list[str | None]:
    async with db.transaction() as tx:
        return states(await events.read(tx, "reader"))


def states(found: Sequence[Event]) -> list[str | None]:
    return [event.to_state for event in found]


@pytest.mark.contract("K10")
@pytest.mark.parametrize("new", [0, 1, OLD - 1])
async def test_events_written_with_used_ids_reach_readers_once_and_in_order(
    db: Database, database_url: str, new: int
) -> None:
    thing = uuid4()
    await history(db, thing, new=new)
    before = await read(db)
    assert await repair(database_url) == 1
    async with db.session() as tx:
        await write(tx, "later", subject=thing)
        story = states(await events.of(tx, thing))
        behind = await sequences.behind(tx)

    fresh = [f"new {n}" for n in range(1, new + 1)]
    assert (before, await read(db)) == ([], [*fresh, "later"])
    assert story == [*(f"old {n}" for n in range(1, OLD + 1)), *fresh, "later"]
    assert list(behind) == []
    assert await repair(database_url) == 0


@pytest.mark.contract("K10")
async def test_ids_that_occur_twice_are_reported_where_the_sequence_passed_the_old_ones(
    db: Database, database_url: str, caplog: pytest.LogCaptureFixture
) -> None:
    await history(db, uuid4(), new=OLD + 2)
    async with db.session() as tx:
        assert list(await sequences.behind(tx)) == []
        found = await sequences.repeated(tx)
        [reading] = await event_log.ids(tx)
    line = Line(database_url)
    await sequences.repair_all(line)
    await line.close()

    assert found is not None
    assert f"from 1 to {OLD}" in found
    assert (reading.verdict, reading.says) == (BAD, found)
    assert found in caplog.text


@pytest.mark.contract("K10")
async def test_ids_of_a_log_that_was_dropped_at_its_beginning_are_reported_too(db: Database) -> None:
    async with db.session() as tx:
        await tx.fetch("alter sequence ferryman.events_id_seq restart 4")
        await write(tx, "old 4", "old 5", ago=DAYS)
        await tx.fetch(RESTART)
        await write(tx, *(f"new {n}" for n in range(1, 31)))
        found = await sequences.repeated(tx)

    assert found is not None
    assert "from 4 to 5" in found


@pytest.mark.contract("K10")
async def test_no_ids_are_reported_after_a_repair(db: Database, database_url: str) -> None:
    await history(db, uuid4())
    await repair(database_url)

    async with db.session() as tx:
        assert await sequences.repeated(tx) is None
        [reading] = await event_log.ids(tx)
    assert reading.verdict == GOOD


@pytest.mark.contract("K10")
async def test_the_clock_of_the_new_server_may_be_behind(db: Database, database_url: str) -> None:
    await history(db, uuid4(), new=0)
    async with db.session() as tx:
        await write(tx, "new 1", ago=timedelta(hours=71, minutes=56))  # before the last old events were written

    await repair(database_url)

    assert await read(db) == ["new 1"]


@pytest.mark.contract("K10")
async def test_positions_count_where_the_log_itself_was_not_copied(db: Database, database_url: str) -> None:
    async with db.session() as tx:
        await events.begin(tx, "reader", after_id=1000)
    assert await repair(database_url) == 1
    async with db.session() as tx:
        await write(tx, "first", "second")

    assert await read(db) == ["first", "second"]


@pytest.mark.contract("K10")
async def test_a_position_beyond_the_log_changes_no_ids(db: Database, database_url: str) -> None:
    async with db.session() as tx:
        await write(tx, "first", "second")
        await events.begin(tx, "reader", after_id=1000)
        before = list(await tx.fetch(LOG))

    assert await repair(database_url) == 0

    async with db.session() as tx:
        assert list(await tx.fetch(LOG)) == before


@pytest.mark.contract("K10")
async def test_who_follows_from_now_on_hears_what_is_repaired(db: Database, database_url: str) -> None:
    await history(db, uuid4(), new=0)
    reader = Reader(db, NoDoorbell(), topics=())
    follower = reader.follow(Choice())
    await follower.begin(30)
    async with db.session() as tx:
        await write(tx, "new 1", "new 2")

    await repair(database_url)

    heard: list[str | None] = []
    while "new 2" not in heard:
        heard += states(await follower.next(30))
    await reader.close()
    assert [each for each in heard if "new" in str(each)] == ["new 1", "new 2"]


@pytest.mark.contract("K10")
async def test_a_repair_that_is_rolled_back_leaves_everything_as_it_was(db: Database, database_url: str) -> None:
    await history(db, uuid4())
    async with db.session() as tx:
        before = list(await tx.fetch(LOG))
    with suppress(Undone):
        async with db.transaction() as tx:
            assert await sequences.repair(tx, "events")
            raise Undone
    async with db.session() as tx:
        assert list(await tx.fetch(LOG)) == before
        [behind] = await sequences.behind(tx)
    assert (behind["last_id"], behind["needed_id"]) == (NEW, OLD)

    await repair(database_url)

    assert await read(db) == [f"new {n}" for n in range(1, NEW + 1)]


@pytest.mark.contract("K10")
async def test_an_open_writer_puts_the_repair_off_and_loses_nothing(db: Database, database_url: str) -> None:
    await history(db, uuid4(), new=1)
    async with db.transaction() as open_writer:
        await write(open_writer, "new 2")
        put_off = await repair(database_url)

    assert put_off == 0
    assert await repair(database_url) == 1
    assert await read(db) == ["new 1", "new 2"]


@pytest.mark.contract("K10")
@pytest.mark.parametrize("level", ["repeatable read", "serializable"])
async def test_a_repair_by_hand_is_refused_where_its_snapshot_may_be_older_than_its_lock(
    db: Database, database_url: str, level: str
) -> None:
    await history(db, uuid4(), new=1)
    by_hand = await asyncpg.connect(database_url)
    try:
        await by_hand.execute(f"set default_transaction_isolation = '{level}'")
        async with by_hand.transaction():
            await by_hand.execute("select from ferryman.sequences")  # takes the snapshot
            async with db.session() as tx:
                await write(tx, "new 2")
            with pytest.raises(asyncpg.PostgresError) as refused:
                async with by_hand.transaction():
                    await by_hand.execute("select ferryman.repair_sequence('events')")
    finally:
        await by_hand.close()

    assert (refused.value.sqlstate, level in str(refused.value.as_dict()["hint"])) == ("FM015", True)
    assert await repair(database_url) == 1
    assert await read(db) == ["new 1", "new 2"]


@pytest.mark.contract("K10")
async def test_the_log_is_guarded_again_after_a_repair(db: Database, database_url: str) -> None:
    await history(db, uuid4())
    await repair(database_url)

    async with db.session() as tx:
        with pytest.raises(asyncpg.PostgresError, match="EVENTS_APPEND_ONLY"):
            await tx.fetch("update ferryman.events set tenant = 'x'")


@pytest.mark.contract("K10")
@pytest.mark.parametrize("table", ["task_logs", "task_signals"])
async def test_other_sequences_are_repaired_alike(db: Database, database_url: str, table: str) -> None:
    columns, values = {
        "task_logs": ("attempt, level, message", "1, 'INFO', $3"),
        "task_signals": ("name", "$3"),
    }[table]
    insert = (
        f"insert into ferryman.{table} (task, at, {columns}) values ($1, now() - $2::interval, {values}) returning id"
    )
    shown = "message" if table == "task_logs" else "name"
    async with Ferryman(database_url) as app:
        app.declare("job")
        task = (await app.tasks.create("job", {})).id
    async with db.session() as tx:
        for n in range(4):
            await tx.fetch(insert, task, DAYS, f"old {n}")
        await tx.fetch(f"delete from ferryman.{table} where id <= 2")  # retention: the first new rows don't collide
        await tx.fetch(f"alter sequence ferryman.{table}_id_seq restart")
        for n in range(2):
            await tx.fetch(insert, task, timedelta(0), f"new {n}")
        with pytest.raises(asyncpg.UniqueViolationError):
            await tx.fetch(insert, task, timedelta(0), "refused")

    assert await repair(database_url) == 1

    async with db.session() as tx:
        [after] = await tx.fetch(insert, task, timedelta(0), "later")
        found = await tx.fetch(f"select {shown} as text from ferryman.{table} order by id")
    assert [row["text"] for row in found] == ["old 2", "old 3", "new 0", "new 1", "later"]
    assert after["id"] == 7


@pytest.mark.contract("K10", "K23")
async def test_the_ledger_of_cursors_keeps_its_order(db: Database, database_url: str) -> None:
    cursor = uuid4()
    insert = """
        insert into ferryman.ingest_cursor_event (id, cursor_id, at, prev_position, new_position, tenant, kind, idempotent_key)
        values ($1, $2, now() - $3::interval, $4::bigint, $4::bigint + 1, 'default', 'forward', $5)
    """
    async with db.session() as tx:
        for n in range(5):
            await tx.fetch(insert, ids.new_id(), cursor, DAYS, n, f"k{n}")
        await tx.fetch("alter sequence ferryman.ingest_cursor_event_seq_seq restart")
        for n in range(5, 8):
            await tx.fetch(insert, ids.new_id(), cursor, timedelta(0), n, f"k{n}")

    assert await repair(database_url) == 1

    async with db.session() as tx:
        found = await tx.fetch("select idempotent_key as key from ferryman.ingest_cursor_event order by seq")
        with pytest.raises(asyncpg.PostgresError, match="EVENTS_APPEND_ONLY"):
            await tx.fetch("delete from ferryman.ingest_cursor_event")
    assert [row["key"] for row in found] == [f"k{n}" for n in range(8)]


@pytest.mark.contract("K10")
async def test_all_that_are_behind_are_repaired_in_one_round(db: Database, database_url: str) -> None:
    await history(db, uuid4())
    async with db.session() as tx:
        await tx.fetch("alter sequence ferryman.ingest_cursor_event_seq_seq restart")
        await tx.fetch(
            "insert into ferryman.ingest_cursor_event"
            " (id, cursor_id, at, prev_position, new_position, tenant, kind, idempotent_key)"
            " select gen_random_uuid(), gen_random_uuid(), now(), 1, 2, 'default', 'forward', 'k' || n"
            " from generate_series(1, 3) as n"
        )
        await tx.fetch("alter sequence ferryman.ingest_cursor_event_seq_seq restart")

    assert await repair(database_url) == 2


@pytest.mark.contract("K10")
async def test_a_role_that_does_not_own_the_tables_says_what_to_do(db: Database) -> None:
    await history(db, uuid4())
    role = f"guest_{uuid4().hex[:12]}"
    grants = [
        "grant usage on schema ferryman",
        "grant select, insert, update on all tables in schema ferryman",
        "grant usage on all sequences in schema ferryman",
    ]
    async with db.transaction() as tx:
        await tx.fetch(f"create role {role}")
        for grant in grants:
            await tx.fetch(f"{grant} to {role}")
        await tx.fetch(f"set local role {role}")
        [behind] = await sequences.behind(tx)
        assert behind["table_name"] == "events"
        with pytest.raises(errors.DatabaseRefused) as refused:
            async with tx.transaction():
                await sequences.repair(tx, "events")
        await tx.fetch("reset role")
        await tx.fetch(f"drop owned by {role}")
        await tx.fetch(f"drop role {role}")
    assert "sequence of events is behind" in refused.value.message
    assert "ferryman.repair_sequence(table_name)" in refused.value.advice
