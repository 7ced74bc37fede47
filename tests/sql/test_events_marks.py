"""K10: a mark of another cluster (of before a restore, or a failover) holds no reader up, and skips nothing."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from ferryman import Ferryman
from ferryman.kernel import errors, events, migrate
from ferryman.kernel.events import Mark, Place
from ferryman.kernel.follow import Choice, Reader
from ferryman.kernel.pool import Database
from tests.kernel.own import Own
from tests.patience import PATIENCE_SECONDS
from tests.sql.test_events import read, take_xid, words, write

FAR = str(2**40)
KEEP = "insert into ferryman.consumers (name, last_id, mark_id, mark_xid) values ('reader', $1, $2, $3::text::xid8)"


async def write_around_a_gap(db: Database) -> None:
    async with db.session() as session:
        for word, end in (("before", "commit"), ("undone", "rollback"), ("after", "commit")):
            await session.fetch("begin")
            await write(session, word)
            await session.fetch(end)


@pytest.mark.contract("K10")
async def test_a_mark_that_this_cluster_has_not_reached_is_made_anew(db: Database) -> None:
    await write_around_a_gap(db)
    async with db.session() as session:
        await session.fetch(KEEP, 1, 3, FAR)

    assert await read(db) == ["after"]


@pytest.mark.contract("K10")
async def test_a_writer_that_commits_late_is_not_skipped_by_a_mark_made_anew(db: Database) -> None:
    async with db.transaction() as late:
        await write(late, "first")
        async with db.session() as session:
            await write(session, "second")
            await session.fetch(KEEP, 0, 2, FAR)
        seen_too_early = [await read(db), await read(db)]

    assert seen_too_early == [[], []]
    assert await read(db) == ["first", "second"]


@pytest.mark.contract("K10")
async def test_a_mark_behind_the_end_of_the_log_passes_nothing_that_is_yet_to_come(db: Database) -> None:
    await write_around_a_gap(db)
    async with db.transaction() as tx:
        found, place = await events.tail(tx, Place(1, 1000, "3"))
    async with db.session() as session:
        await write(session, "later")
    async with db.transaction() as tx:
        then, _ = await events.tail(tx, place)

    assert (words(found), place.last_id, words(then)) == (["after"], 3, ["later"])


@pytest.mark.contract("K10")
async def test_who_waits_for_a_mark_of_another_cluster_is_told(db: Database) -> None:
    async with db.session() as session:
        with pytest.raises(errors.DatabaseUnavailable, match="another cluster"):
            await events.closed(session, Mark(3, FAR))


@pytest.mark.contract("K10")
async def test_a_follower_that_lost_the_database_keeps_no_mark(
    database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    tail = events.tail

    async def away(*args: Any, **more: Any) -> Any:
        monkeypatch.setattr(events, "tail", tail)
        raise errors.DatabaseUnavailable

    async with Ferryman(database_url) as app:
        reader = Reader(app.database, app.doorbell, topics=("ready",))
        follower = reader.follow(Choice("default"))
        assert await follower.begin(30)
        stranger = Database(database_url, size=2)
        await stranger.open()
        async with stranger.transaction() as bystander:
            await take_xid(bystander)
            await write_around_a_gap(stranger)
            before = await marked(reader, "0")
            monkeypatch.setattr(events, "tail", away)
            after = await marked(reader, before)
        seen = words(await follower.next(30)) + words(await follower.next(30))
        await reader.close()
        await stranger.close()

    assert int(after) > int(before)
    assert seen == ["before", "after"]


async def marked(reader: Reader, other_than: str) -> str:
    async with asyncio.timeout(PATIENCE_SECONDS):
        while reader._place is None or reader._place.mark_xid in (other_than, "0"):  # noqa: ASYNC110 - it is the reader's own
            await asyncio.sleep(0.01)
    return reader._place.mark_xid


@pytest.fixture
async def aged(tmp_path: Path) -> AsyncIterator[Database]:
    """A database on a server that has used up its 32 bits of transaction ids five times."""
    own = Own(tmp_path / "pg")
    database = Database(own.pass_epochs(5))
    try:
        await migrate.migrate(database.url)
        await database.open()
        yield database
    finally:
        await database.close()
        own.stop()


@pytest.mark.contract("K10")
async def test_transaction_ids_past_32_bits_are_marks_like_others(aged: Database) -> None:
    async with aged.transaction() as bystander:
        await take_xid(bystander)
        await write_around_a_gap(aged)
        while_open = [await read(aged), await read(aged)]
        async with aged.session() as session:
            [kept] = await session.fetch("select mark_xid::text::bigint as xid from ferryman.consumers")

    assert kept["xid"] > 5 * 2**32
    assert while_open == [["before"], []]
    assert await read(aged) == ["after"]
