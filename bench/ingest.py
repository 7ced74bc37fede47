"""What ingestion costs (P12): an executor beside a bare loop, two executors beside one, the gate for each request.

The bare loop is what a person would write: GET a page of 100 with aiohttp, read it with orjson, COPY it into the table in a
transaction, ask for the next. It has no gate, no upsert, no check of anything. Four such loops, with a connection each, stand
beside it: the executor, too, has four slices under way. The executor is what a user gets: a plan of eight slices, done four
at a time in a process of its own, with leases, batches and events. All ask one server, which has a process of its own
(source.py). All have done something before the clock begins, so that nobody's connections, and plans of statements, are made
in that time: the loop one page, the executor two of a slice for each of its connections.

Two executors beside one tell something only where the server is the limit and not the machine: there it answers every request
after a fixed time, and serves only so many at once to each client. The rate is the server's, from the first request to the last
answer, so that neither planning nor the start of a process is in it.

Runs inside `python -m bench.run --work ingest,ingest2,gate`; each part is a process: `python -m bench.ingest ROLE …`.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import subprocess
import sys
import time
import urllib.request
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager
from datetime import UTC, datetime, timedelta
from typing import Any

import aiohttp
import asyncpg
import orjson
import psutil
import uvloop

from bench.measure import Figures
from bench.source import SIZE
from bench.stage import Stage
from ferryman import Ferryman
from ferryman.ingest.ports import Allow, Answer, GateKey, WaitUntil
from ferryman.ingest.rules.pace import Pace
from ferryman.ingest.sinks.table import TableSink
from ferryman.ingest.sources.rest import RestSource
from ferryman.ingest.work.gate import SharedGate
from ferryman.kernel.db import Row
from ferryman.kernel.pool import Line

PAGES, SLICES, CONCURRENCY = 1_600, 8, 4
WARM = 2 * CONCURRENCY
# Before a slow server: 20 pages a second for a client, a fraction of what a core does.
SLOW_PAGES, SLOW_SLICES, LATENCY, AT_ONCE = 320, 32, 0.2, 4
TOPS = (10, 100, 1_000, 100_000)
GATE_SECONDS, GATE_REQUESTS = 2.0, 50  # so long at least, and so many
FOUR = "floor4"
COLUMNS = ("id", "name", "price", "tags", "updated_at")
TABLE = """
create table {} (id bigint primary key, name text, price double precision, tags jsonb, updated_at timestamptz)
"""
FAST = Pace(top=100_000, burst=100)


@contextmanager
def source(*, latency: float = 0.0, at_once: int = 0) -> Iterator[str]:
    """Run the server in a process of its own; lend its address."""
    command = [sys.executable, "-m", "bench.source", "--latency", str(latency), "--at-once", str(at_once)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as there:
        try:
            assert there.stdout is not None
            yield f"http://127.0.0.1:{there.stdout.readline().strip()}"
        finally:
            there.terminate()


def prepare(stage: Stage) -> str:
    """A fresh migrated database with the tables."""
    stage.fresh()
    with stage.server.connect(stage.database) as connection:
        for table in ("bare", "ours"):
            connection.execute(TABLE.format(table).encode())
    return stage.server.url(stage.database)


def whole(stage: Stage) -> Figures:
    """One executor, from the plan to its end."""
    pages = max(SLICES, int(PAGES * stage.scale) // SLICES * SLICES)
    database = prepare(stage)
    with source() as url:
        asked = execute(url, database, pages=pages, slices=SLICES, executors=1, store=stage.store.cpu)
        told = asyncio.run(asked)
        return _per_page(told, told["store"], pages)


def bare(stage: Stage) -> Figures:
    """The bare loop in a process of its own."""
    return loops(stage, 1)


def bare_four(stage: Stage) -> Figures:
    """As many bare loops at once as an executor has slices under way, in one process."""
    return loops(stage, CONCURRENCY)


def loops(stage: Stage, at_once: int) -> Figures:
    pages = max(SLICES, int(PAGES * stage.scale))
    database = prepare(stage)
    with source() as url:
        before = stage.store.cpu()
        command = [sys.executable, "-m", "bench.ingest", "loop", url, database]
        command += ["--pages", str(pages), "--at-once", str(at_once)]
        said = subprocess.run(command, check=True, capture_output=True, text=True).stdout
        return _per_page(json.loads(said), stage.store.cpu() - before, pages)


def _per_page(told: dict[str, float], store: float, pages: int) -> Figures:
    return {
        "rate": SIZE * pages / told["seconds"],
        "cpu_worker": 1000 * told["cpu"] / pages,
        "cpu_store": 1000 * store / pages,
    }


def two(stage: Stage) -> Figures:
    """One executor, then two, before a slow server."""
    pages = max(SLOW_SLICES, int(SLOW_PAGES * stage.scale) // SLOW_SLICES * SLOW_SLICES)
    figures: Figures = {}
    for name, executors in (("one", 1), ("two", 2)):
        database = prepare(stage)
        with source(latency=LATENCY, at_once=AT_ONCE) as url:
            told = asyncio.run(execute(url, database, pages=pages, slices=SLOW_SLICES, executors=executors))
            with urllib.request.urlopen(f"{url}/told") as answer:
                seen = json.loads(answer.read())
        figures[name] = SIZE * seen["pages"] / seen["seconds"]
        figures[f"{name}_whole"] = SIZE * pages / told["seconds"]
        figures[f"{name}_busy"] = seen["busy"]  # of the places that the server has for each client
        figures[f"{name}_cpu"] = told["cpu"] / told["seconds"]
    return figures | {
        "share": figures["two"] / figures["one"],
        "whole_share": figures["two_whole"] / figures["one_whole"],
    }


def gate(stage: Stage) -> Figures:
    """Ask the gate as fast as it lets an executor go: time in the gate and round trips, per request, at four rates."""
    database = prepare(stage)
    figures: Figures = {}
    for top in TOPS:
        cost = asyncio.run(gate_cost(database, top=top, seconds=GATE_SECONDS))
        figures |= {f"ms_{top}": cost["ms"], f"trips_{top}": cost["trips"]}
    return figures


async def execute(
    url: str, database: str, *, pages: int, slices: int, executors: int, store: Callable[[], float] | None = None
) -> dict[str, float]:
    """Plan so many pages for executors in processes of their own; tell seconds from the plan to its end, and of the processor.

    With `store`, which reads its seconds, they have done something before; a server that counts must not see that.
    """
    command = [sys.executable, "-m", "bench.ingest", "execute", url, database]
    async with application(url, database) as app:
        crew = [await asyncio.create_subprocess_exec(*command, stdout=subprocess.PIPE) for _ in range(executors)]
        try:
            for each in crew:
                assert each.stdout is not None
                await each.stdout.readline()
            if store is not None:
                await harvest(app, first=2 * pages * SIZE, pages=2 * WARM, slices=WARM)
            begun, used, stored = time.perf_counter(), _cpu(crew), store() if store else 0.0
            await harvest(app, first=1, pages=pages, slices=slices)
            took = time.perf_counter() - begun
            return {"seconds": took, "cpu": _cpu(crew) - used, "store": store() - stored if store else 0.0}
        finally:
            for each in crew:
                each.terminate()
            await asyncio.gather(*(each.wait() for each in crew))


async def harvest(app: Ferryman, *, first: int, pages: int, slices: int) -> None:
    planned = await app.ingest.plan(
        "bench", "items", operation="UPDATE", strategy="ID_RANGE",
        params={"first": first, "last": first + pages * SIZE, "size": pages * SIZE // slices},
        expression={"first": "{first}", "last": "{last}"},
    )  # fmt: skip
    assert planned.id is not None
    done = await app.ingest.wait(planned.id, timeout=120)
    assert done.items == pages * SIZE, done


def _cpu(crew: list[asyncio.subprocess.Process]) -> float:
    return sum(sum(psutil.Process(each.pid).cpu_times()[:2]) for each in crew)


def application(url: str, database: str) -> Ferryman:
    """Return the app that plans and executes; the server tells clients apart by where they ask."""
    app = Ferryman(database, ingest={"concurrency": CONCURRENCY, "partition_concurrency": 2 * CONCURRENCY})
    paging = {"kind": "PAGE", "has_next": "more", "size": SIZE}
    rest = RestSource(url=f"{url}/items/{os.getpid()}", items="items", paging=paging)
    sink = TableSink("ours", key="id", columns=COLUMNS, updated_at="updated_at")
    app.source(rest, name="bench", endpoint="items", sink=sink, rate=f"{FAST.top:g}/s", burst=FAST.burst)
    return app


async def executing(url: str, database: str) -> None:
    """Execute until killed; the first line says that it has begun."""
    async with application(url, database) as app:
        working = asyncio.create_task(app.work())
        await asyncio.sleep(1)
        print("ready", flush=True)
        await working


async def looping(url: str, database: str, *, pages: int, at_once: int) -> None:
    """Run bare loops, and say how long they took."""
    left = iter(range(1, pages + 1))

    async def one(act: Any) -> None:
        for number in left:
            await act(number)

    async with AsyncExitStack() as ends:
        acts = [await ends.enter_async_context(loop(url, database)) for _ in range(at_once)]
        for number, act in enumerate(acts):
            await act(pages + 1 + number)
        begun, used = time.perf_counter(), time.process_time()
        await asyncio.gather(*(one(act) for act in acts))
        print(json.dumps({"seconds": time.perf_counter() - begun, "cpu": time.process_time() - used}))


@asynccontextmanager
async def loop(url: str, database: str) -> AsyncIterator[Any]:
    connection = await asyncpg.connect(database)

    async def act(number: int) -> None:
        async with session.get(f"{url}/items/{os.getpid()}", params={"page": str(number)}) as response:
            items = orjson.loads(await response.read())["items"]
        rows = [
            (
                item["id"],
                item["name"],
                item["price"],
                orjson.dumps(item["tags"]).decode(),
                datetime.fromisoformat(item["updated_at"]),
            )
            for item in items
        ]
        async with connection.transaction():
            await connection.copy_records_to_table("bare", records=rows, columns=COLUMNS)

    async with aiohttp.ClientSession() as session:
        yield act
    await connection.close()


class Counting:
    """A line that counts its round trips."""

    schema = "ferryman"

    def __init__(self, line: Line) -> None:
        self.line = line
        self.trips = 0

    async def fetch(self, query: str, /, *args: Any) -> list[Row]:
        self.trips += 1
        return list(await self.line.fetch(query, *args))


async def gate_cost(database: str, *, top: float, seconds: float) -> dict[str, float]:
    """Go as fast as a gate of this rate lets one executor go: time in the gate and round trips, per request."""
    line = Line(database, settings={"synchronous_commit": "off"})
    counting = Counting(line)
    gate = SharedGate(counting, lambda _key: Pace(top=top, burst=max(1, int(top / 10))))
    key, good = GateKey("cost", f"{top:g}"), Answer(200, timedelta(milliseconds=1))

    async def go(least: int = 0) -> tuple[int, float]:
        requests, spent, until = 0, 0.0, time.perf_counter() + seconds
        while (begun := time.perf_counter()) < until or requests < least:
            decision = await gate.acquire(key)
            if isinstance(decision, Allow):
                gate.told(key, good)
                requests += 1
            spent += time.perf_counter() - begun
            if isinstance(decision, WaitUntil):
                await asyncio.sleep(max(0.0, (decision.at - datetime.now(UTC)).total_seconds()))
        return requests, spent

    await go()  # until it is connected and its lots have grown
    counting.trips = 0
    requests, spent = await go(GATE_REQUESTS)
    await gate.close()
    await line.close()
    return {"top": top, "requests": requests, "ms": 1000 * spent / requests, "trips": counting.trips / requests}


def main() -> None:
    line = argparse.ArgumentParser(prog="bench.ingest", description="Play a role in a measurement of ingestion.")
    line.add_argument("role", choices=["execute", "loop"])
    line.add_argument("url")
    line.add_argument("database")
    line.add_argument("--pages", type=int, default=PAGES)
    line.add_argument("--at-once", type=int, default=1)
    asked = line.parse_args()
    if asked.role == "execute":
        uvloop.run(executing(asked.url, asked.database))
    else:
        uvloop.run(looping(asked.url, asked.database, pages=asked.pages, at_once=asked.at_once))


if __name__ == "__main__":
    main()
