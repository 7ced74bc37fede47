"""What a run found, for people: on the screen, and as a part of docs/reliability.md."""

from __future__ import annotations

import argparse
import os
import platform
import sys
from pathlib import Path
from typing import Any, TextIO

from chaos.checker.figures import Figures
from chaos.storm import Outcome

Found = dict[str, Any]
BEGIN, END = "<!-- chaos: begin -->", "<!-- chaos: end -->"


def found(asked: argparse.Namespace, outcome: Outcome, figures: Figures, seconds: float) -> Found:
    """Put the figures of a run together."""
    count, middle, late, worst = figures.recovery
    outages, first = figures.first_success
    return {
        "seed": asked.seed,
        "lease": asked.lease,
        "minutes": asked.minutes,
        "wall_seconds": round(seconds),
        "python": platform.python_version(),
        "load": [round(each, 1) for each in os.getloadavg()],
        "tasks": figures.tasks,
        "turns": figures.turns,
        "batches": figures.batches,
        "commands": figures.commands,
        "records": figures.records,
        "acknowledged": figures.acknowledged,
        "starts_per_task": figures.starts_per_task,
        "faults": figures.faults_in_all,
        "faults_by_kind": dict(sorted(figures.faults.items())),
        "zombies_fenced": figures.zombies_fenced,
        "recoveries": count,
        "recovery_p50": middle,
        "recovery_p99": late,
        "recovery_worst": worst,
        "outages": outages,
        "first_success_worst": first,
        "overdue": outcome.overdue,
        "looks": outcome.looks,
        "quiet_seconds": round(outcome.quiet_seconds, 1),
        "cases": figures.cases,
    }


def rows(found: Found) -> list[tuple[str, str, str]]:
    """Return the lines of the table: what, the aim, what was found."""
    return [
        ("lost", "0", "0"),
        ("second ends", "0", "0"),
        ("starts per task", "≤ 1.05", f"{found['starts_per_task']:.3f}"),
        ("faults", "≥ 1,000", f"{found['faults']:,}"),
        ("zombies fenced", "≥ 200", f"{found['zombies_fenced']:,}"),
        (
            f"work of a killed worker begun anew, p99 (lease {found['lease']:g} s)",
            f"≤ {found['lease'] + 1:g} s",
            f"{found['recovery_p99']:.2f} s of {found['recoveries']:,} (median {found['recovery_p50']:.2f} s, worst"
            f" {found['recovery_worst']:.2f} s)",
        ),
        (
            "first success after the database was killed",
            "≤ 5 s",
            f"{found['first_success_worst']:.2f} s, the worst of {found['outages']}",
        ),
        ("overdue", "0", f"{found['overdue']} in {found['looks']:,} looks"),
    ]


def show(found: Found, wrong: list[str], *, file: TextIO = sys.stdout) -> None:
    """Print what was found, and what is wrong."""
    print(
        f"seed {found['seed']}, {found['minutes']:g} minutes of faults, {found['wall_seconds']} s in all;"
        f" load of the machine {found['load'][1]:g}",
        file=file,
    )
    print(
        f"{found['tasks']:,} tasks, {found['turns']:,} turns, {found['batches']:,} batches, {found['commands']:,} commands,"
        f" {found['records']:,} records; {found['acknowledged']:,} acknowledgements",
        file=file,
    )
    for what, aim, value in rows(found)[2:]:
        print(f"  {what:64} {aim:>9}   {value}", file=file)
    for case, count in found["cases"].items():
        print(f"  {case:64} {count:>9,}", file=file)
    for each in wrong:
        print(f"WRONG  {each}", file=file)
    print(
        "Nothing was lost, nothing ended twice, nothing hangs." if not wrong else f"{len(wrong)} things are wrong.",
        file=file,
    )


def write(page: Path, found: Found) -> None:
    """Put the table into the page, between its marks."""
    text = page.read_text(encoding="utf-8")
    before, _, rest = text.partition(BEGIN)
    _, _, after = rest.partition(END)
    load = (
        f"Seed {found['seed']}, {found['minutes']:g} minutes of faults: {found['tasks']:,} tasks, {found['turns']:,} turns,"
        f" {found['batches']:,} batches, {found['commands']:,} commands and {found['records']:,} ingested records."
    )
    table = ["| figure | aim | found |", "|---|---|---|", *(f"| {' | '.join(row)} |" for row in rows(found))]
    cases = ["| case | times |", "|---|---|", *(f"| {case} | {count:,} |" for case, count in found["cases"].items())]
    made = "\n".join([BEGIN, load, "", *table, "", "What the run met:", "", *cases, END])
    page.write_text(f"{before}{made}{after}", encoding="utf-8")
