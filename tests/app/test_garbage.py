"""P8: a worker leaves nothing behind that only a search through all objects would find."""

import gc
from collections import Counter
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from ferryman import Context, Ferryman, Message, Turn
from ferryman.ingest.ports import Page, Request, Written
from ferryman.kernel.pool import line
from tests.patience import PATIENCE_SECONDS

ROUNDS = 3
DAWN = datetime(2026, 1, 1, tzinfo=UTC)


class Hold:
    """A sink in the same database."""

    same_database = True

    async def write(self, tx: Any, items: Any, *, batch_key: str) -> Written:
        await tx.fetch("select 1")
        return Written(len(items))


@pytest.fixture
async def app(database_url: str) -> AsyncIterator[Ferryman]:  # noqa: C901 - a function for each kind of work
    """Everything that runs in a worker, each with what it may keep: steps, children, progress, tools, forks."""
    made = Ferryman(database_url, worker={"poll": "50ms"})

    async def word() -> str:
        return "word"

    @made.task
    async def leaf(number: int) -> int:
        return number

    @made.task
    async def tree(ctx: Context) -> list[int]:
        await ctx.step("word", word)
        return await ctx.join([ctx.child(leaf, {"number": number}) for number in range(2)])

    @made.task
    def plain(number: int) -> int:
        return number

    @made.task(max_retries=1, backoff=0)
    async def shaky(ctx: Context) -> None:
        if ctx.attempt == 1:
            raise ConnectionError("not yet")

    @made.on_command("Ask")
    def ask(command: Any) -> list[Message]:
        return [Message("Count")]

    @made.capability("Count")
    async def count(ctx: Context) -> dict[str, int]:
        ctx.progress(50)
        return {"counted": 1}

    @made.tool
    async def add(a: int, b: int) -> int:
        return a + b

    @made.agent
    async def rower(turn: Turn) -> int:
        return int(await turn.call_tool("add", a=1, b=2))

    @made.agent
    async def captain(turn: Turn) -> Any:
        tasks = [{"target_strategy": "new", "target_ref": "rower", "instruction": "row"} for _ in range(2)]
        return await turn.fork_join(tasks, deadline_seconds=60)

    @made.source(name="shop", endpoint="orders", sink=Hold(), safety_lag=timedelta(0))
    async def orders(request: Request) -> Page:
        last = request.position != "start"
        return Page([{"id": 1}], next=None if last else "offset:1", has_next=not last)

    async with made:
        await made.agents.ensure("captain", captain)
        yield made


async def do_everything(app: Ferryman, nth: int) -> None:
    tasks = [await app.tasks.create(name) for name in ("tree", "shaky")]
    tasks += [await app.tasks.create(name, {"number": 1}) for name in ("leaf", "plain")]
    command = await app.commands.send("Ask", {})
    turn = await app.agents.send("captain", "go")
    day = DAWN + timedelta(days=nth)
    plan = await app.ingest.backfill("shop", since=day, until=day + timedelta(hours=2))
    for each in tasks:
        await each.result(timeout=PATIENCE_SECONDS)
    await app.commands.wait(command.id, timeout=PATIENCE_SECONDS)
    await turn.result(timeout=PATIENCE_SECONDS)
    assert plan.id is not None
    await app.ingest.wait(plan.id, timeout=PATIENCE_SECONDS)


@contextmanager
def keeping() -> Iterator[list[Any]]:
    """Keep what the collector finds, so that it can be looked at."""
    gc.collect()
    gc.disable()
    gc.set_debug(gc.DEBUG_SAVEALL)
    found: list[Any] = []
    try:
        yield found
        gc.collect()
        found += gc.garbage
    finally:
        gc.set_debug(0)
        gc.garbage.clear()
        gc.enable()


def ours(found: list[Any]) -> Counter[str]:
    """Name what is of this library or of its driver: objects, and functions and coroutines by where they were written."""
    names: Counter[str] = Counter()
    for each in found:
        code = getattr(each, "__code__", None) or getattr(each, "cr_code", None)
        where = code.co_filename if code is not None else f"/{type(each).__module__.replace('.', '/')}/"
        if "/ferryman/" in where or "/asyncpg/" in where:
            names[getattr(each, "__qualname__", type(each).__qualname__)] += 1
    return names


@pytest.mark.contract("P8")
async def test_whatever_a_worker_does_leaves_no_cycles(app: Ferryman, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(line, "PLANS_KEPT_SECONDS", 0.05)
    async with app.worker():
        await do_everything(app, 0)  # what is made once stays
        with keeping() as found:
            for nth in range(ROUNDS):
                await do_everything(app, nth + 1)

        assert ours(found) == Counter()
