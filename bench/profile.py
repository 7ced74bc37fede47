"""Where the Python time of each domain goes, by samples: `python -m bench.profile` (a minute or two).

Each work is done by a process of its own, on a PostgreSQL as the benchmark's, until it is ended; meanwhile py-spy, installed by
name into an environment of its own, looks 250 times a second at what its main thread does. What waits is not counted. A sample
belongs to the innermost frame that one of the parts below claims: the time of a C function (encoding, sockets) is that of
the Python that called it. Shares, and no measurement against a bar: the profiler itself takes some of the machine.
"""

from __future__ import annotations

import argparse
import asyncio
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable, Mapping
from itertools import count
from pathlib import Path
from typing import Any

import uvloop

from bench import batches, ingest, report, turns, venvs
from bench.peers.ferryman import CONCURRENCY
from bench.peers.ferryman import Ferryman as Ours
from bench.protocol import IN_FLIGHT, Marks
from bench.server import Server
from ferryman import Ferryman

SECONDS, RATE = 6, 250
DATABASE = "profiled"
READY = "ready"

# The innermost frame decides; the first of these that stands in its path names it.
PARTS: Mapping[str, str] = {
    "/asyncpg/": "driver",
    "/asyncio/": "event loop",
    "/uvloop/": "event loop",
    "/selectors.py": "event loop",
    "/aiohttp/": "HTTP client",
    "/ferryman/kernel/pool/": "kernel: connections, statements",
    "/ferryman/kernel/db.py": "kernel: connections, statements",
    "/ferryman/kernel/payload.py": "payloads: written, read, checked",
    "/ferryman/kernel/codec.py": "payloads: written, read, checked",
    "/pydantic": "payloads: written, read, checked",
    "/ferryman/tasks/work/handlers.py": "payloads: written, read, checked",
    "/ferryman/kernel/doorbell": "kernel: doorbell",
    "/ferryman/kernel/ids.py": "ids",
    "/uuid": "ids",
    "/ferryman/kernel/telemetry.py": "metrics",
    "/prometheus_client/": "metrics",
    "/ferryman/kernel/watchdog": "watchdog",
    "/ferryman/kernel/": "kernel: pump, gathering, the rest",
    "/ferryman/tasks/": "tasks",
    "/ferryman/agents/": "agents",
    "/ferryman/batches/": "batches",
    "/ferryman/commands/": "commands",
    "/ferryman/ingest/": "ingestion",
    "/ferryman/app/": "doors and wiring",
}
REST = "the rest"


async def create_one_by_one(url: str) -> None:
    async with told(url) as app:
        say_ready()
        for job in count():
            await app.tasks.create("noop", {"job": job})


async def create_in_flight(url: str) -> None:
    async def loop(app: Ferryman) -> None:
        for job in count():
            await app.tasks.create("noop", {"job": job})

    async with told(url) as app:
        say_ready()
        await asyncio.gather(*(loop(app) for _ in range(IN_FLIGHT)))


async def drain(url: str) -> None:
    async with told(url) as app:
        await app.tasks.create_many("noop", [{"job": 0}] * 200_000)
        await work(app)


async def steps(url: str) -> None:
    async with told(url) as app:
        await app.tasks.create_many("workflow", [{"job": 0}] * 30_000)
        await work(app)


async def take_turns(url: str) -> None:
    async with turns.make(url) as app:
        names = await turns.people(app, "plain", 5_000)
        for _ in range(6):  # one after the other of each agent
            await turns.ask(app, names)
        await work(app)


async def fork_and_join(url: str) -> None:
    async with batches.make(url) as app, app.worker():
        say_ready()
        while True:
            await app.fork_join(batches.orders())


async def command(url: str) -> None:
    async with told(url) as app:
        some = [{"job": job} for job in range(10_000)]
        for first in range(0, len(some), 500):
            sends = (
                app.commands.send("Character.Request", each, session_id="novel") for each in some[first : first + 500]
            )
            await asyncio.gather(*sends)
        await work(app)


async def ingest_pages(url: str) -> None:
    with ingest.source() as there:
        async with ingest.application(there, url) as app, app.worker():
            say_ready()
            for first in count(1, 2 * ingest.PAGES * 100):
                await ingest.harvest(app, first=first, pages=ingest.PAGES, slices=ingest.SLICES)


