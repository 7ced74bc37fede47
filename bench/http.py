"""Creates over HTTP beside creates in Python, 50 in flight, and what idle streams and pages of a long list cost.

    python -m bench.http                        # creates: about half a minute
    python -m bench.http --work streams         # 1,000 idle streams: the server's memory
    python -m bench.http --work list            # pages of a list of a million tasks, by the Python door
    python -m bench.http --work pages           # the dashboard's pages over a million tasks, as a browser asks for them
    python -m bench.http --work empty,http      # a create beside an empty answer of the same kind of server

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
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

import psutil
import uvloop

from bench.server import Server
from ferryman import Ferryman

IN_FLIGHT, CREATES, BULK = 50, 20_000, 100
STREAMS = 1000
ROWS, PAGES = 1_000_000, 200
VIEWS = 30
BODY = json.dumps({"name": "nothing", "payload": {"number": 1}}).encode()

EMPTY = """
import asyncio, socket, uvicorn, uvloop

async def answer(scope, receive, send):
    await receive()
    await send({"type": "http.response.start", "status": 201, "headers": [(b"content-length", b"2")]})
    await send({"type": "http.response.body", "body": b"{}"})

async def serve():
    bound = socket.create_server(("127.0.0.1", 0), backlog=2048)
    print(bound.getsockname()[1], flush=True)
    config = uvicorn.Config(answer, log_config=None, access_log=False, lifespan="off", server_header=False)
    await uvicorn.Server(config).serve([bound])

asyncio.Runner(loop_factory=uvloop.new_event_loop).run(serve())
"""
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


async def _asked(port: int, process: psutil.Process, count: int) -> dict[str, float]:
    """Send creates, after some to warm up; the server's processor time is read from outside."""
    await _creates(port, count // 4)
    used = sum(process.cpu_times()[:2])
    began = time.perf_counter()
    await _creates(port, count)
    return {
        "per_second": count / (time.perf_counter() - began),
        "cpu_us": (sum(process.cpu_times()[:2]) - used) / count * 1e6,
    }


async def http(url: str, count: int) -> dict[str, float]:
    """Create over HTTP."""
    with serving(url) as (port, process):
        return await _asked(port, process, count)


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
            await _answer(reader, b"201")
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


async def _fill(app: Ferryman, count: int) -> None:
    async with app.database.session() as tx:
        # Without triggers: the guard lets nothing be born at its end.
        await tx.execute("set session_replication_role = replica")
        await tx.execute(FILL.replace("%s", str(count)))
        await tx.execute("reset session_replication_role")
        await tx.execute("vacuum analyze ferryman.tasks")


async def pages(url: str, count: int) -> dict[str, float]:
    """Ask for pages of the dashboard, one after the other, over a million tasks."""
    async with Ferryman(url) as app:
        await _fill(app, count)
    asked = {
        "overview": "/", "tasks": "/tasks", "failed": "/tasks?state=failed", "handler": "/tasks?name=name7",
        "queue": "/tasks?queue=queue3", "queues": "/queues", "schedules": "/schedules", "log": "/log",
        "JSON": "/v1/tasks?limit=50",
    }  # fmt: skip
    figures = {}
    with serving(url) as (port, _):
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        for name, path in asked.items():
            took = []
            for _ in range(VIEWS + 1):
                began = time.perf_counter()
                writer.write(f"GET {path} HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\n\r\n".encode())
                await _answer(reader, b"200")
                took.append((time.perf_counter() - began) * 1000)
            # The first is left out: templates are read for it.
            figures[f"{name} p50"] = statistics.median(took[1:])
            figures[f"{name} p95"] = statistics.quantiles(took[1:], n=20)[-1]
        writer.close()
    return figures


async def _answer(reader: asyncio.StreamReader, status: bytes) -> None:
    head = await reader.readuntil(b"\r\n\r\n")
    if not head.startswith(b"HTTP/1.1 " + status):
        raise RuntimeError(head.decode())
    await reader.readexactly(int(head.lower().partition(b"content-length: ")[2].partition(b"\r\n")[0]))


async def empty(_url: str, count: int) -> dict[str, float]:
    """Ask a server of the same kind that answers with nothing, and does nothing."""
    with running([sys.executable, "-c", EMPTY]) as (line, process):
        port = int(line)
        return await _asked(port, process, count)


async def lists(url: str, count: int) -> dict[str, float]:
    """Read pages of a list of a million tasks."""
    async with Ferryman(url) as app:
        await _fill(app, count)
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
    with running(command, **environ) as (line, process):
        yield int(json.loads(line)["url"].rpartition(":")[2]), process


@contextmanager
def running(command: Sequence[str], **environ: str) -> Iterator[tuple[bytes, psutil.Process]]:
    """Run a server until the block ends; give its first line."""
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, env=environ or None)
    try:
        assert process.stdout is not None
        yield process.stdout.readline(), psutil.Process(process.pid)
    finally:
        process.terminate()
        process.wait(30)


WORK = {
    "api": (api, CREATES),
    "http": (http, CREATES),
    "bulk": (bulk, CREATES),
    "streams": (streams, STREAMS),
    "empty": (empty, CREATES),
    "list": (lists, ROWS),
    "pages": (pages, ROWS),
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
            print(table(figures) if name == "pages" else line(name, figures), flush=True)


def line(name: str, figures: Mapping[str, float]) -> str:
    """Return the figures of a workload in a line."""
    return f"{name} " + "  ".join(f"{figure} {value:,.2f}" for figure, value in figures.items())


def table(figures: Mapping[str, float]) -> str:
    """Return the times of pages as a table, with how busy the machine was."""
    names = list(dict.fromkeys(each.rpartition(" ")[0] for each in figures))
    rows = [f"| {name} | {figures[f'{name} p50']:,.1f} | {figures[f'{name} p95']:,.1f} |" for name in names]
    return "\n".join(["| page | p50 ms | p95 ms |", "|---|---|---|", *rows, f"load {os.getloadavg()[0]:.1f}"])


if __name__ == "__main__":
    main()
