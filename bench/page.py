"""The part of docs/performance.md that is made from a file of results: tables, verdicts, curves."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from bench import bars, contract, costs, growth, plot, ranks, report
from bench.bars import FLOOR, OURS, Results, number
from bench.record import Record

PICTURES = "pictures"

# What, figure, unit, what the floor of it is, whether less is better.
DOMAINS = (
    ("turns without tools, moves in the log", "turns.moves_rate", "/s", "plain tasks", False),
    ("turns without tools", "turns.rate", "/s", "plain tasks", False),
    ("suspend, tool, resume, p50", "resume.p50", "ms", "one plain task, from create to result", True),
    ("fork 100 turns and join, p50", "batches.p50", "ms", "create 100 plain tasks and await them", True),
    ("commands with three capabilities", "commands.rate", "/s", "a plain task that creates three", False),
    ("ingestion, records in pages of 100", "ingest.rate", "/s", "bare aiohttp and COPY", False),
)


def write(docs: Path, record: Record) -> None:
    """Draw the pictures and replace the tables."""
    results = Results(record.lines)
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
        "`*`: on Redis, not durable.",
        "\n".join(report.settings(record.head)),
        *ranks.told(ranks.pictures(results), PICTURES),
        "## Against the contract",
        report.verdicts(results),
        *titled("## The other domains", domains(results)),
        *titled("## Where the time goes", costs.told(results, cores=record.head["cores"])),
        *titled("## When something grows", curves(results)),
        *titled("## While a transaction stays open", horizon(results)),
        *titled("## Before believing it", report.remarks(record)),
    ]
    return "\n\n".join(parts)


def titled(title: str, parts: Sequence[str]) -> list[str]:
    return [title, *parts] if parts else []


def domains(results: Results) -> list[str]:
    """Ours beside what a person would do with plain tasks, or by hand."""
    rows = [["what", "ours", "floor", "ratio (range)", "the floor"]]
    for what, figure, unit, floor, least in DOMAINS:
        judged = bars.Ratio(what, figure, FLOOR, least=least).judge(results)
        if judged is not None:
            theirs = results.median(figure, FLOOR) or 0.0
            rows.append([f"{what}, {unit}", number(judged.ours), number(theirs), judged.ratio, floor])
    return [report.table(rows)] if len(rows) > 1 else []


def curves(results: Results) -> list[str]:
    """A picture for each variable, and what its curve does, by numbers."""
    rows = [["what grows", "from", "to", "rate at the largest, of the smallest", "CPU per task (last step)", "verdict"]]
    shown = []
    for variable in growth.SIZES:
        rates, cpu = results.curve(f"growth_{variable}", "rate"), results.curve(f"growth_{variable}", "cpu")
        if len(cpu) < 2:
            continue
        first, before, last = min(cpu), sorted(cpu)[-2], max(cpu)
        bend, step = cpu[last] / cpu[first], cpu[last] / cpu[before]
        rows.append(
            [
                variable,
                f"{first:,}",
                f"{last:,}",
                f"{rates[last] / rates[first]:.2f}",
                f"{bend:.2f} ({step:.2f})",
                shape(bend, step),
            ]
        )
        shown.append(f"![{alt(variable, bend)}]({PICTURES}/growth-{variable}.svg)")
    return [report.table(rows), *shown] if shown else []


def shape(bend: float, step: float) -> str:
    if bend <= contract.BEND:
        return "level"
    return "bends upward" if step > contract.BEND else "grew, and grows no more"


def alt(variable: str, bend: float) -> str:
    return f"Rate and CPU per task against {growth.UNITS[variable]}: CPU at the largest is {bend:.2f} of that at the smallest"


def horizon(results: Results) -> list[str]:
    usual, held = slices(results, "usual"), slices(results, "held")
    if not held:
        return []
    least, end = (results.median(f"horizon.{name}", OURS) or 0.0 for name in ("least_share", "end_share"))
    return [
        f"Tasks are created and drained all the time; after {len(usual) * 10} s a transaction is opened that keeps its"
        f" snapshot for {len(held) * 10} s, so that nothing dead can be removed. The slowest slice of 10 s has {least:.2f} of"
        f" the usual rate, the last third {end:.2f}.",
        f"![Tasks per second in slices of 10 s, before and while a transaction stays open]({PICTURES}/horizon.svg)",
    ]


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
