"""Agents' turns beside plain tasks, in one run (P10): ours only, for no peer has them.

    python -m bench.turns               # about a minute
    python -m bench.turns --turns 2000

Each figure is taken in a process of its own, on a fresh database of one server that is started for the run. Machines are noisy:
the drain of plain tasks by one worker stands beside the drain of turns, so that their ratio says what a turn costs.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import psutil

from bench.server import Server
from ferryman import Ferryman, Turn

DRAIN, LATENCY, CROWD = 3000, 200, 10_000
SET = 500


def make(url: str) -> Ferryman:
    """Return an app with a task, agents and tools that do nothing."""
    app = Ferryman(url)

    @app.task
    async def nothing(number: int) -> None: ...

    @app.tool
    async def answer() -> int:
        return 42

    @app.tool(external=True, suspend_timeout_seconds=3000)
    def never() -> None: ...

    @app.agent
    async def plain(turn: Turn) -> str:
        return "done"

    @app.agent
    async def caller(turn: Turn) -> list[float]:
        took = []
        for _ in range(turn.instruction):
            begun = time.perf_counter()
            await turn.call_tool("answer")
            took.append(time.perf_counter() - begun)
        return took

    @app.agent
    async def waiter(turn: Turn) -> None:
        await turn.call_tool("never")

    return app


async def people(app: Ferryman, profile: str, count: int) -> list[str]:
    """Make agents."""
    names = [f"{profile}-{n}" for n in range(count)]
    for start in range(0, count, SET):
        await asyncio.gather(*(app.agents.create(name, profile=profile) for name in names[start : start + SET]))
    return names


async def ask(app: Ferryman, names: list[str], instruction: Any = "go") -> None:
    """Ask each for a turn."""
    for start in range(0, len(names), SET):
        await asyncio.gather(*(app.agents.send(name, instruction) for name in names[start : start + SET]))


async def until(app: Ferryman, sql: str, seconds: float = 300.0) -> None:
    """Wait until a count is zero, looking ten times as seldom as a look takes."""
    async with asyncio.timeout(seconds):
        while True:
            begun = time.monotonic()
            async with app.database.session() as tx:
                [row] = await tx.fetch(sql)
            if row[0] == 0:
                return
            await asyncio.sleep(10 * (time.monotonic() - begun))


class Meter:
    """Time and CPU of a drain: what the worker and the server used for each does not depend on who else is there."""

    def __init__(self, server: psutil.Process, count: int) -> None:
        self._server = server
        self._count = count
        self._begun, self._used = time.perf_counter(), time.process_time()
        self._stored = self._store()

    @classmethod
    async def start(cls, app: Ferryman, count: int) -> Meter:
        async with app.database.session() as tx:
            [row] = await tx.fetch("select pg_read_file('postmaster.pid')")
        return cls(psutil.Process(int(row[0].split()[0])), count)

    def _store(self) -> float:
        return sum(sum(each.cpu_times()[:2]) for each in self._server.children())

    def figures(self, what: str) -> dict[str, float]:
        took, used, stored = (
            time.perf_counter() - self._begun,
            time.process_time() - self._used,
            self._store() - self._stored,
        )
        return {
            f"{what}s_per_second": self._count / took,
            f"worker_ms_per_{what}": 1000 * used / self._count,
            f"store_ms_per_{what}": 1000 * stored / self._count,
        }


async def tasks(url: str, count: int) -> dict[str, float]:
    """Plain tasks that are there already, one worker."""
    async with make(url) as app:
        await app.tasks.create_many("nothing", [{"number": n} for n in range(count)])
        await analyse(app)
        meter = await Meter.start(app, count)
        async with app.worker():
            await until(app, "select count(*) from ferryman.tasks where finished_at is null")
            return meter.figures("task")


async def turns(url: str, count: int) -> dict[str, float]:
    """Turns without tools that are there already, one agent each, one worker."""
    async with make(url) as app:
        await ask(app, await people(app, "plain", count))
        await analyse(app)
        meter = await Meter.start(app, count)
        async with app.worker():
            await until(app, "select count(*) from ferryman.agent_inbox where archived_at is null")
            return meter.figures("turn")


async def latency(url: str, count: int) -> dict[str, float]:
    """One turn that calls a tool again and again: from the call to its result, suspended and resumed each time."""
    async with make(url) as app, app.worker():
        await app.agents.create("caller-1", profile="caller")
        await (await app.agents.send("caller-1", 20)).result(timeout=60)
        count = min(count, 190)
        alone = []
        for number in range(50):
            begun = time.perf_counter()
            await (await app.tasks.create("nothing", number=number)).result()
            alone.append(time.perf_counter() - begun)
        meter = await Meter.start(app, count)
        took = sorted(await (await app.agents.send("caller-1", count)).result(timeout=300))
        figures = {"resume_p50_ms": 1000 * statistics.median(took), "resume_p99_ms": 1000 * took[int(0.99 * len(took))]}
        return figures | meter.figures("call") | {"task_p50_ms": 1000 * statistics.median(alone)}


async def crowd(url: str, count: int) -> dict[str, float]:
    """Many turns that wait for somebody outside: what they add to the worker's memory."""
    async with make(url) as app:
        names = await people(app, "waiter", count + SET)
        await ask(app, names[:SET])
        async with app.worker():
            waiting = "select count(*) from ferryman.agent_inbox where archived_at is null and id = agent_turn_id"
            suspended = (
                f"select ({waiting}) - (select count(*) from ferryman.agent_state_head where status = 'suspended')"
            )
            await until(app, suspended)
            before = psutil.Process().memory_info().rss
            await ask(app, names[SET:])
            await until(app, suspended)
            return {"crowd_mb": (psutil.Process().memory_info().rss - before) / 1e6}


async def analyse(app: Ferryman) -> None:
    """Let the planner know what is there."""
    async with app.database.session() as tx:
        await tx.execute("analyze")


WORK = {"tasks": (tasks, DRAIN), "turns": (turns, DRAIN), "latency": (latency, LATENCY), "crowd": (crowd, CROWD)}


def main() -> None:
    """Run every workload in a process of its own, and print what came of it."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0] if __doc__ else None)
    parser.add_argument("--work", default=",".join(WORK))
    parser.add_argument("--turns", type=int, default=None, help="how many, instead of each workload's own number")
    parser.add_argument("--one", nargs=2, metavar=("WORK", "URL"), help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.one:
        work, number = WORK[given.one[0]]
        print(json.dumps(asyncio.run(work(given.one[1], given.turns or number))))
        return
    with tempfile.TemporaryDirectory(prefix="fm-") as place, Server(Path(place) / "data") as server:
        for name in given.work.split(","):
            server.admin.execute(f"create database {name}")
            asyncio.run(Ferryman(server.url(name)).migrate())
            more = [] if given.turns is None else ["--turns", str(given.turns)]
            told = subprocess.run(
                [sys.executable, "-m", "bench.turns", *more, "--one", name, server.url(name)],
                check=True, stdout=subprocess.PIPE, env=os.environ,
            )  # fmt: skip
            figures = json.loads(told.stdout)
            print("  ".join(f"{figure} {value:,.2f}" for figure, value in figures.items()), flush=True)


if __name__ == "__main__":
    main()
