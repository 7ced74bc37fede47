"""How figures are held against bars (contract.py), each judged within one run.

A ratio compares medians; its range is the lowest and the highest ratio of any one round. Machines are noisy:
a ratio that lies within a factor of 1.5 of its threshold is undecided, whichever side it is on. A limit in
absolute units is met when every round keeps it, missed when none does, and undecided otherwise, inside when
the median keeps it. What was measured in one round alone is marked `once`, for nobody knows its spread, what was
measured while other programs used the machine in half of its rounds or more `busy` (of a curve: at any of its sizes, for each
is held against the smallest), and what lacks rounds or sizes which were planned `part`. The best of the peers is the best of
those that were there: a verdict names who was not. What was planned and cannot be judged is told as not measured.
"""

from __future__ import annotations

import dataclasses
import statistics
from collections import defaultdict
from collections.abc import Iterable, Sequence
from typing import Any

from bench.record import Item

OURS = "ferryman"
FLOOR = "floor"
NOISE = 1.5
BUSY = 0.3  # of a core
SMALLEST = 0.01
MET, MISSED, UNDECIDED, NOT_MEASURED = "met", "missed", "undecided", "not measured"
INSIDE, OUTSIDE = f"{UNDECIDED}, inside", f"{UNDECIDED}, outside"
# Figures that are made of those of several workloads.
MADE_OF = {"life": ("enqueue", "drain1")}


def number(value: float) -> str:
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3g}"


