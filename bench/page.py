"""The part of docs/performance.md that is made from a file of results: tables, verdicts, curves."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from bench import beside, contract, costs, growth, limit, plot, ranks, report
from bench.bars import OURS, Results, number
from bench.record import Record

PICTURES = "pictures"
ALONE = (
    "Ten million rows, the open transaction and the curves of what grows (P13) are of Ferryman alone, in one round: no peer"
    " stands beside them."
)
LEGEND = (
    "`*`: on Redis, not durable. `-`: there is no such call, or nobody knows how to fill its tables by the million"
    " ([bench/README.md](../bench/README.md)); what was left out for another reason is named at the end."
)
GROWN = (
    "Each point was measured once, over 50,000 tasks, of Ferryman alone. Time and CPU are told at the size that is worst for"
    " them and at the largest, of the smallest, and in the last step, of the size before; by the worst of both a curve is"
    " called *level* (nowhere above 1.5), *grew* (above it; *and grows no more* if the last step is 1.1 at most) or said to"
    " *bend upward* (the last step alone is above 1.5)."
    " Workers share out the cores of one machine, so that of them only the CPU is judged. The connections listen as idle"
    " workers do (to the channel for all, and to those for what is ready, due, cancelled and for changes of queues), and are"
    " read at once, while tasks are created and they are rung for those; what the creates cost the store is in that curve."
    " Those who await results listen to the channel for what is done: they are not in it."
    " In the pictures the sizes stand side by side, at equal distances."
)


def write(docs: Path, record: Record) -> None:
    """Draw the pictures and replace the tables."""
    results = report.judged_by(record)
    peers = {name: drawn for name, (drawn, _) in ranks.pictures(results).items()}
    for name, drawn in {**peers, **pictures(results)}.items():
        (docs / PICTURES / name).write_text(drawn)
    report.write_docs(docs / "performance.md", text(record, results))


def text(record: Record, results: Results) -> str:
    peers = list(record.head["peers"])
    parts = [
        report.conditions(record),
        "## Beside the peers",
        report.figures(results, peers),
        LEGEND,
        "\n".join(report.settings(record.head)),
        *ranks.told(ranks.pictures(results), PICTURES),
        *titled("### How far the rounds of the peers lie apart", report.spread(results, peers)),
        *titled("## Against the contract", [*report.judged(results), *alone(results)]),
        *titled("## The other domains", beside.told(results)),
        *titled("## The limit", limit.told(results, record.heads)),
        *titled("## Where the time goes", costs.told(results, cores=record.head["cores"])),
        *titled("## When something grows", curves(results)),
        *titled("## While a transaction stays open", horizon(results)),
        *titled("## Before believing it", report.remarks(record)),
    ]
    return "\n\n".join(parts)


def titled(title: str, parts: Sequence[str]) -> list[str]:
    return [title, *parts] if parts else []


def alone(results: Results) -> list[str]:
    """Say of which bars no peer's figures are known, if they were measured."""
    begins = ("deep10.", "horizon.", "growth_")
    return [ALONE] if any(figure.startswith(begins) and found for figure, found in results.values.items()) else []


def curves(results: Results) -> list[str]:
    """A picture for each variable, and what its curve does, by numbers."""
    heads = (f"{what} per task: worst, largest, last step" for what in ("time", "CPU"))
    rows = [["what grows", "from", "to", *heads, "verdict"]]
    shown = []
    for variable in growth.SIZES:
        work = f"growth_{variable}"
        sizes = results.curve(work, "cpu")
        if len(sizes) < 2:
            continue
        clock, cpu = (turned(results, work, name) for name in ("slow", "bend"))
        judged = [cpu] if variable in growth.SHARING else [clock, cpu]
        rows.append(
            [
                variable,
                f"{min(sizes):,}",
                f"{max(sizes):,}",
                clock.told + (", not judged" if variable in growth.SHARING else ""),
                cpu.told,
                shape(max(each.worst for each in judged), max(each.step for each in judged))
                + (", in part: sizes are missing" if work in results.cut else ""),
            ]
        )
        shown.append(f"![{alt(variable, clock, cpu)}]({PICTURES}/growth-{variable}.svg)")
    return [report.table(rows), GROWN, *shown] if shown else []


