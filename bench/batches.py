"""fork_join of agents' turns (P9): from the fork of children that do nothing to the join, with one worker.

    python -m bench.batches                 # under a minute
    python -m bench.batches --children 256 --rounds 10

Ours only: no peer has agents. The bar is a peer's group of as many plain functions. `inside` is a turn that forks again and
again, so each round is a suspension, a dispatch, the children's turns and a resumption; `outside` is `app.fork_join`.
"""

from __future__ import annotations

import argparse
import asyncio
import statistics
import tempfile
import time
from pathlib import Path
from typing import Any

from bench.server import Server
from ferryman import Ferryman, Turn

CHILDREN, ROUNDS, WARM = 100, 20, 3


def make(url: str) -> Ferryman:
    """Return an app with a child that does nothing, and a parent that forks."""
    app = Ferryman(url)

    @app.agent
    async def child(turn: Turn) -> str:
        return "done"

    @app.agent
    async def parent(turn: Turn) -> list[float]:
        took = []
        for _ in range(turn.instruction["rounds"]):
            begun = time.perf_counter()
            result = await turn.fork_join(tasks(turn.instruction["children"]))
            took.append(time.perf_counter() - begun)
            assert result["status"] == "success", result["status"]
        return took

    return app


def tasks(count: int) -> list[dict[str, Any]]:
    """Return what to fork."""
    return [{"target_strategy": "new", "target_ref": "child", "instruction": str(n)} for n in range(count)]


async def measure(url: str, children: int, rounds: int) -> dict[str, float]:
    """Fork and join, again and again."""
    async with make(url) as app, app.worker():
        for _ in range(WARM):
            await app.fork_join(tasks(children))
        async with app.database.session() as tx:
            await tx.execute("analyze")
        outside = []
        for _ in range(rounds):
            begun = time.perf_counter()
            await app.fork_join(tasks(children))
            outside.append(time.perf_counter() - begun)
        await app.agents.create("parent-1", profile="parent")
        turn = await app.agents.send("parent-1", {"rounds": rounds, "children": children})
        inside = await turn.result(timeout=300)
    return {
        "inside_p50_ms": 1000 * statistics.median(inside),
        "inside_best_ms": 1000 * min(inside),
        "outside_p50_ms": 1000 * statistics.median(outside),
        "outside_best_ms": 1000 * min(outside),
    }


def main() -> None:
    """Measure on a fresh database of a server that is started for the run."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0] if __doc__ else None)
    parser.add_argument("--children", type=int, default=CHILDREN)
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="fm-") as place, Server(Path(place) / "data") as server:
        server.admin.execute("create database batches")
        asyncio.run(Ferryman(server.url("batches")).migrate())
        figures = asyncio.run(measure(server.url("batches"), given.children, given.rounds))
    print("  ".join(f"{figure} {value:,.1f}" for figure, value in figures.items()))


if __name__ == "__main__":
    main()
