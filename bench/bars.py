"""The bars of the performance contract, one function per rule, each judged within one run.

A ratio compares medians; its range is the lowest and the highest ratio of any one round. Machines are noisy:
a ratio that lies within a factor of 1.5 of its threshold is undecided, whichever side it is on. A limit in
absolute units is met when every round keeps it, missed when none does, and undecided otherwise. What was
measured while other programs used the machine in half of its rounds or more is marked `busy`.
"""

from __future__ import annotations

import dataclasses
import statistics
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import pytest

OURS = "ferryman"
FLOOR = "floor"
NOISE = 1.5
BUSY = 0.3  # of a core
SMALLEST = 0.01
MET, MISSED, UNDECIDED = "met", "missed", "undecided"


def number(value: float) -> str:
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3g}"


class Results:
    """Figures by name (`workload.figure`), peer and round."""

    def __init__(self, lines: Iterable[dict[str, Any]]) -> None:
        self.values: dict[str, dict[str, dict[int, float]]] = defaultdict(lambda: defaultdict(dict))
        self.busy: dict[tuple[str, str], list[bool]] = defaultdict(list)
        for line in lines:
            self.busy[line["work"], line["peer"]].append(line.get("others", 0.0) > BUSY)
            for name, value in line.get("figures", {}).items():
                self.values[f"{line['work']}.{name}"][line["peer"]][line["round"]] = value
        for peer, rounds in self.values["enqueue.wal_single"].items():
            drained = self.values["drain1.wal"][peer]
            self.values["life.wal"][peer] = {n: wal + drained[n] for n, wal in rounds.items() if n in drained}

    def rounds(self, figure: str, peer: str) -> dict[int, float]:
        return self.values[figure].get(peer, {})

    def median(self, figure: str, peer: str) -> float | None:
        rounds = self.rounds(figure, peer)
        return statistics.median(rounds.values()) if rounds else None

    def was_busy(self, figure: str, peer: str) -> bool:
        rounds = self.busy.get((figure.partition(".")[0], peer), [])
        return bool(rounds) and sum(rounds) >= len(rounds) / 2

    def best_peer(self, figure: str, *, least: bool = False) -> str:
        """The durable peer that does best; ourselves and the floor are not peers. Empty when none was run."""
        medians = {p: m for p in self.values[figure] if p not in (OURS, FLOOR) and (m := self.median(figure, p))}
        return (min if least else max)(medians, key=medians.__getitem__, default="")


@dataclasses.dataclass(frozen=True, kw_only=True)
class Verdict:
    """One line of the table of bars."""

    what: str
    ours: float
    against: str = ""
    ratio: str
    bar: str = ""
    goal: str = ""
    verdict: str


@dataclasses.dataclass(frozen=True)
class Ratio:
    """A bar and a goal for ours over theirs: at least so much, or with `least` at most."""

    what: str
    figure: str
    peer: str
    _: dataclasses.KW_ONLY
    bar: float | None = None
    goal: float | None = None
    least: bool = False
    their_figure: str = ""

    def judge(self, results: Results) -> Verdict | None:
        """Return a verdict, or None when one of the two was not measured."""
        their_figure = self.their_figure or self.figure
        theirs_by_round = results.rounds(their_figure, self.peer)
        ours, theirs = results.median(self.figure, OURS), results.median(their_figure, self.peer)
        if ours is None or theirs is None:
            return None
        ratio = ours / max(theirs, SMALLEST)
        pairs = [(v, theirs_by_round[n]) for n, v in results.rounds(self.figure, OURS).items() if n in theirs_by_round]
        paired = [value / max(their, SMALLEST) for value, their in pairs] or [ratio]
        busy = results.was_busy(self.figure, OURS) or results.was_busy(their_figure, self.peer)
        sign = "<=" if self.least else ">="
        return Verdict(
            what=self.what,
            ours=ours,
            against=f"{self.peer} {number(theirs)}",
            ratio=f"{ratio:.2f} ({min(paired):.2f}..{max(paired):.2f})",
            bar="" if self.bar is None else f"{sign} {self.bar:g}x",
            goal="" if self.goal is None else f"{sign} {self.goal:g}x",
            verdict=sentence(self.weigh(ratio, self.bar), self.weigh(ratio, self.goal), busy=busy),
        )

    def weigh(self, ratio: float, threshold: float | None) -> str | None:
        if threshold is None:
            return None
        margin = threshold / max(ratio, SMALLEST) if self.least else ratio / threshold
        if margin >= NOISE:
            return MET
        if margin <= 1 / NOISE:
            return MISSED
        return f"{UNDECIDED}, {'inside' if margin >= 1 else 'outside'}"


