"""Creates over HTTP beside creates in Python, 50 in flight, and what idle streams and pages of a long list cost.

    python -m bench.http                        # creates: about half a minute
    python -m bench.http --work streams         # 1,000 idle streams: the server's memory
    python -m bench.http --work list            # pages of a list of a million tasks

The server is one process and its client another. On a busy machine rates say little: the processor time that the server used
for a create stands beside that of a process which creates through the Python door.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psutil
import uvloop

from bench.server import Server
from ferryman import Ferryman

IN_FLIGHT, CREATES, BULK = 50, 20_000, 100
STREAMS = 1000
ROWS, PAGES = 1_000_000, 200
BODY = json.dumps({"name": "nothing", "payload": {"number": 1}}).encode()

FILL = """
insert into ferryman.tasks (id, state, name, payload, due_at, ends_at, created_at, updated_at, timeout_ms, max_retries,
    finished_at, started_at, epoch, tenant, queue, last_error_code, last_error_reason)
select (lpad(to_hex((1700000000000 + n)::bigint), 12, '0') || '7' || substr(md5(n::text), 1, 3) || '8'
            || substr(md5(n::text), 4, 15))::uuid,
    case when n % 100 = 0 then 'failed' else 'succeeded' end, 'name' || n % 20, '{"number": 1}', now(), now() + interval '1 d',
    now(), now(), 300000, 3, now(), now(), 1, case when n % 10 = 0 then 'small' else 'default' end, 'queue' || n % 5,
    case when n % 100 = 0 then 'TASK_EXECUTION_FAILED' end, case when n % 100 = 0 then 'it broke' end