class Results:
    """Figures by name (`workload.figure`), peer and round; and what of it a run had planned."""

    def __init__(
        self, lines: Iterable[dict[str, Any]], planned: Iterable[Item] = (), absent: Iterable[str] = ()
    ) -> None:
        self.values: dict[str, dict[str, dict[int, float]]] = defaultdict(lambda: defaultdict(dict))
        self.busy: dict[tuple[str, str], list[bool]] = defaultdict(list)
        self.fragile: set[str] = set()
        self.absent = frozenset(absent)  # durable peers that could not run at all
        told: set[Item] = set()
        for line in lines:
            if "figures" in line:
                told.add(Item.of(line))
            self.busy[line["work"], line["peer"]].append(line.get("others", 0.0) > BUSY)
            if not line.get("durable", True):
                self.fragile.add(line["peer"])
            work = line["work"] if "size" not in line else f"{line['work']}.{line['size']}"
            for name, value in line.get("figures", {}).items():
                self.values[f"{work}.{name}"][line["peer"]][line["round"]] = value
        for peer, rounds in list(self.values["enqueue.wal_single"].items()):
            drained = self.values["drain1.wal"][peer]
            self.values["life.wal"][peer] = {n: wal + drained[n] for n, wal in rounds.items() if n in drained}
        self.share("ingest.rate_share", "ingest.rate", of=("ingest.rate", FLOOR))
        self.share("drain2.rate_share", "drain2.rate", of=("drain1.rate", OURS))
        self.bend()
        wanted = list(planned)
        self.planned = {item.work for item in wanted if item.peer == OURS}
        self.cut = {item.work for item in wanted if item.peer == OURS and item not in told}
        there = {(item.work, item.peer) for item in told}
        self.lost = {(item.work, item.peer) for item in wanted} - there

    def share(self, name: str, figure: str, *, of: tuple[str, str]) -> None:
        """Add what a figure of ours is of another, round by round."""
        others = self.rounds(*of)
        ours = self.rounds(figure, OURS)
        self.values[name][OURS] = {n: value / others[n] for n, value in ours.items() if n in others}

    def bend(self) -> None:
        """Add what a task costs at the size that is worst for it, at the largest and in the last step: by CPU and by the clock.

        The first two against the smallest size. The worst may lie in the middle, and the last step may be steep on a curve
        that ends where it began.
        """
        for work in sorted({figure.partition(".")[0] for figure in self.values if figure.startswith("growth_")}):
            for figure, power, name in (("cpu", 1, "bend"), ("rate", -1, "slow")):
                curve = self.curve(work, figure)
                if len(curve) > 1:
                    ordered = [curve[size] ** power for size in sorted(curve)]
                    self.values[f"{work}.{name}"][OURS] = {0: max(ordered[1:]) / ordered[0]}
                    self.values[f"{work}.end_{name}"][OURS] = {0: ordered[-1] / ordered[0]}
                    self.values[f"{work}.last_{name}"][OURS] = {0: ordered[-1] / ordered[-2]}

    def curve(self, work: str, name: str) -> dict[int, float]:
        """Our medians by size."""
        found: dict[int, float] = {}
        for figure in list(self.values):
            head, _, rest = figure.partition(".")
            size, _, said = rest.partition(".")
            if head == work and said == name and (median := self.median(figure, OURS)) is not None:
                found[int(size)] = median
        return found

    def rounds(self, figure: str, peer: str) -> dict[int, float]:
        return self.values[figure].get(peer, {})

    def median(self, figure: str, peer: str) -> float | None:
        rounds = self.rounds(figure, peer)
        return statistics.median(rounds.values()) if rounds else None

    def was_planned(self, figure: str) -> bool:
        """Say whether a run was to tell this of ours."""
        work = figure.partition(".")[0]
        return self.planned.issuperset(MADE_OF.get(work, (work,)))

    def marks(self, *measured: tuple[str, str], rounds: int, without: Iterable[str] = ()) -> str:
        """What a reader must know of a verdict on figures of peers in so many rounds."""
        said = {
            "once": rounds == 1,
            "busy": any(self.was_busy(figure, peer) for figure, peer in measured),
            "part": any(self.was_cut(figure) for figure, _ in measured),
        }
        return ", ".join([*(mark for mark, true in said.items() if true), *(f"without {peer}" for peer in without)])

    def was_busy(self, figure: str, peer: str) -> bool:
        work = figure.partition(".")[0]
        rounds = self.busy.get((work, peer), [])
        return any(rounds) and (work.startswith("growth_") or sum(rounds) >= len(rounds) / 2)

    def was_cut(self, figure: str) -> bool:
        work = figure.partition(".")[0]
        return not self.cut.isdisjoint(MADE_OF.get(work, (work,)))

    def best_peer(self, figure: str, *, least: bool = False) -> str:
        """The durable peer that does best; ourselves and the floor are not peers. Empty when none was run."""
        peers = set(self.values[figure]) - {OURS, FLOOR} - self.fragile
        medians = {peer: median for peer in sorted(peers) if (median := self.median(figure, peer))}
        return (min if least else max)(medians, key=medians.__getitem__, default="")

    def missed_peers(self, figure: str) -> Sequence[str]:
        """Durable peers that might have been the best, and have told nothing."""
        work = figure.partition(".")[0]
        failed = {peer for lost, peer in self.lost if lost == work} - {OURS, FLOOR} - self.fragile
        return sorted(failed | self.absent)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Verdict:
    """One line of the table of bars, and what became of its bar and of its goal, if it has them."""

    what: str
    ours: float | None = None
    against: str = ""
    ratio: str = ""
    bar: str = ""
    goal: str = ""
    of_bar: str | None = None
    of_goal: str | None = None
    marks: str = ""

    @property
    def verdict(self) -> str:
        """Say what became of both; a goal that is met says it of its bar, too."""
        if NOT_MEASURED in (self.of_bar, self.of_goal):
            return NOT_MEASURED
        judged = {"bar": self.of_bar, "goal": self.of_goal} if self.of_goal != MET else {"goal": self.of_goal}
        said = "; ".join(f"{name} {verdict}" for name, verdict in judged.items() if verdict is not None)
        return f"{said} ({self.marks})" if self.marks else said


