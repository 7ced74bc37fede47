"""What a task costs when something grows: the backlog, the history, queues, keys, tenants, workers, connections.

Each variable is measured at a few sizes, each point in a fresh database, in a window of time in which the workers are warm and
have enough to do: from the handler of one task to that of the 50,000th after it. A cost that grows with its variable shows as a
curve that bends upward: of the CPU time of workers and store for a task, and of the time by the clock, which also holds what
is waited for. Only among workers is the clock not judged: each more of them has a smaller share of the same cores, and what
that gives is the machine's.

Connections are those of idle workers: they listen to what a worker listens to, say that they are there, and are read at once,
by one thread of the process that measures. Tasks are created all the while there, so that they are rung for.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Mapping, Sequence

from bench.deep import begun
from bench.measure import Figures
from bench.peers.ferryman import CHANNELS, PRESENCE
from bench.protocol import HALT
from bench.stage import Crew, Failed, Stage

SKIP, WINDOW, SPARE = 1_500, 50_000, 2_500
WITHIN = 90.0
SLOTS_OF_A_KEY = 25
# Of whom the time by the clock says nothing: they share out the cores.
SHARING = frozenset({"workers"})

SIZES: Mapping[str, Sequence[int]] = {
    "backlog": (60_000, 250_000, 1_000_000, 10_000_000),
    "history": (0, 10_000, 100_000, 1_000_000, 10_000_000),
    "queues": (1, 10, 100, 300, 1_000),
    "keys": (10, 100, 1_000, 10_000),
    "tenants": (1, 10, 100, 1_000, 5_000),
    "workers": (1, 2, 4, 8),
    "connections": (0, 10, 30, 60),
}
QUICK_SIZES: Mapping[str, Sequence[int]] = {
    "backlog": (20_000, 50_000, 100_000),
    "history": (0, 10_000, 100_000),
    "queues": (1, 10, 100),
    "keys": (10, 100, 1_000),
    "tenants": (1, 10, 100),
    "workers": (1, 2, 4),
    "connections": (0, 10, 30),
}
# What is counted on the axis of a figure.
UNITS: Mapping[str, str] = {
    "backlog": "ready tasks in the table",
    "history": "finished tasks in the table",
    "queues": "queues with work",
    "keys": f"keys with limits, of {SLOTS_OF_A_KEY} slots each",
    "tenants": "tenants with work",
    "workers": "worker processes, on the cores of one machine",
    "connections": "connections that listen as idle workers do",
}


def sizes(variable: str, *, quick: bool) -> Sequence[int]:
    return (QUICK_SIZES if quick else SIZES)[variable]


def point(stage: Stage, variable: str, size: int) -> Figures:
    """Measure one variable at one size."""
    with contextlib.ExitStack() as ends:
        PREPARE[variable](stage, size, ends)
        stage.store.settle(stage.database)
        crew = ends.enter_context(stage.crew(size if variable == "workers" else 1))
        # Each worker's first sets are its warm-up.
        warm = _scaled(stage, SKIP) * (size if variable == "workers" else 1)
        window = _scaled(stage, WINDOW)
        if variable == "connections":
            return watch_rung(stage, crew, size, skip=warm, count=window)
        stage.marks.go()
        return watch(stage, crew, skip=warm, count=window)


def _scaled(stage: Stage, count: int) -> int:
    return max(500, int(count * stage.scale))


def jobs(stage: Stage) -> int:
    """So many that the workers have enough until the window closes."""
    return _scaled(stage, SKIP) + _scaled(stage, WINDOW) + SPARE


def backlog(stage: Stage, size: int, ends: contextlib.ExitStack) -> None:
    ends.enter_context(begun(stage, "ready", size))


def history(stage: Stage, size: int, ends: contextlib.ExitStack) -> None:
    ends.enter_context(begun(stage, "finished", size))
    stage.client("fill", jobs(stage))


def queues(stage: Stage, size: int, ends: contextlib.ExitStack) -> None:
    stage.fresh()
    stage.queues = size
    ends.callback(setattr, stage, "queues", 1)
    stage.client("spread", jobs(stage))


def tenants(stage: Stage, size: int, _: contextlib.ExitStack) -> None:
    stage.fresh()
    stage.client("spread", jobs(stage), tenants=size)


def keys(stage: Stage, size: int, _: contextlib.ExitStack) -> None:
    stage.fresh()
    stage.client("keyed", jobs(stage), keys=size, slots=SLOTS_OF_A_KEY)


def workers(stage: Stage, size: int, _: contextlib.ExitStack) -> None:
    stage.fresh()
    stage.client("fill", jobs(stage) + (_scaled(stage, SKIP) + SPARE) * size)


def connections(stage: Stage, _size: int, _: contextlib.ExitStack) -> None:
    stage.fresh()


PREPARE: Mapping[str, Callable[[Stage, int, contextlib.ExitStack], None]] = {
    "backlog": backlog,
    "history": history,
    "queues": queues,
    "keys": keys,
    "tenants": tenants,
    "workers": workers,
    "connections": connections,
}


def watch(stage: Stage, crew: Crew, *, skip: int, count: int) -> Figures:
    """Rate and CPU between two tasks of a drain that is under way."""
    until = time.monotonic() + WITHIN
    first = _reach(stage, crew, skip, until)
    begun, worker, store = time.monotonic(), crew.run_time(), stage.store.cpu()
    last = _reach(stage, crew, first + count, until)
    took, worker, store = time.monotonic() - begun, crew.run_time() - worker, stage.store.cpu() - store
    done = last - first
    return {
        "rate": done / took,
        "cpu_worker": 1e6 * worker / done,
        "cpu_store": 1e6 * store / done,
        "cpu": 1e6 * (worker + store) / done,
    }


def watch_rung(stage: Stage, crew: Crew, ears: int, *, skip: int, count: int) -> Figures:
    """The same while tasks are created and so many connections are rung for them; what creates cost the store is in it."""
    listening = stage.server.listening(stage.database, CHANNELS, PRESENCE, count=ears)
    with listening as heard, stage.beside("stream", 0) as client:
        stage.marks.go()
        try:
            figures = watch(stage, crew, skip=skip, count=count)
        finally:
            stage.marks.times[HALT] = 1.0
        if client.poll() is not None or bool(heard()) != bool(ears):
            raise Failed(f"{stage.peer}: {ears} connections heard {heard()} rings")
    return figures | {"rings": heard() / max(1, ears) / (count / figures["rate"])}


def _reach(stage: Stage, crew: Crew, count: int, until: float) -> int:
    """Wait until so many handlers have begun, and say how many have."""
    while (handled := stage.marks.handled()) < count:
        if time.monotonic() > until or crew.ended():
            raise Failed(f"{stage.peer}: {handled} of {count} jobs begun in time")
        time.sleep(0.002)
    return handled
