"""The bars of the performance contract, one function per rule."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pytest

from bench import growth, ingest
from bench.bars import FLOOR, Limit, Ratio, Results, Verdict

Checks = Sequence[Ratio | Limit]

# A cost that depends on how much there is grows with it; one that does not stays within the noise of a machine.
BEND = 1.5
# So little in the last step is no growth that anybody could tell from noise.
STILL = 1.1
# The first third holds the fall itself. If from then on a task cost in proportion to the dead rows left so far, the rate
# would go with one over the root of time, and the last third of five minutes would have 0.77 of the middle one. Medians of
# ten slices differ by less than that.
DECAY = 0.8


def listening(figure: str) -> Sequence[tuple[str, str]]:
    """As the contract measures it, and as it is beside workers, where a create rings; each among peers in its condition."""
    return ("nobody listens", figure), ("a worker listens", f"{figure}_heard")


@pytest.mark.contract("P1")
def enqueue_one_by_one(results: Results) -> Checks:
    return [
        Ratio(f"enqueue one by one, {who}, /s", figure, bar=1.0, goal=1.5)
        for who, figure in listening("enqueue.single")
    ]


@pytest.mark.contract("P2")
def enqueue_in_flight(results: Results) -> Checks:
    return [
        Ratio(f"enqueue, 50 in flight, {who}, /s", figure, bar=5, goal=10)
        for who, figure in listening("enqueue.flight")
    ]


@pytest.mark.contract("P3")
def enqueue_in_bulk(results: Results) -> Checks:
    return [Ratio("bulk, /s", "enqueue.bulk", bar=1.0, goal=2)]


@pytest.mark.contract("P4")
def drain(results: Results) -> Checks:
    return [
        Ratio("drain, 1 worker, /s", "drain1.rate", "pgqueuer", bar=1.0, goal=2),
        Ratio("drain, 1 worker, /s", "drain1.rate", FLOOR, goal=0.3),
        Limit("2 workers, of 1", "drain2.rate_share", 1.0, "", least=True),
    ]


@pytest.mark.contract("P5")
def latency(results: Results) -> Checks:
    start, end = "latency.start_p50", "latency.end_p50"
    return [
        Ratio("start p50, ms", start, bar=1.3, least=True),
        Ratio("start p50, ms", start, FLOOR, goal=1.5, least=True),
        Limit("start p99, ms", "latency.start_p99", 10, "ms"),
        Ratio("durable end p50, ms", end, bar=1.0, least=True),
        Ratio("durable end p50, ms", end, FLOOR, goal=2, least=True),
    ]


@pytest.mark.contract("P6")
def all_due_at_once(results: Results) -> Checks:
    what, figure = "all due at once, last start, ms per 1,000", "schedule.last_per_1000"
    return [
        Ratio(what, figure, "pgqueuer", bar=1.0, least=True),
        Ratio(what, figure, FLOOR, goal=2, least=True),
    ]


@pytest.mark.contract("P7")
def workflows(results: Results) -> Checks:
    return [Ratio("10-step workflows, /s", "steps.rate", "absurd", bar=5, goal=20)]


@pytest.mark.contract("P8")
def cost(results: Results) -> Checks:
    return [
        Limit("worker memory, peak, MB", "drain1.memory", 64, "MB"),
        Limit("idle transactions, /s", "latency.idle_transactions", 5, "/s"),
        Limit("idle CPU, % of a core", "latency.idle_cpu", 1, "%"),
        Ratio("CPU of worker and store, s per 10k", "drain1.cpu", "pgqueuer", bar=1.5, goal=1.0, least=True),
        Limit("WAL, created one by one and drained, B", "life.wal", 3_000, "B"),
    ]


@pytest.mark.contract("P9")
def join(results: Results) -> Checks:
    return [
        Ratio("fan out 100 tasks and join, ms", "join.p50", "pgqueuer", bar=1.0, least=True),
        Ratio("fan out 100 tasks and join, ms", "join.p50", FLOOR, goal=3, least=True),
        Limit("fork 100 turns and join, p50, ms", "batches.p50", 244, "ms", goal=63),
    ]


@pytest.mark.contract("P10")
def turns(results: Results) -> Checks:
    return [
        Limit("turns without tools, /s", "turns.rate", 1_500, "/s", least=True),
        Limit("suspend, tool, resume, p50, ms", "resume.p50", 15, "ms", goal=8),
        Limit("10,000 suspended turns, MB", "crowd.memory", 20, "MB"),
    ]


@pytest.mark.contract("P11")
def commands(results: Results) -> Checks:
    return [Limit("commands with three capabilities, /s", "commands.rate", 500, "/s", goal=1_500, least=True)]


@pytest.mark.contract("P12")
def ingestion(results: Results) -> Checks:
    return [
        Limit("an executor, of a bare loop", "ingest.rate_share", 0.8, "", least=True),
        *(Limit(f"gate at {top:,}/s, ms for a request", f"gate.ms_{top}", 0.2, "ms") for top in ingest.TOPS),
        Limit("two executors, of one", "ingest2.share", 1.7, "", least=True),
    ]


@pytest.mark.contract("P13")
def growing(results: Results) -> Checks:
    return [
        Limit("drain with 1M finished, of empty", "deep.finished_share", 0.9, "", least=True),
        Limit("drain with 10M finished, of empty", "deep10.finished_share", 0.8, "", least=True),
        Limit("drain with 1M future, of empty", "deep.future_share", 0.8, "", least=True),
        Limit("drain with 1M waiting for a retry, of empty", "deep.retrying_share", 0.8, "", least=True),
        Limit("horizon held: its slowest slice, of usual", "horizon.least_share", 0.5, "", least=True),
        Limit("horizon held: its last third, of usual", "horizon.end_share", 0.5, "", least=True),
        Limit("horizon held: its last third, of the middle one", "horizon.decay", DECAY, "", least=True),
        *(
            Limit(f"CPU per task, {variable}: the worst size against the smallest", f"growth_{variable}.bend", BEND, "")
            for variable in growth.SIZES
        ),
        *(
            Limit(
                f"time per task, {variable}: the worst size against the smallest", f"growth_{variable}.slow", BEND, ""
            )
            for variable in growth.SIZES
            if variable not in growth.SHARING
        ),
    ]


@pytest.mark.contract("P14")
def start(results: Results) -> Checks:
    return [
        Limit("from ferryman import Ferryman, s", "startup.import", 0.3, "s"),
        Limit("worker process to its first job, s", "startup.worker", 1.0, "s"),
        Limit("embedded database from nothing, s", "startup.embedded", 5.0, "s"),
    ]


BARS: dict[str, Callable[[Results], Checks]] = {
    "P1": enqueue_one_by_one,
    "P2": enqueue_in_flight,
    "P3": enqueue_in_bulk,
    "P4": drain,
    "P5": latency,
    "P6": all_due_at_once,
    "P7": workflows,
    "P8": cost,
    "P9": join,
    "P10": turns,
    "P11": commands,
    "P12": ingestion,
    "P13": growing,
    "P14": start,
}


def judge(results: Results) -> list[tuple[str, Verdict]]:
    """Every bar that this run can say something about, or was to, with its rule."""
    judged = []
    for rule, bar in BARS.items():
        for check in bar(results):
            verdict = check.judge(results)
            if verdict is None and results.was_planned(check.figure):
                verdict = check.unmeasured()
            if verdict is not None:
                judged.append((rule, verdict))
    return judged