@dataclasses.dataclass(frozen=True)
class Ratio:
    """A bar and a goal for ours over theirs: at least so much, or with `least` at most; without a peer, over the best."""

    what: str
    figure: str
    peer: str = ""
    _: dataclasses.KW_ONLY
    bar: float | None = None
    goal: float | None = None
    least: bool = False

    def judge(self, results: Results) -> Verdict | None:
        """Return a verdict, or None when one of the two was not measured."""
        peer = self.peer or results.best_peer(self.figure, least=self.least)
        theirs_by_round = results.rounds(self.figure, peer)
        ours, theirs = results.median(self.figure, OURS), results.median(self.figure, peer)
        if ours is None or theirs is None:
            return None
        ratio = ours / max(theirs, SMALLEST)
        pairs = [(v, theirs_by_round[n]) for n, v in results.rounds(self.figure, OURS).items() if n in theirs_by_round]
        paired = [value / max(their, SMALLEST) for value, their in pairs] or [ratio]
        return dataclasses.replace(
            self.unmeasured(),
            ours=ours,
            against=f"{peer} {number(theirs)}",
            ratio=f"{ratio:.2f} ({min(paired):.2f}..{max(paired):.2f})",
            of_bar=self.weigh(ratio, self.bar),
            of_goal=self.weigh(ratio, self.goal),
            marks=results.marks(
                (self.figure, OURS),
                (self.figure, peer),
                rounds=len(pairs),
                without=() if self.peer else results.missed_peers(self.figure),
            ),
        )

    def unmeasured(self) -> Verdict:
        """Say what was to be judged."""
        sign = "<=" if self.least else ">="
        return Verdict(
            what=self.what,
            against=self.peer or "the best durable peer",
            bar="" if self.bar is None else f"{sign} {self.bar:g}x",
            goal="" if self.goal is None else f"{sign} {self.goal:g}x",
            of_bar=None if self.bar is None else NOT_MEASURED,
            of_goal=None if self.goal is None else NOT_MEASURED,
        )

    def weigh(self, ratio: float, threshold: float | None) -> str | None:
        if threshold is None:
            return None
        margin = threshold / max(ratio, SMALLEST) if self.least else ratio / threshold
        if margin >= NOISE:
            return MET
        if margin <= 1 / NOISE:
            return MISSED
        return INSIDE if margin >= 1 else OUTSIDE


@dataclasses.dataclass(frozen=True)
class Limit:
    """A bar and a goal in absolute units on our own figure: at most so much, or with `least` at least."""

    what: str
    figure: str
    bar: float
    unit: str
    _: dataclasses.KW_ONLY
    goal: float | None = None
    least: bool = False

    def judge(self, results: Results) -> Verdict | None:
        values = list(results.rounds(self.figure, OURS).values())
        if not values:
            return None
        return dataclasses.replace(
            self.unmeasured(),
            ours=statistics.median(values),
            ratio=f"({number(min(values))}..{number(max(values))})",
            of_bar=self.weigh(values, self.bar),
            of_goal=self.weigh(values, self.goal),
            marks=results.marks((self.figure, OURS), rounds=len(values)),
        )

    def unmeasured(self) -> Verdict:
        """Say what was to be judged."""
        sign = ">=" if self.least else "<="
        return Verdict(
            what=self.what,
            bar=f"{sign} {self.bar:g} {self.unit}".strip(),
            goal="" if self.goal is None else f"{sign} {self.goal:g} {self.unit}".strip(),
            of_bar=NOT_MEASURED,
            of_goal=None if self.goal is None else NOT_MEASURED,
        )

    def weigh(self, values: list[float], threshold: float | None) -> str | None:
        if threshold is None:
            return None
        kept = [self.keeps(value, threshold) for value in values]
        if all(kept):
            return MET
        if not any(kept):
            return MISSED
        return INSIDE if self.keeps(statistics.median(values), threshold) else OUTSIDE

    def keeps(self, value: float, threshold: float) -> bool:
        return value >= threshold if self.least else value <= threshold