WORKS: Mapping[str, tuple[str, Callable[[str], Awaitable[None]]]] = {
    "one": ("create one by one", create_one_by_one),
    "flight": ("create, 50 in flight", create_in_flight),
    "drain": ("drain", drain),
    "steps": ("10-step workflows", steps),
    "turns": ("turns", take_turns),
    "batches": ("fork 100 turns and join", fork_and_join),
    "commands": ("commands", command),
    "ingest": ("ingestion", ingest_pages),
}


def told(url: str) -> Any:
    """The app of the benchmark, whose handlers mark their start in a file of this process's own."""
    with tempfile.TemporaryDirectory(prefix="fm-profile-") as scratch:
        return Ours(url, Marks(Path(scratch) / "marks")).make()  # what is mapped stays when its name is gone


async def work(app: Ferryman) -> None:
    say_ready()
    await app.work(concurrency=CONCURRENCY)


def say_ready() -> None:
    print(READY, flush=True)


def shares(stacks: Iterable[str]) -> Counter[str]:
    """Count samples by part, of lines that end with how often that stack was seen."""
    found: Counter[str] = Counter()
    for line in stacks:
        stack, _, times = line.rpartition(" ")
        frames = reversed(stack.split(";"))
        found[next((part for frame in frames if (part := claimed(frame))), REST)] += int(times)
    return found


def claimed(frame: str) -> str | None:
    return next((part for path, part in PARTS.items() if path in frame), None)


def sample(name: str, url: str, scratch: Path) -> Counter[str]:
    """Let a process do one kind of work, and look at it for a while."""
    spy = venvs.made("py-spy", ("py-spy",)) / "py-spy"
    raw = scratch / f"{name}.raw"
    command = [sys.executable, "-m", "bench.profile", "--play", name, url]
    with subprocess.Popen(command, cwd=venvs.ROOT, stdout=subprocess.PIPE, text=True) as player:
        try:
            assert player.stdout is not None
            if player.stdout.readline().strip() != READY:
                raise RuntimeError(f"{name} did not begin")
            watch: list[str | Path] = [
                spy,
                "record",
                "--full-filenames",
                "--format",
                "raw",
                "--output",
                raw,
                "--pid",
                str(player.pid),
            ]
            venvs.said([*watch, "--duration", str(SECONDS), "--rate", str(RATE)])
        finally:
            player.kill()
    return shares(raw.read_text().splitlines())


def table(found: Mapping[str, Counter[str]]) -> str:
    """A column for each work, a line for each part that some work has a hundredth of, the largest first."""
    totals = {name: sum(counts.values()) or 1 for name, counts in found.items()}
    parts = Counter({part: sum(found[name][part] / totals[name] for name in found) for part in {*PARTS.values(), REST}})
    rows = [["where", *(WORKS[name][0] for name in found)]]
    for part, _ in parts.most_common():
        percents = [round(100 * found[name][part] / totals[name]) for name in found]
        if any(percents):
            rows.append([part, *(f"{percent} %" if percent else "-" for percent in percents)])
    return report.table(rows)


def main() -> None:
    line = argparse.ArgumentParser(
        prog="bench.profile", description="Sample where the Python time of each domain goes."
    )
    line.add_argument("--work", type=lambda text: text.split(","), default=list(WORKS), help=",".join(WORKS))
    line.add_argument("--play", nargs=2, metavar=("WORK", "URL"), help=argparse.SUPPRESS)
    asked = line.parse_args()
    if asked.play:
        uvloop.run(WORKS[asked.play[0]][1](asked.play[1]))  # type: ignore[arg-type]
        return
    found: dict[str, Counter[str]] = {}
    with tempfile.TemporaryDirectory(prefix="fm-profile-") as scratch, Server(venvs.CACHE / "profile") as server:
        for name in asked.work:
            server.create(DATABASE)
            asyncio.run(Ferryman(server.url(DATABASE)).migrate())
            if name == "ingest":
                with server.connect(DATABASE) as connection:
                    connection.execute(ingest.TABLE.format("ours").encode())
            found[name] = sample(name, server.url(DATABASE), Path(scratch))
            print(f"{name}: {sum(found[name].values())} samples", flush=True)
            server.drop(DATABASE)
    print(f"\n{table(found)}")


if __name__ == "__main__":
    main()
