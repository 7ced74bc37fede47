"""The limit: what a durable task has to wait for, whoever does it, by a commit that was timed in the same run.

What is durable has been flushed, and who waits for that waits for a commit: a round trip and a flush of the WAL. How many of
those one task cannot do without is counted here. It bounds the waiting alone. What Python and PostgreSQL work for a task comes
on top, unless it is hidden behind the waiting for another (costs.py has that bound). The floor is no bound: it is SQL of the
same kind as ours, written by hand.
"""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from typing import NamedTuple

from bench import report
from bench.bars import FLOOR, OURS, Results, number
from bench.protocol import IN_FLIGHT, STEPS
from bench.record import Line

SET = 250  # in which ours and the floor drain
LANES = 2  # sets that are under way at once, whose commits may share a flush
GOAL = 1.5  # of P1
MILLI = 1000.0


class Bound(NamedTuple):
    """How many commits one of these has to wait for, and why; `time` as in costs.py."""

    what: str
    figure: str
    commits: float
    words: str
    time: float = 0.0


BOUNDS = (
    Bound("create one by one", "enqueue.single", 1, "It is durable when its own commit is: one each."),
    Bound(
        "create, 50 in flight", "enqueue.flight", 1 / IN_FLIGHT,
        "All that are under way can share a statement and its commit, and no more than these.",
    ),
    Bound(
        "drain, 1 worker", "drain1.rate", 1 / SET / LANES,
        f"One statement settles a set of {SET} and claims the next, and {LANES} sets are under way, which may share a flush."
        " What is above this is not waiting for commits: it is work on rows and in Python.",
    ),
    Bound(
        "one of 10,000 due at once", "schedule.last_per_1000", 1 / SET / LANES,
        "They are claimed in the same sets.", time=1.0,
    ),
    Bound(
        "10-step workflow", "steps.rate", (STEPS + 1) / SET / LANES,
        "Each step has to be durable before the next, and the end with the next claim; all that are under way share each of"
        " these commits.",
    ),
    Bound(
        "durable end of a lone task", "latency.end_p50", 2,
        "A claim that is durable, then its end: two commits, one after the other.", time=MILLI,
    ),
    Bound(
        "fan out 100 and join", "join.p50", 3,
        "All are created, claimed and settled, each as one set: three commits, one after the other.", time=MILLI,
    ),
)  # fmt: skip


def told(results: Results, heads: Sequence[Line]) -> list[str]:
    """A section; empty when no part of the run has timed a commit, or nothing of it was measured."""
    timed = [head for head in heads if "commit_us" in head and "trip_us" in head]
    if not timed:
        return []
    trip, commit = (statistics.median(head[name] for head in timed) for name in ("trip_us", "commit_us"))
    rows = [["what", "commits", "the limit, µs", "floor, µs", "of the limit", "ours, µs", "of the limit"]]
    said = []
    for bound in BOUNDS:
        ours, floor = (_micros(results, bound, peer) for peer in (OURS, FLOOR))
        if ours is not None:
            least = bound.commits * commit
            rows.append(
                [bound.what, f"{bound.commits:g}", number(least), *_beside(floor, least), *_beside(ours, least)]
            )
            said.append(f"- **{bound.what}.** {bound.words}")
    if not said:
        return []
    return [
        f"A round trip that asks for nothing took {number(trip)} µs when the run began, and a row that is committed by itself"
        f" {number(commit)} µs: a trip and a flush. What is durable has waited for such a commit, whoever wrote it; what has to"
        " be done for a task comes on top. Those times were taken at one moment, so a factor of 1.2 more or less says little."
        + _goal(results, commit),
        report.table(rows),
        "\n".join(said),
    ]


def _goal(results: Results, commit: float) -> str:
    """What the goal of P1 asks for, of what can be had."""
    best = results.median("enqueue.single", results.best_peer("enqueue.single"))
    if not best:
        return ""
    return (
        f" One by one nobody creates more than {number(1e6 / commit)} a second here;"
        f" the goal of P1 asks for {GOAL * best * commit / 1e6:.2f} of that."
    )


def _micros(results: Results, bound: Bound, peer: str) -> float | None:
    median = results.median(bound.figure, peer)
    if not median:
        return None
    return bound.time * median if bound.time else 1e6 / median


def _beside(took: float | None, least: float) -> tuple[str, str]:
    return ("-", "-") if took is None else (number(took), f"{took / least:.1f}x")
