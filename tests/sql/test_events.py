"""K10: the log is read whole, in order, once, by whoever has a name."""

import asyncio
import re
from collections.abc import Sequence
from datetime import timedelta
from pathlib import Path
from uuid import UUID, uuid4

import pytest

import ferryman
from ferryman.kernel import events
from ferryman.kernel.db import Tx
from ferryman.kernel.events import Event
from ferryman.kernel.pool import Database, Line

WRITE = """
    insert into ferryman.events (at, subject, tenant, kind, from_state, to_state)
    select clock_timestamp(), $1::uuid, $2::text, 'thing', 'old', $3::text from generate_series(1, $4::integer)
"""

# A thing whose moves follow each other: the row is locked before the event's id is drawn, as in every move.
THINGS = "create table things (id uuid primary key, moves integer not null default 0)"
MOVE = """
    with moved as (update things set moves = moves + 1 where id = $1 returning id, moves)
    insert into ferryman.events (at, subject, tenant, kind, to_state)
    select clock_timestamp(), moved.id, 'default', 'thing', moved.moves::text from moved
"""


async def write(tx: Tx, *words: str, subject: UUID | None = None, tenant: str = "default", times: int = 1) -> None:
    for word in words:
        await tx.fetch(WRITE, subject or uuid4(), tenant, word, times)


async def take_xid(tx: Tx) -> None:
    await tx.fetch("select pg_current_xact_id()")


async def read(db: Database, consumer: str = "reader", *, limit: int = 500) -> list[str | None]:
    async with db.transaction() as tx:
        return words(await events.read(tx, consumer, limit=limit))


def words(found: Sequence[Event]) -> list[str | None]:
    return [event.to_state for event in found]


@pytest.mark.contract("K10")
async def test_a_writer_that_commits_late_is_never_skipped(db: Database) -> None:
    async with db.transaction() as late:
        await write(late, "first")
        async with db.transaction() as quick:
            await write(quick, "second")
        async with db.session() as naive:
            visible = await naive.fetch("select id, to_state from ferryman.events order by id")
        seen_too_early = await read(db)

    # A reader that only remembers the last id it saw would go on after "second" and never meet "first".
    assert [row["to_state"] for row in visible] == ["second"]
    assert seen_too_early == []
    assert await read(db) == ["first", "second"]
    assert await read(db) == []


@pytest.mark.contract("K10")
async def test_a_late_writer_is_not_skipped_when_nobody_younger_has_ended(db: Database) -> None:
    async with db.transaction() as late:
        async with db.transaction() as older:
            await take_xid(older)
            await write(late, "first")
            await write(older, "second")
        # The snapshot ends below the late writer: it is not among those that the snapshot lists as open.
        seen_too_early = await read(db)

    assert seen_too_early == []
    assert await read(db) == ["first", "second"]


@pytest.mark.contract("K10")
async def test_a_window_once_marked_is_not_pushed_away_by_new_writers(db: Database) -> None:
    async with db.transaction() as second:
        async with db.transaction() as first:
            await write(first, "first")
            assert await read(db) == []
            await write(second, "second")
        assert await read(db) == ["first"]
        assert await read(db) == []

    assert await read(db) == ["second"]


@pytest.mark.contract("K10")
async def test_a_late_move_of_an_early_transaction_comes_after_the_move_it_followed(db: Database) -> None:
    thing = uuid4()
    async with db.session() as session:
        await session.fetch(THINGS)
        await session.fetch("insert into things values ($1)", thing)

    async with db.transaction() as early:
        await take_xid(early)
        async with db.transaction() as other:
            await other.fetch(MOVE, thing)
        await early.fetch(MOVE, thing)

    assert await read(db) == ["1", "2"]


@pytest.mark.contract("K10")
async def test_a_bystander_between_two_transactions_does_not_part_the_moves_of_one_object(db: Database) -> None:
    thing = uuid4()
    async with db.session() as session:
        await session.fetch(THINGS)
        await session.fetch("insert into things values ($1)", thing)

    async with db.transaction() as bystander:
        async with db.transaction() as early:
            await take_xid(early)
            await take_xid(bystander)
            async with db.transaction() as younger:
                await younger.fetch(MOVE, thing)
            await early.fetch(MOVE, thing)
        # Below the bystander's transaction id there is now the second move, but not the first.
        async with db.session() as session:
            below = await session.fetch(
                "select to_state from ferryman.events where xid < pg_snapshot_xmin(pg_current_snapshot())"
            )
        seen = await read(db)

    assert [row["to_state"] for row in below] == ["2"]
    assert seen == ["1", "2"]


