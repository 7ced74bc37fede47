"""Connections that are kept at hand between two callers: sound ones only, and no longer than they are wanted (K24, P12)."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress

import pytest

from ferryman.kernel import errors
from ferryman.kernel.pool import Database, Session
from ferryman.kernel.pool.database import _sound
from tests.patience import PATIENCE_SECONDS

HOUR = 3600.0


@asynccontextmanager
async def keeping(url: str, size: int = 3) -> AsyncIterator[Database]:
    database = Database(url, size=size, keeps=HOUR)
    await database.open()
    try:
        yield database
    finally:
        await database.close()


async def pid(tx: Session) -> int:
    [row] = await tx.fetch("select pg_backend_pid() as pid")
    return int(row["pid"])


async def lent(database: Database, count: int) -> list[int]:
    """Borrow so many connections at one time; say which they are."""
    if not count:
        return []
    async with database.session() as tx:
        return [await pid(tx), *await lent(database, count - 1)]


@pytest.mark.contract("P12")
async def test_a_connection_that_comes_back_sound_is_at_hand_for_the_next(database_url: str) -> None:
    async with keeping(database_url) as database:
        first = await lent(database, 3)
        kept = list(database._kept)
        again = await lent(database, 3)

        assert sorted(again) == sorted(first)
        assert sorted(map(id, database._kept)) == sorted(map(id, kept))  # the driver would lend each anew


@pytest.mark.contract("K24")
async def test_one_that_died_at_hand_is_replaced_without_a_word(database_url: str, db: Database) -> None:
    async with keeping(database_url) as database:
        [dead, other] = await lent(database, 2)
        kept = list(database._kept)
        async with db.session() as tx:
            await tx.fetch("select pg_terminate_backend($1, 10000), pg_terminate_backend($2, 10000)", dead, other)
        async with asyncio.timeout(PATIENCE_SECONDS):
            while any(map(_sound, kept)):  # noqa: ASYNC110 - its end comes over a socket
                await asyncio.sleep(0)

        assert not {dead, other} & set(await lent(database, 3))


@pytest.mark.contract("K24", "K5")
async def test_one_that_comes_back_otherwise_is_left_to_the_driver(database_url: str) -> None:
    async with keeping(database_url, size=1) as database:
        with suppress(ZeroDivisionError):
            async with database.session() as tx:
                await tx.fetch("begin")
                raise ZeroDivisionError
        assert database._kept == []
        async with database.session() as tx:
            assert not tx.in_transaction
            await tx.fetch("begin")
        assert database._kept == []
        with suppress(errors.DatabaseUnavailable):
            async with database.session() as tx:
                await tx.fetch("select pg_terminate_backend(pg_backend_pid())")
        assert database._kept == []
        assert len(await lent(database, 1)) == len(database._kept) == 1


@pytest.mark.contract("K24")
async def test_what_nobody_wanted_for_a_while_is_given_back_and_all_at_the_end(database_url: str, db: Database) -> None:
    async with keeping(database_url) as database:
        await lent(database, 3)
        database._let_go()  # since the first came back, and the look began, the other two came
        used = await lent(database, 2)
        database._let_go()
        await asyncio.gather(*database._returning)
        assert len(database._kept) == 2
        assert await lent(database, 1) == used[:1]
        database._let_go()
        await asyncio.gather(*database._returning)
        assert len(database._kept) == 1
        database._let_go()
        assert database._kept == []
        mine = await lent(database, 3)
    async with db.session() as tx, asyncio.timeout(PATIENCE_SECONDS):
        while await tx.fetch("select from pg_stat_activity where pid = any($1)", mine):  # noqa: ASYNC110 - as above
            await asyncio.sleep(0)
