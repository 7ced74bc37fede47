"""The bars of the performance contract, one function per rule, each judged against the same run.

A ratio compares medians; its range is the lowest and the highest ratio of any one round. Machines are noisy:
a ratio that lies within a factor of 1.5 of its threshold is undecided, whichever side it is on. A limit in
absolute units is met when every round keeps it, missed when none does, and undecided otherwise.
"""

from __future__ import annotations

import dataclasses
import statistics
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import pytest

OURS = "ferryman"
FLOOR = "floor"
NOISE = 1.5
SMALLEST = 0.01
MET, MISSED, UNDECIDED = "met", "missed", "undecided"


class Results:
    """Figures by name (`workload.figure`), peer and round."""

    def __init__(self, lines: Iterable[dict[str, Any]]) -> None:
        self.values: dict[str, dict[str, dict[int, float]]] = defaultdict(lambda: defaultdict(dict))
        for line in lines:
            for name, value in line.get("figures", {}).items():
                self.values[f"{line['work']}.{name}"][line["peer"]][line["round"]] = value
        for peer, rounds in self.values["enqueue.wal_single"].items():
            drained = self.values["drain1.wal"][peer]
            self.values["life.wal"][peer] = {n: wal + drained[n] for n, wal in rounds.items() if n in drained}

    def rounds(self, figure: str, peer: str) -> dict[int, float]:
        return self.values[figure][peer] if peer in self.values[figure] else {}

    def median(self, figure: str, peer: str) -> float | None:
        rounds = self.rounds(figure, peer)
        return statistics.median(rounds.values()) if rounds else None

    def best_peer(self, figure: str, *, least: bool = False) -> str:
        """The durable peer that does best; ourselves and the floor are not peers. Empty when none was run."""
        medians = {p: m for p in self.values[figure] if p not in (OURS, FLOOR) and (m := self.median(figure, p))}
        return (min if least else max)(medians, key=medians.__getitem__, default="")


@dataclasses.dataclass(frozen=True, kw_only=True)
class Verdict:
    """One line of the table of bars."""

    rule: str
    what: str
    ours: float
    against: str
    ratio: str
    bar: str
    goal: str
    verdict: str


