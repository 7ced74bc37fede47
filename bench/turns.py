"""Agents' turns beside plain tasks, in one run (P10): ours only, for no peer has them.

Each figure is taken in a process of its own, on a fresh database: `python -m bench.turns WORK URL --count N`, which
`python -m bench.run --work turns,resume,crowd` calls. The floor of a turn is a plain task: per move that is written to the log,
so that what a turn has more to keep is not held against it, and how much it has to keep is told.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import statistics
import time
from pathlib import Path
from typing import Any

import psutil
import uvloop

from ferryman import Ferryman, Turn

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
    """Time, CPU and moves of a drain: what worker and server used for each does not depend on who else is there.

    The memory is what the process had at most since its start, as one that asks and works.
    """

    def __init__(self, app: Ferryman, server: psutil.Process, moves: int) -> None:
        self._app = app
        self._server = server
        self._moves = moves
        self._begun, self._used = time.perf_counter(), time.process_time()
        self._stored = self._store()

    @classmethod
    async def start(cls, app: Ferryman) -> Meter:
        async with app.database.session() as tx:
            [row] = await tx.fetch("select pg_read_file('postmaster.pid')")
        return cls(app, psutil.Process(int(row[0].split()[0])), await moves(app))

    def _store(self) -> float:
        return sum(sum(each.cpu_times()[:2]) for each in self._server.children())

    async def figures(self, count: int) -> dict[str, float]:
        took = time.perf_counter() - self._begun
        used, stored = time.process_time() - self._used, self._store() - self._stored
        made = await moves(self._app) - self._moves
        return {
            "rate": count / took,
            "moves": made / count,
            "moves_rate": made / took,
            "cpu_worker": used / count * 10_000,
            "cpu_store": stored / count * 10_000,
            "memory": peak(),
        }


def peak() -> float:
    """Megabytes that this process had at most; what `getrusage` tells also holds those of the process that started it."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("VmHWM:")) / 1024


async def moves(app: Ferryman) -> int:
    """How many moves the log holds."""
    async with app.database.session() as tx:
        [row] = await tx.fetch("select count(*) from ferryman.events")
    return int(row[0])


async def warm(app: Ferryman) -> None:
    """Do a task and a turn, so that what is loaded for the first of each is not in the time."""
    async with app.worker():
        await (await app.tasks.create("nothing", number=0)).result()
        await app.agents.create("warm", profile="plain")
        await (await app.agents.send("warm", "go")).result(timeout=60)


async def tasks(url: str, count: int) -> dict[str, float]:
    """Plain tasks that are there already, one worker."""
    async with make(url) as app:
        await warm(app)
        await app.tasks.create_many("nothing", [{"number": n} for n in range(count)])
        await analyse(app)
        meter = await Meter.start(app)
        async with app.worker():
            await until(app, "select count(*) from ferryman.tasks where finished_at is null")
            return await meter.figures(count)


async def turns(url: str, count: int) -> dict[str, float]:
    """Turns without tools that are there already, one agent each, one worker."""
    async with make(url) as app:
        await warm(app)
        await ask(app, await people(app, "plain", count))
        await analyse(app)
        meter = await Meter.start(app)
        async with app.worker():
            await until(app, "select count(*) from ferryman.agent_inbox where archived_at is null")
            return await meter.figures(count)


async def resume(url: str, count: int) -> dict[str, float]:
    """One turn that calls a tool again and again: from the call to its result, suspended and resumed each time."""
    async with make(url) as app, app.worker():
        await app.agents.create("caller-1", profile="caller")
        await (await app.agents.send("caller-1", 20)).result(timeout=60)
        meter = await Meter.start(app)
        took = await (await app.agents.send("caller-1", count)).result(timeout=300)
        return middle(took) | await meter.figures(count)


async def lone(url: str, count: int) -> dict[str, float]:
    """One plain task after the other: from its create to its result."""
    async with make(url) as app, app.worker():
        for number in range(20):
            await (await app.tasks.create("nothing", number=number)).result()
        meter = await Meter.start(app)
        took = []
        for number in range(count):
            begun = time.perf_counter()
            await (await app.tasks.create("nothing", number=number)).result()
            took.append(time.perf_counter() - begun)
        return middle(took) | await meter.figures(count)


def middle(took: list[float]) -> dict[str, float]:
    ordered = sorted(took)
    return {"p50": 1000 * statistics.median(ordered), "p99": 1000 * ordered[int(0.99 * len(ordered))]}


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
            return {"memory": (psutil.Process().memory_info().rss - before) / 1e6}


async def analyse(app: Ferryman) -> None:
    """Let the planner know what is there."""
    async with app.database.session() as tx:
        await tx.execute("analyze")


WORK = {"tasks": tasks, "turns": turns, "resume": resume, "lone": lone, "crowd": crowd}


def main() -> None:
    """Do one, and print what came of it."""
    line = argparse.ArgumentParser(prog="bench.turns", description="Measure turns, or plain tasks beside them.")
    line.add_argument("work", choices=WORK)
    line.add_argument("url")
    line.add_argument("--count", type=int, required=True)
    asked = line.parse_args()
    print(json.dumps(uvloop.run(WORK[asked.work](asked.url, asked.count))))


if __name__ == "__main__":
    main()
