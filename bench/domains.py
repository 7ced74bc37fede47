"""The other domains, each beside its floor: what a person would do with plain tasks, or by hand, for the same end.

A workload has an entry for `ferryman` and, where there is one, for `floor`: lines of one round, like those of peers.
"""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable, Mapping

from bench import ingest, venvs
from bench.measure import DRAIN_WITHIN, Figures, await_ends
from bench.stage import Failed, Stage

IN_FLIGHT = 200
TASKS_OF_A_COMMAND = 4
DONE_BY_HAND = "select count(*) from ferryman.tasks where state = 'succeeded'"


def alone(module: str, work: str, count: int, *, least: int = 1) -> Callable[[Stage], Figures]:
    """A measurement in a process of its own, on a fresh database."""

    def measure(stage: Stage) -> Figures:
        stage.fresh()
        size = max(least, int(count * stage.scale))
        done = subprocess.run(
            [stage.python, "-m", module, work, stage.server.url(stage.database), "--count", str(size)],
            env=stage.environment(stage.database, 0),
            cwd=venvs.ROOT,
            check=False,
            capture_output=True,
            text=True,
            timeout=300,
        )
        if done.returncode:
            raise Failed(f"{module} {work}: {done.stderr[-2000:]}")
        return dict(json.loads(done.stdout.splitlines()[-1]))

    return measure


def commands(stage: Stage) -> Figures:
    """Commands with three capabilities each, sent while a worker runs: from the first mapping until every one is completed."""
    return sent(stage, "commands", done=stage.card.done_commands, each=1)


def by_hand(stage: Stage) -> Figures:
    """The same number of plain tasks: one that creates three more."""
    return sent(stage, "by_hand", done=DONE_BY_HAND, each=TASKS_OF_A_COMMAND)


def sent(stage: Stage, op: str, *, done: str, each: int) -> Figures:
    stage.fresh()
    count = stage.count("commands")
    with stage.crew(1) as crew:
        before, cpu, store = stage.store.counters(stage.database), crew.cpu(), stage.store.cpu()
        begun = stage.marks.go()
        took_to_send = stage.client(op, count, flight=IN_FLIGHT)["seconds"]
        ended = await_ends(stage, count * each, begun + DRAIN_WITHIN, done_by=done)
        # The client's own start is not the product's: from the first handler that began.
        took = ended - min(stage.marks.started(count))
        cpu, store = crew.cpu() - cpu, stage.store.cpu() - store
        spent = stage.store.counters(stage.database) - before
        return {
            "rate": count / took,
            "sent": count / took_to_send,
            "cpu_worker": cpu / count * 10_000,
            "cpu_store": store / count * 10_000,
            "wal": spent.wal / count,
            "memory": crew.memory("VmHWM"),
        }


DOMAINS: Mapping[str, Mapping[str, Callable[[Stage], Figures]]] = {
    "turns": {"ferryman": alone("bench.turns", "turns", 3_000), "floor": alone("bench.turns", "tasks", 10_000)},
    "resume": {
        "ferryman": alone("bench.turns", "resume", 190, least=50),
        "floor": alone("bench.turns", "lone", 190, least=50),
    },
    "crowd": {"ferryman": alone("bench.turns", "crowd", 10_000)},
    "batches": {
        "ferryman": alone("bench.batches", "fork", 20, least=5),
        "floor": alone("bench.batches", "tasks", 20, least=5),
    },
    "shapes": {"ferryman": alone("bench.batches", "shapes", 1_000, least=100)},
    "commands": {"ferryman": commands, "floor": by_hand},
    "ingest": {"ferryman": ingest.whole, "floor": ingest.bare, ingest.FOUR: ingest.bare_four},
    "ingest2": {"ferryman": ingest.two},
    "gate": {"ferryman": ingest.gate},
}