@dataclasses.dataclass(frozen=True, kw_only=True)
class Ratio:
    """A bar and a goal for ours over theirs: at least so much, or with `least` at most."""

    rule: str
    what: str
    figure: str
    peer: str
    bar: float | None = None
    goal: float | None = None
    least: bool = False
    their_figure: str = ""

    def judge(self, results: Results) -> Iterator[Verdict]:
        """Yield one verdict, or nothing when one of the two was not measured."""
        theirs_named = self.their_figure or self.figure
        ours, theirs = results.median(self.figure, OURS), results.median(theirs_named, self.peer)
        if ours is None or theirs is None:
            return
        ratio = ours / max(theirs, SMALLEST)
        rounds = results.rounds(theirs_named, self.peer)
        paired = [value / max(rounds[n], SMALLEST) for n, value in results.rounds(self.figure, OURS).items() if n in rounds]
        sign = "≤" if self.least else "≥"
        yield Verdict(
            rule=self.rule,
            what=self.what,
            ours=ours,
            against=f"{self.peer} {theirs:,.4g}",
            ratio=f"{ratio:.2f} ({min(paired):.2f}–{max(paired):.2f})" if paired else f"{ratio:.2f}",
            bar="" if self.bar is None else f"{sign} {self.bar:g}×",
            goal="" if self.goal is None else f"{sign} {self.goal:g}×",
            verdict=sentence(self.weigh(ratio, self.bar), self.weigh(ratio, self.goal)),
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


def sentence(bar: str | None, goal: str | None) -> str:
    if goal == MET:
        return "goal met"
    if bar is None:
        return f"goal {goal}"
    return f"bar {bar}"


def limit(results: Results, rule: str, what: str, figure: str, most: float, unit: str) -> Iterator[Verdict]:
    """An absolute limit on our own figure."""
    rounds = results.rounds(figure, OURS)
    if not rounds:
        return
    kept = [value <= most for value in rounds.values()]
    yield Verdict(
        rule=rule,
        what=what,
        ours=statistics.median(rounds.values()),
        against="",
        ratio=f"({min(rounds.values()):,.3g}–{max(rounds.values()):,.3g})",
        bar=f"≤ {most:g} {unit}",
        goal="",
        verdict=f"bar {MET if all(kept) else MISSED if not any(kept) else UNDECIDED}",
    )


@pytest.mark.contract("P1")
def enqueue_one_by_one(results: Results) -> Iterator[Verdict]:
    best = results.best_peer("enqueue.single")
    yield from Ratio(rule="P1", what="enqueue one by one, /s", figure="enqueue.single", peer=best, bar=1.0, goal=1.5).judge(results)


@pytest.mark.contract("P2")
def enqueue_in_flight(results: Results) -> Iterator[Verdict]:
    best = results.best_peer("enqueue.flight")
    yield from Ratio(rule="P2", what="enqueue, 50 in flight, /s", figure="enqueue.flight", peer=best, bar=5, goal=10).judge(results)


@pytest.mark.contract("P3")
def enqueue_in_bulk(results: Results) -> Iterator[Verdict]:
    best = results.best_peer("enqueue.bulk")
    yield from Ratio(rule="P3", what="bulk, /s", figure="enqueue.bulk", peer=best, bar=1.0, goal=2).judge(results)


@pytest.mark.contract("P4")
def drain(results: Results) -> Iterator[Verdict]:
    one = "drain1.rate"
    yield from Ratio(rule="P4", what="drain, 1 worker, /s", figure=one, peer="pgqueuer", bar=1.0, goal=2).judge(results)
    yield from Ratio(rule="P4", what="drain, 1 worker, /s", figure=one, peer=FLOOR, goal=0.3).judge(results)
    two = Ratio(rule="P4", what="2 workers against 1, /s", figure="drain2.rate", their_figure=one, peer=OURS, bar=1.0)
    yield from two.judge(results)


@pytest.mark.contract("P5")
def latency(results: Results) -> Iterator[Verdict]:
    for what, figure, bar, goal in (("start", "latency.start_p50", 1.3, 1.5), ("durable end", "latency.end_p50", 1.0, 2)):
        best = results.best_peer(figure, least=True)
        yield from Ratio(rule="P5", what=f"{what} p50, ms", figure=figure, peer=best, bar=bar, least=True).judge(results)
        yield from Ratio(rule="P5", what=f"{what} p50, ms", figure=figure, peer=FLOOR, goal=goal, least=True).judge(results)
    yield from limit(results, "P5", "start p99", "latency.start_p99", 10, "ms")


@pytest.mark.contract("P6")
def all_due_at_once(results: Results) -> Iterator[Verdict]:
    last = "schedule.last_per_1000"
    what = "all due at once, last start, ms per 1,000"
    yield from Ratio(rule="P6", what=what, figure=last, peer="pgqueuer", bar=1.0, least=True).judge(results)
    yield from Ratio(rule="P6", what=what, figure=last, peer=FLOOR, goal=2, least=True).judge(results)


@pytest.mark.contract("P8")
def cost(results: Results) -> Iterator[Verdict]:
    yield from limit(results, "P8", "worker memory, peak", "drain1.memory", 64, "MB")
    yield from limit(results, "P8", "idle transactions", "latency.idle_transactions", 5, "/s")
    yield from limit(results, "P8", "idle CPU", "latency.idle_cpu", 1, "% of a core")
    cpu = Ratio(
        rule="P8", what="CPU of worker and store, s per 10,000", figure="drain1.cpu", peer="pgqueuer", bar=1.5, goal=1.0, least=True
    )
    yield from cpu.judge(results)
    yield from limit(results, "P8", "WAL, created one by one and drained", "life.wal", 3_000, "B")


# P9 and P13 are only shown: turns, ten million rows, retries and a held horizon are not measured here yet.
def join(results: Results) -> Iterator[Verdict]:
    yield from Ratio(rule="P9", what="fan out 100 and join, ms", figure="join.p50", peer="pgqueuer", bar=1.0, least=True).judge(results)
    yield from Ratio(rule="P9", what="fan out 100 and join, ms", figure="join.p50", peer=FLOOR, goal=3, least=True).judge(results)


@pytest.mark.contract("P14")
def start(results: Results) -> Iterator[Verdict]:
    yield from limit(results, "P14", "import ferryman", "startup.import", 0.3, "s")
    yield from limit(results, "P14", "worker process to its first job", "startup.worker", 1.0, "s")
    yield from limit(results, "P14", "embedded database from nothing", "startup.embedded", 5.0, "s")


BARS: tuple[Callable[[Results], Iterator[Verdict]], ...] = (
    enqueue_one_by_one, enqueue_in_flight, enqueue_in_bulk, drain, latency, all_due_at_once, cost, join, start
)  # fmt: skip


def judge(results: Results) -> list[Verdict]:
    return [verdict for bar in BARS for verdict in bar(results)]
