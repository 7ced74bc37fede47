"""Callers in line for a connection: in order, for as long as the line moves, and told when it does not."""

import asyncio
from collections.abc import AsyncIterator

import pytest

from ferryman.kernel import errors
from ferryman.kernel.pool import Database, Line
from ferryman.kernel.pool import database as pools
from ferryman.kernel.pool import line as lines
from ferryman.kernel.pool.turnstile import LOOKS, Turnstile


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
    await asyncio.wait_for(last, 60)
    assert (waiting.cancelled(), given.cancelled()) == (True, True)
    turnstile.leave()
    await asyncio.wait_for(turnstile.enter(), 60)


@pytest.mark.contract("K24")
async def test_a_line_that_moves_is_waited_in_and_one_that_stands_still_is_told_of(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    turnstile, looks = Turnstile(1, patience=LOOKS), list[float | None]()

    async def look(places: list[asyncio.Future[None]], *, timeout: float | None) -> None:
        looks.append(timeout)
        if len(looks) < 20:  # some place is passed on while this one waits
            turnstile._moves += 1
        await asyncio.sleep(0)

    monkeypatch.setattr("ferryman.kernel.pool.turnstile.asyncio.wait", look)
    await turnstile.enter()
    with pytest.raises(errors.DatabaseUnavailable, match="in use, and none came back for 5 s"):
        await turnstile.enter()
    assert looks == [1.0] * (19 + LOOKS)
    turnstile.leave()
    await turnstile.enter()


@pytest.fixture
async def nobody(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[str]:
    """An address where somebody takes connections and says nothing, as lost packets look like."""
    for module in (pools, lines):
        monkeypatch.setattr(module, "CONNECT_TIMEOUT_SECONDS", 0.3)
    ends = asyncio.Event()

    async def listen(_reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await ends.wait()
        writer.close()

    server = await asyncio.start_server(listen, "127.0.0.1", 0)
    yield f"postgresql://x@127.0.0.1:{server.sockets[0].getsockname()[1]}/x"
    ends.set()
    server.close()


@pytest.mark.contract("K24")
@pytest.mark.parametrize("kind", ["pool", "line"])
async def test_a_database_that_is_away_is_told_to_all_in_line_by_the_first_who_finds_out(
    database_url: str, nobody: str, kind: str
) -> None:
    if kind == "pool":
        db = Database(database_url, size=2)
        await db.open()
        assert db._pool is not None
        await db._pool.expire_connections()
        db._pool.set_connect_args(nobody, timeout=0.3)
    else:
        line = Line(nobody)

    async def ask() -> None:
        async with db.session() if kind == "pool" else line.transaction():
            raise AssertionError("nobody is there")

    async with asyncio.timeout(30):  # one after the other they would take 90 s
        told = await asyncio.gather(*(ask() for _ in range(300)), return_exceptions=True)

    assert {type(each) for each in told} == {errors.DatabaseUnavailable}
    await (db if kind == "pool" else line).close()
