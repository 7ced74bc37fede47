"""The workloads. Each takes a stage, begins from a fresh database and returns its figures by name.

A completion is what the database shows, not what a worker says. Watching costs as little as possible: the
marks are read from shared memory, and a query that counts completions waits twice as long as it took.
"""

from __future__ import annotations

import contextlib
import statistics
import time
from collections.abc import Callable

from bench import startup
from bench.protocol import WARM, WARM_LATENCY, Card
from bench.stage import Crew, Failed, Stage

Figures = dict[str, float]

DRAIN_WITHIN = 60.0
SCHEDULE_WITHIN = 60.0
RINGS_WITHIN = 5.0
LATENCY_JOBS = 200
IDLE_SECONDS = 10.0
START_COUNTED_SECONDS = 12.5
LEAD, AHEAD = 8.0, 2.0  # seconds from the first create to the instant, of which so many at least are quiet


def percentile(values: list[float], share: float) -> float:
    """The value that `share` of the values do not exceed."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))]


def await_starts(stage: Stage, count: int, until: float) -> None:
    """Return when the handlers of the first `count` jobs have begun."""
    seen = 0
    while (seen := stage.marks.begun(seen, count)) < count:
        if time.monotonic() > until:
            raise Failed(f"{stage.peer}: job {seen} of {count} never began")
        time.sleep(0.005)


def await_ends(stage: Stage, count: int, until: float, *, done_by: str | None = None) -> float:
    """Return when the database shows `count` completions, as the time at which it did."""
    with stage.store.counting(stage.database, done_by or stage.card.done) as ask:
        while True:
            asked = time.monotonic()
            done = ask()
            now = time.monotonic()
            if done >= count:
                return now
            if now > until:
                raise Failed(f"{stage.peer}: {done} of {count} jobs done in time")
            time.sleep(max(0.005, 2 * (now - asked)))


def await_rings(stage: Stage, rings: Callable[[], int], least: int) -> None:
    """Make sure that creates rang for who listened: else a measurement of it would be one of something else."""
    until = time.monotonic() + RINGS_WITHIN
    while rings() < least:
        if time.monotonic() > until:
            raise Failed(f"{stage.peer}: {rings()} rings on {', '.join(stage.card.channels)} instead of {least}")
        time.sleep(0.01)


def due_rings(card: Card, op: str, count: int, seconds: float) -> int:
    """Return how often so many creates must have rung: those in flight may share a ring, and so may those of a paced stream."""
    if op != "single":
        return 1
    return min(count, max(1, int(seconds / card.pace / 5))) if card.pace else count


def enqueue(stage: Stage) -> Figures:
    """Create jobs one by one, with 50 in flight, and in bulk where there is such a call: nobody listens for them.

    One by one and in flight also while somebody listens (`heard`), as a worker does: its channels are listened to, and it says
    that it is there. Who rings nobody does the same in both, and is measured again all the same: a copy would be of an
    earlier moment than what it is held against.
    """
    figures: Figures = {}
    for op in ("single", "flight", *(["bulk"] if "bulk" in stage.card.can else [])):
        figures |= created(stage, op, op)
    for op in ("single", "flight"):
        figures |= created(stage, op, f"{op}_heard", heard=bool(stage.card.channels))
    return figures


def created(stage: Stage, op: str, name: str, *, heard: bool = False) -> Figures:
    """Create jobs in one way, after a few of which nobody counts the time."""
    stage.fresh()
    count = stage.count(op)
    with contextlib.ExitStack() as ends:
        if heard:
            ears = stage.store.listening(stage.database, stage.card.channels, stage.card.presence)
            rings = ends.enter_context(ears)
        before, cpu = stage.store.counters(stage.database), stage.store.cpu()
        told = stage.client(op, count)
        spent = stage.store.counters(stage.database) - before
        if heard:
            await_rings(stage, rings, due_rings(stage.card, op, count, told["seconds"]))
    return {
        name: count / told["seconds"],
        f"cpu_client_{name}": told["cpu"] / count * 10_000,
        f"cpu_store_{name}": (stage.store.cpu() - cpu) / (count + WARM) * 10_000,
        f"wal_{name}": spent.wal / (count + WARM),
        f"flushes_{name}": spent.flushes / (count + WARM),
        f"disk_{name}": spent.disk / (count + WARM),
    }


def drain(stage: Stage, workers: int) -> Figures:
    """Work off jobs that are there already: from GO until every completion is in the database."""
    stage.fresh()
    return drain_filled(stage, workers, stage.count("drain"))


def drain_filled(stage: Stage, workers: int, count: int, op: str = "fill", **numbers: int) -> Figures:
    """Drain with workers that have done jobs before, and stood still while the database was filled."""
    empty = stage.store.counters(stage.database)
    with stage.store.counting(stage.database, stage.card.done) as ask:
        there = ask()  # of an earlier drain of the same database
    with stage.warmed(workers) as (crew, warm):
        await_ends(stage, there + warm, time.monotonic() + DRAIN_WITHIN)
        with stage.stopped(crew):
            stage.client(op, count, **numbers)
            stage.store.settle(stage.database)
            before, cpu, store = stage.store.counters(stage.database), crew.cpu(), stage.store.cpu()
            begun = time.monotonic()
        await_starts(stage, count, begun + DRAIN_WITHIN)
        took = await_ends(stage, there + warm + count, begun + DRAIN_WITHIN) - begun
        cpu, store = crew.cpu() - cpu, stage.store.cpu() - store
        after = stage.store.counters(stage.database)
        peak = crew.memory("VmHWM") / workers
    spent = after - before
    return {
        "rate": count / took,
        "jobs": count,
        "cpu_worker": cpu / count * 10_000,
        "cpu_store": store / count * 10_000,
        "cpu": (cpu + store) / count * 10_000,
        "wal": spent.wal / count,
        "flushes": spent.flushes / count,
        "memory": peak,
        "disk_filled": (before - empty).disk / (warm + count),
        "disk_drained": (after - empty).disk / (warm + count),
    }


def latency(stage: Stage) -> Figures:
    """One job every 20 ms for an idle worker; before that, what the idle worker costs."""
    stage.fresh()
    count = int(LATENCY_JOBS * max(0.5, stage.scale))
    with stage.crew(1) as crew:
        stage.marks.go()
        figures = idle(stage, crew)
        used = crew.run_time()
        ends, look = watch_ends(stage, count)
        figures["cpu_worker"] = (crew.run_time() - used) / (count + WARM_LATENCY) * 10_000
    created, started = stage.marks.created(count), stage.marks.started(count)
    if not all(started):
        raise Failed(f"{stage.peer}: {started.count(0.0)} of {count} jobs never began")
    starts = [1000 * (start - create) for start, create in zip(started, created, strict=True)]
    durable = [1000 * (end - look / 2 - create) for end, create in zip(ends, created, strict=True)]
    return figures | {
        "look": 1000 * look,
        "start_p50": statistics.median(starts),
        "start_p99": percentile(starts, 0.99),
        "end_p50": statistics.median(durable),
        "end_p99": percentile(durable, 0.99),
    }


def idle(stage: Stage, crew: Crew) -> Figures:
    """Memory, CPU and transactions of a worker with nothing to do, once its start has been counted.

    PostgreSQL counts what a backend did before it became idle only when that was ten seconds ago.
    """
    time.sleep(START_COUNTED_SECONDS)
    before, begun = stage.store.counters(stage.database), time.monotonic()
    cpu, store = crew.run_time(), stage.store.run_time()
    time.sleep(IDLE_SECONDS * max(0.5, stage.scale))
    spent, served, took = crew.run_time() - cpu, stage.store.run_time() - store, time.monotonic() - begun
    return {
        "idle_memory": crew.memory("VmRSS"),
        "idle_cpu": 100 * spent / took,
        "idle_cpu_store": 100 * max(0.0, served) / took,
        "idle_transactions": (stage.store.counters(stage.database) - before).transactions / took,
    }


def watch_ends(stage: Stage, count: int) -> tuple[list[float], float]:
    """When each completion was seen, and how far two looks lie apart; the k-th end belongs to the k-th create.

    An end that a look finds came at any moment since the look before, so that on average it is seen half of that too late.
    """
    ends: list[float] = []
    looks = 0
    with stage.store.counting(stage.database, stage.card.done) as ask, stage.beside("latency", count) as client:
        while not stage.marks.created(1)[0] and client.poll() is None:
            time.sleep(0.001)
        begun = time.monotonic()
        until = begun + 25
        while len(ends) < count:
            looks += 1
            now = time.monotonic()
            done = ask()
            if now > until:
                raise Failed(f"{stage.peer}: {len(ends)} of {count} completions seen in time")
            ends += [now] * (done - WARM_LATENCY - len(ends))
            time.sleep(0.001)
    return ends[:count], (now - begun) / max(1, looks - 1)


def join(stage: Stage) -> Figures:
    """Fan out 100 jobs and wait for all of them, again and again."""
    stage.fresh()
    with stage.crew(1) as crew:
        stage.marks.go()
        time.sleep(1.0)
        cpu, store = crew.cpu(), stage.store.cpu()
        told = stage.client("join", stage.count("join"))
        cpu, store = crew.cpu() - cpu, stage.store.cpu() - store
    times = told["times"]
    # The first one, which is not counted, was the workers' and the store's, too.
    joins = len(times) + 1
    return {
        "p50": 1000 * statistics.median(times),
        "batches": len(times),
        "cpu_both": (told["cpu"] / len(times) + cpu / joins) * 10_000,
        "cpu_store": store / joins * 10_000,
    }


def steps(stage: Stage) -> Figures:
    """Workflows of ten durable steps that are there already: from GO until every end is in the database."""
    stage.fresh()
    return drain_filled(stage, 1, stage.count("steps"), op="steps")


def schedule(stage: Stage, lead: float = LEAD) -> Figures:
    """Jobs that all fall due at one instant, created before it, while a worker is there: how late they begin."""
    stage.fresh()
    count = stage.count("schedule")
    with stage.warmed(1) as (crew, warm):
        await_ends(stage, warm, time.monotonic() + DRAIN_WITHIN)
        due = time.time() + lead
        stage.client("fill", count, due=due)
        stage.store.settle(stage.database)
        if time.time() < due - AHEAD:
            instant = time.monotonic() + due - time.time()
            time.sleep(instant - time.monotonic())
            cpu, store = crew.cpu(), stage.store.cpu()
            await_starts(stage, count, instant + SCHEDULE_WITHIN)
            cpu, store = crew.cpu() - cpu, stage.store.cpu() - store
            late = [1000 * (start - instant) for start in stage.marks.started(count)]
            return {
                "jobs": count,
                "first": min(late),
                "p50": statistics.median(late),
                "last": max(late),
                "last_per_1000": max(late) / count * 1000,
                "cpu_worker": cpu / count * 10_000,
                "cpu_store": store / count * 10_000,
            }
        took = time.time() - due + lead
    return schedule(stage, AHEAD + 1.5 * took)  # as long as it takes here, and some more


def gates(stage: Stage) -> Figures:
    """Drain what has keys, through gates: few hot ones, few with one slot each, and many; beside the plain drain."""
    figures: Figures = {}
    for name, keys, slots in (("plain", 0, 0), ("hot", 5, 10), ("single", 5, 1), ("many", 1000, 1)):
        stage.fresh()
        count = stage.count("gates")
        given = {"op": "keyed", "keys": keys, "slots": slots} if keys else {}
        drained = drain_filled(stage, 1, count, **given)  # type: ignore[arg-type]
        figures[name], figures[f"{name}_cpu"] = drained["rate"], drained["cpu"]
    return figures


WORKLOADS: dict[str, Callable[[Stage], Figures]] = {
    "startup": startup.startup,
    "enqueue": enqueue,
    "drain1": lambda stage: drain(stage, 1),
    "drain2": lambda stage: drain(stage, 2),
    "latency": latency,
    "join": join,
    "steps": steps,
    "schedule": schedule,
    "gates": gates,
}
NEEDS = {"drain1": "drain", "drain2": "drain"}