@pytest.mark.contract("K10")
async def test_every_object_is_told_in_order_while_many_write(db: Database) -> None:
    things = [uuid4() for _ in range(3)]
    async with db.session() as session:
        await session.fetch(THINGS)
        await session.fetch("insert into things select unnest($1::uuid[])", things)

    async def move(number: int) -> None:
        for turn in range(15):
            async with db.transaction() as tx:
                if (number + turn) % 2:
                    await take_xid(tx)
                await tx.fetch(MOVE, things[(number + turn) % 3])
                await write(tx, "noise")

    told: dict[UUID, list[str | None]] = {thing: [] for thing in things}
    writers = asyncio.gather(*(move(number) for number in range(6)))
    finished = False
    while not finished:
        finished = writers.done()
        while page := await read_events(db, limit=7):
            for event in page:
                told.setdefault(event.subject, []).append(event.to_state)
    await writers

    for thing in things:
        assert told[thing] == [str(number) for number in range(1, 31)]


async def read_events(db: Database, *, limit: int) -> Sequence[Event]:
    async with db.transaction() as tx:
        return await events.read(tx, "reader", limit=limit)


@pytest.mark.contract("K10")
async def test_effect_and_place_are_lost_together_in_a_crash(db: Database) -> None:
    async with db.transaction() as tx:
        await tx.fetch("create table effects (word text)")
        await write(tx, "deed")

    async def act(*, crash: bool) -> None:
        async with db.transaction() as tx:
            for event in await events.read(tx, "actor"):
                await tx.fetch("insert into effects values ($1)", event.to_state)
            if crash:
                raise ConnectionError

    with pytest.raises(ConnectionError):
        await act(crash=True)
    await act(crash=False)
    await act(crash=False)

    async with db.session() as session:
        assert [row["word"] for row in await session.fetch("select word from effects")] == ["deed"]


@pytest.mark.contract("K10")
async def test_a_second_reader_of_one_name_gets_nothing_and_does_not_wait(db: Database) -> None:
    async with db.transaction() as tx:
        await events.begin(tx, "reader")
        await write(tx, "word")

    async with db.transaction() as first:
        held = words(await events.read(first, "reader"))
        second = await read(db, "reader")
        other = await read(db, "other")

    assert (held, second, other) == (["word"], [], ["word"])


@pytest.mark.contract("K10")
async def test_one_huge_transaction_is_read_in_pages(db: Database) -> None:
    async with db.transaction() as tx:
        await write(tx, "huge", times=2500)
    first = await read_events(db, limit=1000)
    async with db.transaction() as tx:
        await write(tx, "later")
    rest = [await read_events(db, limit=1000) for _ in range(3)]

    ids = [event.id for page in (first, *rest) for event in page]
    assert [len(first), *map(len, rest)] == [1000, 1000, 501, 0]
    assert ids == sorted(set(ids))
    assert rest[1][-1].to_state == "later"


@pytest.mark.contract("K10")
async def test_what_was_rolled_back_is_passed_over(db: Database) -> None:
    async with db.session() as session:
        for word in ("undone", "done", "undone too", "done too"):
            await session.fetch("begin")
            await write(session, word)
            await session.fetch("rollback" if "undone" in word else "commit")

    assert await read(db) == ["done", "done too"]


@pytest.mark.contract("K10")
async def test_a_gap_is_not_passed_while_a_transaction_of_its_time_is_open(db: Database) -> None:
    async with db.transaction() as bystander:
        await take_xid(bystander)
        async with db.session() as session:
            await write(session, "before")
            await session.fetch("begin")
            await write(session, "undone")
            await session.fetch("rollback")
            await write(session, "after")
        while_open = [await read(db), await read(db)]

    assert while_open == [["before"], []]
    assert await read(db) == ["after"]


@pytest.mark.contract("K10")
async def test_a_stranger_who_stays_open_delays_nobody_when_nothing_is_missing(db: Database) -> None:
    async with db.transaction() as stranger:
        await take_xid(stranger)
        async with db.session() as session:
            await write(session, "one", "two", "three")

        assert await read(db, limit=2) == ["one", "two"]
        assert await read(db, limit=2) == ["three"]