from generate_series(1, %s::integer) as n
"""


async def api(url: str, count: int) -> dict[str, float]:
    """Create through the Python door."""
    async with Ferryman(url) as app:
        left = iter(range(count))

        async def one() -> None:
            for number in left:
                await app.tasks.create("nothing", number=number)

        await asyncio.gather(*(one() for _ in range(IN_FLIGHT)))  # warm
        left = iter(range(count))
        began, used = time.perf_counter(), time.process_time()
        await asyncio.gather(*(one() for _ in range(IN_FLIGHT)))
        return {
            "per_second": count / (time.perf_counter() - began),
            "cpu_us": (time.process_time() - used) / count * 1e6,
        }


async def http(url: str, count: int) -> dict[str, float]:
    """Create over HTTP; the server's processor time is read from outside."""
    with serving(url) as (port, process):
        await _creates(port, count // 4)
        used = sum(process.cpu_times()[:2])
        began = time.perf_counter()
        await _creates(port, count)
        return {
            "per_second": count / (time.perf_counter() - began),
            "cpu_us": (sum(process.cpu_times()[:2]) - used) / count * 1e6,
        }


async def bulk(url: str, count: int) -> dict[str, float]:
    """Create over HTTP, a hundred in a request."""
    body = json.dumps({"tasks": [json.loads(BODY)] * BULK}).encode()
    with serving(url) as (port, process):
        await _creates(port, 20, path="/v1/tasks/bulk", body=body)
        used = sum(process.cpu_times()[:2])
        began = time.perf_counter()
        await _creates(port, count // BULK, path="/v1/tasks/bulk", body=body)
        return {
            "per_second": count / (time.perf_counter() - began),
            "cpu_us": (sum(process.cpu_times()[:2]) - used) / count * 1e6,
        }


async def _creates(port: int, count: int, *, path: str = "/v1/tasks", body: bytes = BODY) -> None:
    """Keep 50 requests under way, each on a connection of its own that is kept open."""
    left = iter(range(count))
    head = f"POST {path} HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nContent-Type: application/json\r\n"
    asked = head.encode() + b"Content-Length: %d\r\n\r\n" % len(body) + body

    async def one() -> None:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        for _ in left:
            writer.write(asked)
            answer = await reader.readuntil(b"\r\n\r\n")
            if not answer.startswith(b"HTTP/1.1 201"):
                raise RuntimeError(answer.decode())
            length = int(answer.lower().partition(b"content-length: ")[2].partition(b"\r\n")[0])
            await reader.readexactly(length)
        writer.close()

    await asyncio.gather(*(one() for _ in range(IN_FLIGHT)))


async def streams(url: str, count: int) -> dict[str, float]:
    """Open streams that say nothing, and look at the server's memory."""
    with serving(url) as (port, process):
        before = process.memory_info().rss
        asked = f"GET /v1/events/stream HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\n\r\n".encode()
        ends = []
        for _ in range(count):
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            writer.write(asked)
            assert (await reader.readuntil(b"\r\n\r\n")).startswith(b"HTTP/1.1 200")
            ends.append((reader, writer))
        memory = process.memory_info().rss
        used = sum(process.cpu_times()[:2])
        await asyncio.sleep(20)  # more than a heartbeat
        idle = (sum(process.cpu_times()[:2]) - used) / 20
        async with Ferryman(url) as app:
            began = time.perf_counter()
            await app.tasks.create("nothing")
            await asyncio.gather(*(reader.readuntil(b"data: ") for reader, _ in ends))
            told = time.perf_counter() - began
        return {
            "streams": count, "memory_mb": memory / 2**20, "before_mb": before / 2**20,
            "kb_each": (memory - before) / count / 1024, "idle_cores": idle, "told_all_ms": told * 1000,
        }  # fmt: skip


async def pages(url: str, count: int) -> dict[str, float]:
    """Read pages of a list of a million tasks."""
    async with Ferryman(url) as app:
        async with app.database.session() as tx:
            # Without triggers: the guard lets nothing be born at its end.
            await tx.execute("set session_replication_role = replica")
            await tx.execute(FILL.replace("%s", str(count)))
            await tx.execute("reset session_replication_role")
            await tx.execute("analyze ferryman.tasks")
        figures = {}
        asked: dict[str, dict[str, object]] = {
            "all": {}, "name": {"name": "name7"}, "queue": {"queue": "queue3"}, "failed": {"state": "failed"},
            "running": {"state": "running"}, "small tenant": {}, "name of nobody": {"name": "nobody"},
        }  # fmt: skip
        for which, filters in asked.items():
            door = app.of("small" if which == "small tenant" else "default").tasks
            took = []
            for _ in range(PAGES if which not in {"running", "name of nobody"} else 5):
                began = time.perf_counter()
                await door.list(**filters, limit=50)  # type: ignore[arg-type]  # filters by name
                took.append((time.perf_counter() - began) * 1000)
            figures[f"{which} p50 ms"] = statistics.median(took)
        return figures


@contextmanager
def serving(url: str) -> Iterator[tuple[int, psutil.Process]]:
    """Run a server of its own."""
    command = [sys.executable, "-m", "ferryman.cli", "server", "--port", "0", "--json", "--database-url", url]
    environ = {**os.environ, "FERRYMAN_HTTP__RATE": "1000000", "FERRYMAN_HTTP__BURST": "1000000"}
    environ |= {"FERRYMAN_HTTP__STREAMS_OF_ONE": "100000"}
    running = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, env=environ)
    try:
        assert running.stdout is not None
        port = int(json.loads(running.stdout.readline())["url"].rpartition(":")[2])
        yield port, psutil.Process(running.pid)
    finally:
        running.terminate()
        running.wait(30)


WORK = {
    "api": (api, CREATES),
    "http": (http, CREATES),
    "bulk": (bulk, CREATES),
    "streams": (streams, STREAMS),
    "list": (pages, ROWS),
}


def main() -> None:
    """Run workloads in processes of their own, and print what came of them."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0] if __doc__ else None)
    parser.add_argument("--work", default="api,http,bulk")
    parser.add_argument("--count", type=int, default=None)
    parser.add_argument("--one", nargs=2, metavar=("WORK", "URL"), help=argparse.SUPPRESS)
    given = parser.parse_args()
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(hard, max(soft, 8192)), hard))
    if given.one:
        work, number = WORK[given.one[0]]
        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            print(json.dumps(runner.run(work(given.one[1], given.count or number))))
        return
    with tempfile.TemporaryDirectory(prefix="fm-") as place, Server(Path(place) / "data") as server:
        for name in given.work.split(","):
            server.admin.execute(f"create database {name}")
            asyncio.run(Ferryman(server.url(name)).migrate())
            more = [] if given.count is None else ["--count", str(given.count)]
            command = [sys.executable, "-m", "bench.http", *more, "--one", name, server.url(name)]
            told = subprocess.run(command, check=True, stdout=subprocess.PIPE, env=os.environ)
            figures = json.loads(told.stdout)
            print(name, "  ".join(f"{figure} {value:,.2f}" for figure, value in figures.items()), flush=True)


if __name__ == "__main__":
    main()