class Turned(NamedTuple):
    """What a task costs at the worst and the largest size, of the smallest, and at the largest, of the one before."""

    worst: float
    end: float
    step: float

    @property
    def told(self) -> str:
        return f"{self.worst:.2f}, {self.end:.2f}, {self.step:.2f}"


def turned(results: Results, work: str, name: str) -> Turned:
    return Turned(*(results.median(f"{work}.{each}{name}", OURS) or 0.0 for each in ("", "end_", "last_")))


def shape(worst: float, step: float) -> str:
    if worst <= contract.BEND:
        return "level" if step <= contract.BEND else "level, but rose in the last step"
    if step > contract.BEND:
        return "bends upward"
    return "grew, and grows no more" if step <= contract.STILL else "grew"


def alt(variable: str, clock: Turned, cpu: Turned) -> str:
    at_most = f"{clock.end:.2f} of the time and {cpu.end:.2f} of the CPU at the smallest"
    return f"Rate and CPU per task against {growth.UNITS[variable]}: at the largest {at_most}"


def horizon(results: Results) -> list[str]:
    usual, held = slices(results, "usual"), slices(results, "held")
    if not held:
        return []
    least, end = (results.median(f"horizon.{name}", OURS) or 0.0 for name in ("least_share", "end_share"))
    return [
        f"Tasks are created and drained all the time; after {len(usual) * 10} s a transaction is opened that keeps its"
        f" snapshot for {len(held) * 10} s, so that nothing dead can be removed. Measured once, of Ferryman alone, by handlers"
        f" that have begun. The slowest slice of 10 s has {least:.2f} of"
        f" the usual rate, the last third {end:.2f}. Medians of tasks per second: {_thirds(results)}.",
        f"![Tasks per second in slices of 10 s, before and while a transaction stays open]({PICTURES}/horizon.svg)",
    ]


def _thirds(results: Results) -> str:
    names = {"usual": "before", "third_0": "first third", "third_1": "middle third", "third_2": "last third"}
    medians = {said: results.median(f"horizon.{name}", OURS) for name, said in names.items()}
    return ", ".join(f"{said} {number(median)}" for said, median in medians.items() if median is not None)


def slices(results: Results, phase: str) -> list[float]:
    rates: list[float] = []
    while (rate := results.median(f"horizon.{phase}_{len(rates)}", OURS)) is not None:
        rates.append(rate)
    return rates


def pictures(results: Results) -> dict[str, str]:
    drawn = {}
    for variable in growth.SIZES:
        work = f"growth_{variable}"
        rate, worker, store = (results.curve(work, name) for name in ("rate", "cpu_worker", "cpu_store"))
        if len(rate) < 2:
            continue
        sizes = sorted(rate)
        drawn[f"growth-{variable}.svg"] = plot.draw(
            [
                plot.Panel("tasks per second", [plot.Series("rate", "green", [rate[n] for n in sizes])]),
                plot.Panel(
                    "CPU per task, µs",
                    [
                        plot.Series("store", "blue", [store[n] for n in sizes]),
                        plot.Series("workers", "amber", [worker[n] for n in sizes]),
                    ],
                ),
            ],
            places=[f"{size:,}" for size in sizes],
            below=growth.UNITS[variable],
            says=f"Cost of a task against {growth.UNITS[variable]}",
        )
    usual, held = slices(results, "usual"), slices(results, "held")
    if held:
        every = [*usual, *held]
        drawn["horizon.svg"] = plot.draw(
            [plot.Panel("tasks per second", [plot.Series("rate", "green", every)])],
            places=[_place(n, len(usual)) for n in range(len(every))],
            below=f"seconds; from {10 * len(usual)} on a transaction stays open",
            says="Rate in slices of 10 s before and while a transaction stays open",
        )
    return drawn


def _place(number: int, usual: int) -> str:
    return f"{10 * number}" if (number - usual) % 6 == 0 else ""