@dataclasses.dataclass(frozen=True)
class Limit:
    """A bar in absolute units on our own figure."""

    what: str
    figure: str
    most: float
    unit: str
    least: bool = False  # then it is how little may be

    def judge(self, results: Results) -> Verdict | None:
        values = results.rounds(self.figure, OURS).values()
        if not values:
            return None
        kept = [value >= self.most if self.least else value <= self.most for value in values]
        return Verdict(
            what=self.what,
            ours=statistics.median(values),
            ratio=f"({number(min(values))}..{number(max(values))})",
            bar=f"{'>=' if self.least else '<='} {self.most:g} {self.unit}",
            verdict=sentence(
                MET if all(kept) else UNDECIDED if any(kept) else MISSED, None, busy=results.was_busy(self.figure, OURS)
            ),
        )


def sentence(bar: str | None, goal: str | None, *, busy: bool) -> str:
    """Say the best that is certain."""
    said = f"goal {goal}" if goal == MET or bar is None else f"bar {bar}"
    return f"{said} (busy)" if busy else said


Checks = Sequence[Ratio | Limit]


@pytest.mark.contract("P1")
def enqueue_one_by_one(results: Results) -> Checks:
    figure = "enqueue.single"
    return [Ratio("enqueue one by one, /s", figure, results.best_peer(figure), bar=1.0, goal=1.5)]


@pytest.mark.contract("P2")
def enqueue_in_flight(results: Results) -> Checks:
    figure = "enqueue.flight"
    return [Ratio("enqueue, 50 in flight, /s", figure, results.best_peer(figure), bar=5, goal=10)]


@pytest.mark.contract("P3")
def enqueue_in_bulk(results: Results) -> Checks:
    figure = "enqueue.bulk"
    return [Ratio("bulk, /s", figure, results.best_peer(figure), bar=1.0, goal=2)]


@pytest.mark.contract("P4")
def drain(results: Results) -> Checks:
    return [
        Ratio("drain, 1 worker, /s", "drain1.rate", "pgqueuer", bar=1.0, goal=2),
        Ratio("drain, 1 worker, /s", "drain1.rate", FLOOR, goal=0.3),
        Ratio("2 workers against 1, /s", "drain2.rate", OURS, their_figure="drain1.rate", bar=1.0),
    ]


@pytest.mark.contract("P5")
def latency(results: Results) -> Checks:
    start, end = "latency.start_p50", "latency.end_p50"
    return [
        Ratio("start p50, ms", start, results.best_peer(start, least=True), bar=1.3, least=True),
        Ratio("start p50, ms", start, FLOOR, goal=1.5, least=True),
        Limit("start p99, ms", "latency.start_p99", 10, "ms"),
        Ratio("durable end p50, ms", end, results.best_peer(end, least=True), bar=1.0, least=True),
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


@pytest.mark.contract("P11")
def commands(results: Results) -> Checks:
    what, figure = "commands with three capabilities, /s", "commands.rate"
    return [Limit(what, figure, 500, "/s", least=True), Limit(f"{what} (goal)", figure, 1_500, "/s", least=True)]


# No tag: of P9 the agents' turns, and of P13 most of the ways to grow, are not measured here.
def join(results: Results) -> Checks:
    return [
        Ratio("fan out 100 and join, ms", "join.p50", "pgqueuer", bar=1.0, least=True),
        Ratio("fan out 100 and join, ms", "join.p50", FLOOR, goal=3, least=True),
    ]


def growth(results: Results) -> Checks:
    return [
        Ratio("drain with 1M finished, /s", "deep.finished", OURS, their_figure="deep.empty", bar=0.9),
        Ratio("drain with 1M future, /s", "deep.future", OURS, their_figure="deep.empty", bar=0.8),
        Ratio("drain with 1M waiting for a retry, /s", "deep.retrying", OURS, their_figure="deep.empty", bar=0.8),
    ]


@pytest.mark.contract("P14")
def start(results: Results) -> Checks:
    return [
        Limit("import ferryman, s", "startup.import", 0.3, "s"),
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
    "P11": commands,
    "P13": growth,
    "P14": start,
}


def judge(results: Results) -> list[tuple[str, Verdict]]:
    """Every bar that this run can say something about, with its rule."""
    checks = ((rule, check) for rule, bar in BARS.items() for check in bar(results))
    return [(rule, verdict) for rule, check in checks if (verdict := check.judge(results))]
