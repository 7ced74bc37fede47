"""Callers in line for a connection: in order, for as long as the line moves, and told when it does not."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from ferryman.kernel import errors
from ferryman.kernel.pool import Database, Line
from ferryman.kernel.pool import database as pools
from ferryman.kernel.pool import line as lines
from ferryman.kernel.pool.turnstile import LOOKS, Turnstile
from tests.patience import PATIENCE_SECONDS
from tests.stream_server import serve


async def _step() -> None:
    for _ in range(5):
        await asyncio.sleep(0)


@pytest.mark.contract("K24")
async def test_places_go_to_those_who_wait_in_the_order_in_which_they_came() -> None:
    turnstile, inside, served = Turnstile(2, patience=60), asyncio.Semaphore(0), list[int]()

    async def come(number: int) -> None:
        async with turnstile:
            served.append(number)
            await inside.acquire()

    callers = [asyncio.create_task(come(number)) for number in range(50)]
    await _step()
    assert served == [0, 1]
    for _ in callers:
        inside.release()
    await asyncio.gather(*callers)
    assert served == list(range(50))


@pytest.mark.contract("K24")
async def test_who_gives_up_takes_no_place_along_given_or_not() -> None:
    turnstile = Turnstile(1)
    await turnstile.enter()
    waiting, given, last = (asyncio.create_task(turnstile.enter()) for _ in range(3))
    await _step()
    waiting.cancel()
    await _step()
    turnstile.leave()  # the second has its place, and does not know of it yet
    given.cancel()
    await asyncio.wait_for(last, PATIENCE_SECONDS)
    assert (waiting.cancelled(), given.cancelled()) == (True, True)
    turnstile.leave()
    await asyncio.wait_for(turnstile.enter(), PATIENCE_SECONDS)


@pytest.mark.contract("K24")
async def test_a_line_that_moves_is_waited_in_and_one_that_stands_still_is_told_of() -> None:
    part, moves = 0.05, 12
    turnstile, waited = Turnstile(1, patience=LOOKS * part), list[bool]()
    await turnstile.enter()
    served = [asyncio.create_task(turnstile.enter()) for _ in range(moves)]
    last = asyncio.create_task(turnstile.enter())

    def leave() -> None:
        waited.append(not last.done())
        turnstile.leave()

    for number in range(1, moves + 1):
        asyncio.get_running_loop().call_later(number * part, leave)
    with pytest.raises(errors.DatabaseUnavailable, match=r"in use, and none came back for 0\.25 s"):
        await asyncio.wait_for(last, PATIENCE_SECONDS)

    # Twice as long as its patience it waited, because the line moved.
    assert waited == [True] * moves
    await asyncio.gather(*served)
    turnstile.leave()
    await turnstile.enter()


@asynccontextmanager
async def refusing(sqlstate: str | None = None) -> AsyncIterator[str]:
    """An address where somebody takes connections and refuses them, or says nothing, as lost packets look like."""

    async def listen(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if sqlstate is None:
            await asyncio.Event().wait()
        else:
            await reader.read(1000)
            told = f"SFATAL\0VFATAL\0C{sqlstate}\0Mno more connections\0\0".encode()
            writer.write(b"E" + (len(told) + 4).to_bytes(4, "big") + told)
            await writer.drain()
        writer.close()

    async with serve(listen) as port:
        yield f"postgresql://x@127.0.0.1:{port}/x?sslmode=disable"


@pytest.mark.contract("K24")
@pytest.mark.parametrize("kind", ["pool", "line"])
async def test_a_database_that_is_away_is_told_to_all_in_line_by_the_first_who_finds_out(
    database_url: str, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    # Whoever connects gives up long before those in line would.
    monkeypatch.setattr(pools, "CONNECT_TIMEOUT_SECONDS", 300.0)
    monkeypatch.setattr(lines, "CONNECT_TIMEOUT_SECONDS", 2.0)
    # One after the other they would take ten minutes.
    async with refusing() as nobody, asyncio.timeout(PATIENCE_SECONDS):
        if kind == "pool":
            db = Database(database_url, size=2)
            await db.open()
            assert db._pool is not None
            await db._pool.expire_connections()
            db._pool.set_connect_args(nobody, timeout=2.0)
        else:
            line = Line(nobody)

        async def ask() -> None:
            async with db.session() if kind == "pool" else line.transaction():
                raise AssertionError("nobody is there")

        told = await asyncio.gather(*(ask() for _ in range(300)), return_exceptions=True)

    assert {type(each) for each in told} == {errors.DatabaseUnavailable}
    await (db if kind == "pool" else line).close()


@pytest.mark.contract("K24")
@pytest.mark.parametrize("why", ["53300", "08P01", "silence"])
async def test_a_connection_that_cannot_be_made_is_told_to_nobody_else_while_others_are_served(
    database_url: str, monkeypatch: pytest.MonkeyPatch, why: str
) -> None:
    """The server has none to spare (53300), a pooler has none (08P01), or packets are lost."""
    monkeypatch.setattr(pools, "CONNECT_TIMEOUT_SECONDS", 300.0)  # so the place is not tried again while the test lasts
    db = Database(database_url, size=2)
    await db.open()

    async def ask() -> None:
        async with db.session() as tx:
            await tx.fetch("select 1")

    async with refusing(None if why == "silence" else why) as address:
        assert db._pool is not None
        db._pool.set_connect_args(address, timeout=0.2 if why == "silence" else 60)
        async with db.session() as tx:
            callers = [asyncio.create_task(ask()) for _ in range(30)]
            first, _ = await asyncio.wait(callers, timeout=60, return_when=asyncio.FIRST_COMPLETED)
            assert len(first) == 1
            await tx.fetch("select 1")
        told = await asyncio.wait_for(asyncio.gather(*callers, return_exceptions=True), PATIENCE_SECONDS)

    assert [type(each) for each in told if each is not None] == [errors.DatabaseUnavailable]
    assert all(isinstance(each.exception(), errors.DatabaseUnavailable) for each in first)
    await db.close()


@pytest.mark.contract("K24")
async def test_who_stands_in_line_when_the_pool_is_closed_is_told_that_it_is_not_open(database_url: str) -> None:
    db = Database(database_url, size=1)
    await db.open()

    async def ask() -> None:
        async with db.session():
            raise AssertionError("it is closed")

    async with db.session():
        callers = [asyncio.create_task(ask()) for _ in range(3)]
        await _step()
        closing = asyncio.create_task(db.close())
        await _step()
    told = await asyncio.wait_for(asyncio.gather(*callers, return_exceptions=True), PATIENCE_SECONDS)
    await closing
    assert [type(each) for each in told] == [errors.NotOpen] * 3
