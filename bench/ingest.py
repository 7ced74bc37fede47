"""What ingestion costs (P12): whole executors, source and table, the gate per request. `python -m bench.ingest --help`

The bare loop is what a person would write: GET a page of 100 with aiohttp, read it with orjson, COPY it into the table in a
transaction, ask for the next. It has no gate, no upsert, no check of anything.

`whole` is what a user gets: a plan of eight slices, and an executor in a process of its own that does them, four at a time,
with leases, batches and events, beside the bare loop in such a process. `two` is two executors beside one, before a server that
takes a while to answer. `parts` asks the gate, fetches through the REST source and writes through the table sink, page by
page, in turns with the bare loop. All ask the same server; only the ratios count.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from typing import Any

import aiohttp
import asyncpg
import orjson
import uvloop
from aiohttp import web

from bench.server import Server
from bench.venvs import CACHE
from ferryman import Ferryman
from ferryman.ingest.ports import Allow, Answer, GateKey, Reject, Request, WaitUntil
from ferryman.ingest.rules.pace import Pace
from ferryman.ingest.sinks.table import TableSink
from ferryman.ingest.sources.rest import RestSource
from ferryman.ingest.work.gate import SharedGate
from ferryman.kernel import migrate
from ferryman.kernel.db import Row
from ferryman.kernel.pool import Database, Line

SIZE = 100
SLICES, CONCURRENCY = 8, 4
SLOW = 0.05
COLUMNS = ("id", "name", "price", "tags", "updated_at")
TABLE = """
create table {} (id bigint primary key, name text, price double precision, tags jsonb, updated_at timestamptz)
"""
KEY = GateKey("bench", "items")
FAST = Pace(top=100_000, burst=100)

Act = Callable[[int], Awaitable[None]]


async def serve() -> None:
    """Give out pages until killed; the first line says where."""

    async def answer(request: web.Request) -> web.Response:
        number, first = int(request.query["page"]), int(request.query.get("first", SIZE))
        begin = first + (number - 1) * SIZE
        items = [
            {
                "id": id,
                "name": f"item {id} of page {number}",
                "price": (id - begin) * 1.25,
                "tags": ["a", "b", "c"],
                "updated_at": "2026-11-16T00:00:00+00:00",
            }
            for id in range(begin, begin + SIZE)
        ]
        await asyncio.sleep(float(request.query.get("slow", 0)))
        more = begin + SIZE < int(request.query.get("last", sys.maxsize))
        return web.Response(body=orjson.dumps({"items": items, "more": more}), content_type="application/json")

    app = web.Application()
    app.router.add_get("/items", answer)
    runner = web.AppRunner(app, access_log=None)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    print(runner.addresses[0][1], flush=True)
    await asyncio.Event().wait()


@asynccontextmanager
async def bare(url: str, database: str) -> AsyncIterator[Act]:
    connection = await asyncpg.connect(database)

    async def act(number: int) -> None:
        async with session.get(url, params={"page": str(number)}) as response:
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


@asynccontextmanager
async def ours(url: str, database: str) -> AsyncIterator[Act]:
    db, line = Database(database, size=1), Line(database, settings={"synchronous_commit": "off"})
    await db.open()
    gate = SharedGate(line, lambda _key: FAST)
    source = RestSource(url=url, items="items", paging={"kind": "PAGE", "has_next": "more", "size": SIZE})
    sink = TableSink("ours", key="id", columns=COLUMNS, updated_at="updated_at")

    async def act(number: int) -> None:
        await admit(gate)
        begun = time.perf_counter()
        page = await source.fetch(Request("bench", "items", "HARVEST", None, position=f"page:{number}"))
        gate.told(KEY, Answer(200, timedelta(seconds=time.perf_counter() - begun), headers=page.stats["headers"]))
        async with db.transaction() as tx:
            await sink.write(tx, page.items, batch_key=f"batch-{number}")

    yield act
    await source.close()
    await gate.close()
    await db.close()


async def execute(url: str, database: str, *, pages: int, slices: int, slow: float, executors: int) -> float:
    """Plan so many pages, let executors in processes of their own do them, and return the seconds from GO to the end."""
    app = application(url, database)
    command = [sys.executable, "-m", "bench.ingest", "--execute", url, database]
    async with app:
        crew = [await asyncio.create_subprocess_exec(*command, stdout=subprocess.PIPE) for _ in range(executors)]
        try:
            for each in crew:
                assert each.stdout is not None
                await each.stdout.readline()
            last = pages * SIZE
            begun = time.perf_counter()
            planned = await app.ingest.plan(
                "bench", "items", operation="UPDATE", strategy="ID_RANGE",
                params={"first": 1, "last": last, "size": last // slices},
                expression={"first": "{first}", "last": "{last}", "slow": slow},
            )  # fmt: skip
            assert planned.id is not None
            done = await app.ingest.wait(planned.id, timeout=120)
            spent = time.perf_counter() - begun
            assert done.items == last, done
            return spent
        finally:
            for each in crew:
                each.terminate()
            await asyncio.gather(*(each.wait() for each in crew))


def application(url: str, database: str) -> Ferryman:
    """Return the app that plans and executes."""
    app = Ferryman(database, ingest={"concurrency": CONCURRENCY, "partition_concurrency": 2 * CONCURRENCY})
    source = RestSource(url=url, items="items", paging={"kind": "PAGE", "has_next": "more", "size": SIZE})
    sink = TableSink("whole", key="id", columns=COLUMNS, updated_at="updated_at")
    app.source(source, name="bench", endpoint="items", sink=sink, rate=f"{FAST.top:g}/s", burst=FAST.burst)
    return app


async def executing(url: str, database: str) -> None:
    """Execute until killed; the first line says that it has begun."""
    async with application(url, database) as app:
        working = asyncio.create_task(app.work())
        await asyncio.sleep(1)
        print("ready", flush=True)
        await working


async def admit(gate: SharedGate) -> None:
    while True:
        decision = await gate.acquire(KEY)
        if isinstance(decision, Allow):
            return
        assert not isinstance(decision, Reject), decision.reason
        await asyncio.sleep(0)


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

    async def go(seconds: float) -> tuple[int, float]:
        requests, spent, until = 0, 0.0, time.perf_counter() + seconds
        while (begun := time.perf_counter()) < until:
            decision = await gate.acquire(key)
            if isinstance(decision, Allow):
                gate.told(key, good)
                requests += 1
            spent += time.perf_counter() - begun
            if isinstance(decision, WaitUntil):
                await asyncio.sleep(max(0.0, (decision.at - datetime.now(UTC)).total_seconds()))
        return requests, spent

    await go(seconds)  # until it is connected and its lots have grown
    counting.trips = 0
    requests, spent = await go(seconds)
    await gate.close()
    await line.close()
    return {"top": top, "requests": requests, "ms": 1000 * spent / requests, "trips": counting.trips / requests}


async def loop(url: str, database: str, *, pages: int) -> float:
    """Return how long the bare loop takes, in a process of its own."""
    command = [sys.executable, "-m", "bench.ingest", "--loop", url, database, "--pages", str(pages)]
    process = await asyncio.create_subprocess_exec(*command, stdout=subprocess.PIPE)
    said, _ = await process.communicate()
    return float(said)


async def looping(url: str, database: str, *, pages: int) -> None:
    """Run the bare loop, and say how long it took."""
    async with bare(url, database) as act:
        await act(0)
        begun = time.perf_counter()
        for number in range(1, pages + 1):
            await act(number)
        print(time.perf_counter() - begun)


def fresh(server: Server, name: str) -> str:
    """Make a migrated database with the tables."""
    server.create(name)
    database = server.url(name)
    asyncio.run(migrate.migrate(database))
    with server.connect(name) as connection:
        for table in ("bare", "ours", "whole"):
            connection.execute(TABLE.format(table).encode())
    return database


def whole(server: Server, url: str, *, pages: int, rounds: int) -> dict[str, Any]:
    """An executor beside the bare loop, and two before a slow server beside one."""
    ratios, pairs = [], []
    for number in range(rounds):
        database = fresh(server, f"whole{number}")
        spent = asyncio.run(execute(url, database, pages=pages, slices=SLICES, slow=0, executors=1))
        ratios.append(asyncio.run(loop(url, database, pages=pages)) / spent)
        slowly = [
            asyncio.run(execute(url, fresh(server, f"slow{number}_{count}"), pages=160, slices=16, slow=SLOW, executors=count))
            for count in (1, 2)
        ]  # fmt: skip
        pairs.append(slowly[0] / slowly[1])
    return {
        "whole": {"ratio": round(statistics.median(ratios), 2), "ratios": [round(each, 2) for each in ratios]},
        "two": {"ratio": round(statistics.median(pairs), 2), "ratios": [round(each, 2) for each in pairs]},
    }


async def parts(database: str, server: Server, url: str, *, pages: int, rounds: int) -> dict[str, Any]:
    """Gate, source and sink, page after page, in turns with the bare loop."""
    rates: dict[str, list[float]] = {"bare": [], "ours": []}
    cpu = {"bare": 0.0, "ours": 0.0}
    async with bare(url, database) as theirs, ours(url, database) as mine:
        for number in range(rounds + 1):
            numbers = range(number * pages + 1, (number + 1) * pages + 1)
            turn = [("bare", theirs), ("ours", mine)]
            for name, act in turn if number % 2 else reversed(turn):
                begun, spent = time.perf_counter(), time.process_time() + server.cpu()
                for each in numbers:
                    await act(each)
                if number:  # the first round warms up
                    rates[name].append(SIZE * pages / (time.perf_counter() - begun))
                    cpu[name] += time.process_time() + server.cpu() - spent
    ratios = [one / other for one, other in zip(rates["ours"], rates["bare"], strict=True)]
    return {
        "items_per_second": {name: round(statistics.median(each)) for name, each in rates.items()},
        "ratio": round(statistics.median(ratios), 2),
        "cpu_ms_per_page": {name: round(1000 * each / pages / rounds, 2) for name, each in cpu.items()},
        "ratios": [round(each, 2) for each in ratios],
    }


async def gates(database: str) -> list[dict[str, float]]:
    """The gate at four rates."""
    costs = [await gate_cost(database, top=top, seconds=2.0) for top in (10, 100, 1000, 100_000)]
    return [{name: round(value, 4) for name, value in cost.items()} for cost in costs]


def measure(server: Server, url: str, *, pages: int, rounds: int) -> dict[str, Any]:
    figures = whole(server, url, pages=2 * pages, rounds=rounds)
    database = fresh(server, "parts")
    figures["parts"] = asyncio.run(parts(database, server, url, pages=pages, rounds=rounds))
    figures["gate"] = asyncio.run(gates(database))
    return figures | {"load": os.getloadavg()[0]}


def main() -> int:
    line = argparse.ArgumentParser(
        prog="bench.ingest", description="Measure source, gate and table beside a bare loop."
    )
    line.add_argument("--pages", type=int, default=200)
    line.add_argument("--rounds", type=int, default=5)
    line.add_argument("--serve", action="store_true", help=argparse.SUPPRESS)
    line.add_argument("--execute", nargs=2, help=argparse.SUPPRESS)
    line.add_argument("--loop", nargs=2, help=argparse.SUPPRESS)
    asked = line.parse_args()
    if asked.serve:
        asyncio.run(serve())
        return 0
    if asked.execute:
        uvloop.run(executing(*asked.execute))
        return 0
    if asked.loop:
        uvloop.run(looping(*asked.loop, pages=asked.pages))
        return 0
    command = [sys.executable, "-m", "bench.ingest", "--serve"]
    with (
        Server(CACHE / f"server-{os.getpid()}") as server,
        subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as there,
    ):
        try:
            assert there.stdout is not None
            url = f"http://127.0.0.1:{there.stdout.readline().strip()}/items"
            print(json.dumps(measure(server, url, pages=asked.pages, rounds=asked.rounds), indent=2))
        finally:
            there.terminate()
    return 0


if __name__ == "__main__":
    sys.exit(main())
