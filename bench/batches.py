"""fork_join of agents' turns (P9): from the fork of children that do nothing to the join, with one worker.

`python -m bench.batches WORK URL --count N`, called by `python -m bench.run --work batches`. `fork` forks 100 turns: inside is
a turn that forks again and again, so each round is a suspension, a dispatch, the children's turns and a resumption; outside is
`app.fork_join`. The floor, `tasks`, creates 100 plain tasks and awaits their results. `shapes` forks 8 turns three times, one
batch at a time; 16 turns five times, two batches at a time; and a thousand batches of two turns, once with a few forks at a
time, and once as a program would write it: a thousand `app.fork_join` awaited together.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import statistics
import time
from typing import Any

import uvloop

from bench.turns import Meter
from ferryman import Ferryman, Turn

CHILDREN, WARM = 100, 3
SHAPES = {"small": (8, 3, 1), "middle": (16, 5, 2)}  # turns in a batch, rounds, batches at a time
CROWD_CHILDREN, FORKS = 2, 8
LOOK_SECONDS = 0.05


def make(url: str) -> Ferryman:
    """Return an app with a child that does nothing, and a parent that forks."""
    app = Ferryman(url)

    @app.task
    async def nothing(number: int) -> None: ...

    @app.agent
    async def child(turn: Turn) -> str:
        return "done"

    @app.agent
    async def parent(turn: Turn) -> list[float]:
        took = []
        for _ in range(turn.instruction):
            begun = time.perf_counter()
            result = await turn.fork_join(orders())
            took.append(time.perf_counter() - begun)
            assert result["status"] == "success", result["status"]
        return took

    return app


def orders(children: int = CHILDREN) -> list[dict[str, Any]]:
    """Return what to fork."""
    return [{"target_strategy": "new", "target_ref": "child", "instruction": str(n)} for n in range(children)]


async def fork(url: str, count: int) -> dict[str, float]:
    """Fork turns and join, again and again."""
    async with make(url) as app, app.worker():
        for _ in range(WARM):
            await app.fork_join(orders())
        await analyse(app)
        outside = []
        for _ in range(count):
            begun = time.perf_counter()
            await app.fork_join(orders())
            outside.append(time.perf_counter() - begun)
        await app.agents.create("parent-1", profile="parent")
        meter = await Meter.start(app)
        turn = await app.agents.send("parent-1", count)
        inside = await turn.result(timeout=300)
        spent = await meter.figures(count)
    return spent | {
        "p50": 1000 * statistics.median(inside),
        "best": 1000 * min(inside),
        "outside_p50": 1000 * statistics.median(outside),
    }


async def tasks(url: str, count: int) -> dict[str, float]:
    """Create tasks and await them, again and again."""
    async with make(url) as app, app.worker():
        took = []
        for number in range(WARM + count):
            if number == WARM:
                await analyse(app)
                meter = await Meter.start(app)
            begun = time.perf_counter()
            handles = await app.tasks.create_many("nothing", [{"number": n} for n in range(CHILDREN)])
            await asyncio.gather(*(handle.result() for handle in handles))
            took.append(time.perf_counter() - begun)
        spent = await meter.figures(count)
    return spent | {"p50": 1000 * statistics.median(took[WARM:]), "best": 1000 * min(took[WARM:])}


async def shapes(url: str, count: int) -> dict[str, float]:
    """Fork batches of several shapes; `count` of a thousand at once."""
    found = {}
    async with make(url) as app, app.worker():
        for _ in range(WARM):
            await app.fork_join(orders())
        await analyse(app)
        for name, (children, rounds, beside) in SHAPES.items():
            took = []
            for _ in range(rounds):
                took += await asyncio.gather(*(joined(app, children) for _ in range(beside)))
            found[name] = 1000 * statistics.median(took)
        found["crowd_rate"] = count / await crowd(app, count)
        begun = time.perf_counter()
        took = await asyncio.gather(*(joined(app, CROWD_CHILDREN) for _ in range(count)))
        found["together_rate"] = count / (time.perf_counter() - begun)
        found["together_first"], found["together_p50"] = 1000 * min(took), 1000 * statistics.median(took)
    return found


async def crowd(app: Ferryman, count: int) -> float:
    """Fork many small batches, a few at a time; return how long it takes until all have been joined."""
    line = asyncio.Semaphore(FORKS)

    async def fork_one() -> None:
        async with line:
            await app.batches.fork(orders(CROWD_CHILDREN))

    begun = time.perf_counter()
    await asyncio.gather(*(fork_one() for _ in range(count)))
    while await running(app):  # noqa: ASYNC110 - what is waited for is in the database
        await asyncio.sleep(LOOK_SECONDS)
    return time.perf_counter() - begun


async def running(app: Ferryman) -> bool:
    """Say whether a batch has not been joined."""
    async with app.database.session() as tx:
        return bool(await tx.fetch("select from ferryman.pmo_batches where finished_at is null limit 1"))


async def joined(app: Ferryman, children: int) -> float:
    """Fork and join once; return how long that took."""
    begun = time.perf_counter()
    result = await app.fork_join(orders(children))
    assert result["status"] == "success", result["status"]
    return time.perf_counter() - begun


async def analyse(app: Ferryman) -> None:
    """Let the planner know what is there."""
    async with app.database.session() as tx:
        await tx.execute("analyze")


WORK = {"fork": fork, "shapes": shapes, "tasks": tasks}


def main() -> None:
    """Do one, and print what came of it."""
    line = argparse.ArgumentParser(prog="bench.batches", description="Measure forks and joins.")
    line.add_argument("work", choices=WORK)
    line.add_argument("url")
    line.add_argument("--count", type=int, required=True)
    asked = line.parse_args()
    print(json.dumps(uvloop.run(WORK[asked.work](asked.url, asked.count))))


if __name__ == "__main__":
    main()
