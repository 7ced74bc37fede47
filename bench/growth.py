"""What a task costs when something grows: the backlog, the history, queues, keys, tenants, workers, connections.

Each variable is measured at a few sizes, each point in a fresh database, in a window of time in which the workers are warm and
have enough to do: from the handler of one task to that of a later one. Beside the rate stand the CPU times of workers and store
per task, which depend less on who else uses the machine. A cost that grows with its variable shows as a curve that bends
upward.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator, Mapping, Sequence

from bench.deep import begun
from bench.measure import Figures
from bench.stage import Crew, Failed, Stage

SKIP, WINDOW, SPARE = 1_500, 10_000, 2_500
WITHIN = 90.0
SLOTS_OF_A_KEY = 25
CHANNELS = ("ferryman_doorbell", "ferryman_doorbell_ready", "ferryman_doorbell_done")

SIZES: Mapping[str, Sequence[int]] = {
    "backlog": (15_000, 100_000, 1_000_000, 10_000_000),
    "history": (0, 10_000, 100_000, 1_000_000, 10_000_000),
    "queues": (1, 10, 100, 300, 1_000),
    "keys": (10, 100, 1_000, 10_000),
    "tenants": (1, 10, 100, 1_000, 5_000),
    "workers": (1, 2, 4, 8),
    "connections": (0, 10, 30, 60),
}
QUICK_SIZES: Mapping[str, Sequence[int]] = {
    "backlog": (10_000, 30_000, 100_000),
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
    "connections": "idle connections that listen for rings",
}


def sizes(variable: str, *, quick: bool) -> Sequence[int]:
    return (QUICK_SIZES if quick else SIZES)[variable]


def point(stage: Stage, variable: str, size: int) -> Figures:
    """Measure one variable at one size."""
    with contextlib.ExitStack() as ends:
        PREPARE[variable](stage, size, ends)
        stage.store.settle(stage.database)
        crew = ends.enter_context(stage.crew(size if variable == "workers" else 1))
        if variable == "connections":
            ends.enter_context(listeners(stage, size))
        stage.marks.go()
        # Each worker's first sets are its warm-up.
        warm = _scaled(stage, SKIP) * (size if variable == "workers" else 1)
        return watch(stage, crew, skip=warm, count=_scaled(stage, WINDOW))


def _scaled(stage: Stage, count: int) -> int:
    return max(500, int(count * stage.scale))


def jobs(stage: Stage) -> int:
    """So many that the workers have enough until the window closes."""
    return _scaled(stage, SKIP) + _scaled(stage, WINDOW) + SPARE


def backlog(stage: Stage, size: int, ends: contextlib.ExitStack) -> None:
    ends.enter_context(begun(stage, "ready", size))


def history(stage: Stage, size: int, ends: contextlib.ExitStack) -> None:
    ends.enter_context(begun(stage, "finished", size))
    stage.client("bulk", jobs(stage))


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


def plain(stage: Stage, size: int, _: contextlib.ExitStack) -> None:
    stage.fresh()
    stage.client("bulk", jobs(stage) + (_scaled(stage, SKIP) + SPARE) * size)


PREPARE: Mapping[str, Callable[[Stage, int, contextlib.ExitStack], None]] = {
    "backlog": backlog,
    "history": history,
    "queues": queues,
    "keys": keys,
    "tenants": tenants,
    "workers": plain,
    "connections": plain,
}


@contextlib.contextmanager
def listeners(stage: Stage, count: int) -> Iterator[None]:
    """Connections that do nothing but hear every ring."""
    with contextlib.ExitStack() as open:
        for _ in range(count):
            connection = open.enter_context(stage.server.connect(stage.database))
            for channel in CHANNELS:
                connection.execute(f'listen "{channel}"'.encode())
        yield


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


def _reach(stage: Stage, crew: Crew, count: int, until: float) -> int:
    """Wait until so many handlers have begun, and say how many have."""
    while (handled := stage.marks.handled()) < count:
        if time.monotonic() > until or crew.ended():
            raise Failed(f"{stage.peer}: {handled} of {count} jobs begun in time")
        time.sleep(0.002)
    return handled