@pytest.mark.contract("K10")
async def test_a_look_at_a_quiet_log_writes_nothing(db: Database) -> None:
    async with db.session() as session:
        await write(session, "word")
    await read(db)

    async with db.transaction() as tx:
        await events.read(tx, "reader")
        (row,) = await tx.fetch("select pg_current_xact_id_if_assigned() is null as clean")

    assert row["clean"]


@pytest.mark.contract("K10")
async def test_reading_after_writing_in_one_transaction_is_refused(db: Database) -> None:
    async with db.transaction() as tx:
        await write(tx, "word")

        with pytest.raises(RuntimeError, match="first in its transaction"):
            await events.read(tx, "reader")


@pytest.mark.contract("K10")
async def test_a_writer_gets_its_transaction_id_before_it_draws_an_event_id(db: Database) -> None:
    async with db.session() as session:
        columns = await session.fetch(
            """select attname from pg_attribute
               where attrelid = 'ferryman.events'::regclass and attname in ('xid', 'id') order by attnum"""
        )
        (sequence,) = await session.fetch(
            "select seqcache from pg_sequence where seqrelid = 'ferryman.events_id_seq'::regclass"
        )

    assert [row["attname"] for row in columns] == ["xid", "id"]
    assert sequence["seqcache"] == 1


@pytest.mark.contract("K10")
def test_nobody_reads_a_sequence_without_its_lock() -> None:
    texts = {str(file): re.sub("--.*", "", file.read_text()) for file in Path(ferryman.__file__).parent.rglob("*.sql")}

    assert any("pg_sequence_last_value(" in text for text in texts.values())
    assert [name for name, text in texts.items() if re.search(r"(?<!pg_sequence_)last_value", text)] == []


@pytest.mark.contract("K10")
async def test_the_end_of_the_log_is_never_ahead_of_the_ids_that_were_drawn(database_url: str) -> None:
    reader, writer = Line(database_url), Line(database_url)
    end = events.END.sql().replace("$1", "null")
    await reader.execute(
        f"""create function most_ahead(looks integer) returns bigint language plpgsql as $$
            declare
                ahead bigint := 0;
            begin
                for _ in 1 .. looks loop
                    ahead := greatest(ahead, (select seen.end_id from ({end}) as seen)
                                             - coalesce(pg_sequence_last_value('ferryman.events_id_seq'::regclass), 0));
                end loop;
                return ahead;
            end $$"""
    )

    async def draw() -> None:
        drawn = "select count(nextval('ferryman.events_id_seq')) from generate_series(1, 20000)"
        while not looked.done():
            await writer.fetch(drawn)

    # One look in some thousands is wrong, where the sequence is read without its lock.
    looked = asyncio.create_task(reader.fetch("select most_ahead(20000) as ahead"))
    await draw()
    [row] = await looked

    assert row["ahead"] == 0
    await reader.close()
    await writer.close()


@pytest.mark.contract("K10")
async def test_a_page_is_read_by_walking_the_index_however_long_the_log_is(database_url: str) -> None:
    line = Line(database_url)
    async with line.transaction() as tx:
        await events.ensure_partitions(tx, ahead=timedelta(days=2))
        await write(tx, "word", times=3000)
        values = {"last_id": 0, "mark_id": 3000, "mark_xid": "0", "tenant": None, "subject": None, "limit": 10}

        plan = await tx.fetch("explain (analyze, buffers off) " + events.PAGE.sql(), *events.PAGE.bind(values))
    await line.close()

    steps = [str(row[0]) for row in plan]
    scans = [step for step in steps if " on events" in step and "never executed" not in step]
    assert scans
    assert all("Index" in scan and "Bitmap" not in scan for scan in scans), "\n".join(steps)
    assert not any("rows=3000" in step for step in steps), "\n".join(steps)


@pytest.mark.contract("K10")
async def test_a_closed_window_is_not_searched_for_gaps(database_url: str) -> None:
    line = Line(database_url)
    async with line.transaction() as tx:
        await write(tx, "word", times=20)
        values = {"last_id": 0, "mark_id": 20, "mark_xid": "0", "tenant": None, "subject": None, "limit": 10}

        plan = await tx.fetch("explain (analyze, buffers off) " + events.PAGE.sql(), *events.PAGE.bind(values))
    await line.close()

    steps = [str(row[0]) for row in plan]
    walked = [step for step in steps if " on events" in step and "never executed" not in step]
    assert len(walked) == 2, "\n".join(steps)  # today's partition and the net, once each
