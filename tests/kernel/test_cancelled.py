"""Whoever is cancelled at any step of a transaction leaves a line on which what comes next is committed (K1, K24)."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import pytest

from ferryman.kernel.pool import Database, Line
from tests.crash.wire import wired
from tests.patience import PATIENCE_SECONDS

TABLE = "create table public.written (n integer)"
WRITE = "insert into public.written values ($1)"
READ = "select n from public.written order by n"
# At which of the messages that it sends: BEGIN, the statement, COMMIT; or the statement, and then the ROLLBACK.
STEPS = [(1,), (2,), (3,), (2, 3)]

Write = Callable[[Line, int], Awaitable[Any]]


@pytest.fixture(params=[False, True], ids=["directly", "through a pooler that takes no settings"])
async def line(request: pytest.FixtureRequest, database_url: str) -> AsyncIterator[Line]:
    async with wired(database_url, strict=request.param) as (_wire, url):
        line = Line(url)
        yield line
        await line.close()


async def within(line: Line, n: int) -> None:
    async with line.transaction() as tx:
        await tx.fetch(WRITE, n)


async def alone(line: Line, n: int) -> None:
    await line.fetch(WRITE, n)


async def cancelled_at(steps: tuple[int, ...], line: Line, write: Write, monkeypatch: pytest.MonkeyPatch) -> None:
    """Write, and be cancelled when this or that message has been sent."""
    transport = (await line.open())._connection._transport
    send, sent = transport.write, 0
    writing = asyncio.ensure_future(write(line, 1))

    def count(data: bytes) -> None:
        nonlocal sent
        send(data)
        sent += 1
        if sent in steps:
            writing.cancel()

    with monkeypatch.context() as patched:
        patched.setattr(transport, "write", count)
        await asyncio.gather(writing, return_exceptions=True)


@pytest.mark.contract("K1", "K24")
@pytest.mark.parametrize("steps", STEPS)
@pytest.mark.parametrize("first", [within, alone])
@pytest.mark.parametrize("then", [within, alone])
async def test_what_comes_after_a_transaction_that_was_cancelled_is_committed(
    db: Database, line: Line, first: Write, then: Write, steps: tuple[int, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    async with db.session() as reader:
        await reader.execute(TABLE)
        await within(line, 0)

        await cancelled_at(steps, line, first, monkeypatch)
        async with asyncio.timeout(PATIENCE_SECONDS):
            await then(line, 2)

        assert [row["n"] for row in await reader.fetch(READ)] in ([0, 2], [0, 1, 2])
