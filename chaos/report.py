"""What a run found, for people: on the screen, and as a part of docs/reliability.md."""

from __future__ import annotations

import argparse
import os
import platform
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import TextIO

from chaos import aims, terms
from chaos.aims import Found
from chaos.checker.figures import Figures
from chaos.lookout import Seen
from chaos.storm import QUIET_SECONDS, Outcome

MARKS = "<!-- {}: begin -->", "<!-- {}: end -->"
# What is missing by the checks that look for what was acknowledged; what has two ends by those that look at ends.
LOST = (
    "acknowledged_is_there",
    "nothing_is_gone",
    "nothing_lives_on",
    "acknowledged_ended_once",
    "what_was_asked_for_succeeded",
    "turns_are_delivered",
    "batches_are_whole",
    "commands_are_complete",
    "windows_are_covered",
    "firings_follow_each_other",
    "the_log_is_read_whole",
)
TWICE = ("one_row_for_each_key", "one_end_for_each_row", "own_rows_and_tasks_go_together")


def found(
    asked: argparse.Namespace,
    outcome: Outcome,
    late: Seen,
    figures: Figures,
    *,
    counted: Mapping[str, int],
    seconds: float,
) -> Found:
    """Put the figures of a run together."""
    count, middle, slow, worst = figures.recovery
    taken, taken_middle, taken_slow, taken_worst = figures.taken_back
    outages, first, since_back, since_killed = figures.first_success
    ends_waited_for, first_end, end_since_back, end_since_killed = figures.first_end
    return {
        "seed": asked.seed,
        "lease": asked.lease,
        "minutes": asked.minutes,
        "pooler": asked.pooler,
        "retention": asked.retention,
        "wall_seconds": round(seconds),
        "python": platform.python_version(),
        "cores": os.cpu_count(),
        "load": [round(each, 1) for each in os.getloadavg()],
        "lost": sum(counted[check] for check in LOST),
        "second_ends": sum(counted[check] for check in TWICE),
        "tasks": figures.tasks,
        "turns": figures.turns,
        "batches": figures.batches,
        "commands": figures.commands,
        "records": figures.records,
        "acknowledged": figures.acknowledged,
        "acts": figures.acts,
        "starts_per_task": figures.starts_per_task,
        "started_again": figures.started_again,
        "unforced": figures.unforced,
        "started": figures.started,
        "faults": figures.faults_in_all,
        "faults_inside": figures.faults_inside,
        "faults_by_kind": dict(sorted(figures.faults.items())),
        "zombies_fenced": figures.zombies_fenced,
        "taken_back": taken,
        "taken_back_p50": taken_middle,
        "taken_back_p99": taken_slow,
        "taken_back_worst": taken_worst,
        "taken_back_by_the_clock": figures.taken_back_by_the_clock,
        "recoveries": count,
        "recovery_p50": middle,
        "recovery_p99": slow,
        "recovery_worst": worst,
        "recovery_by_the_clock": figures.recovery_by_the_clock,
        "recovery_kinds": figures.recovery_kinds,
        "recovery_fell": figures.recovery_fell,
        "recovery_work": figures.recovery_work,
        "recovery_unbegun": figures.recovery_unbegun,
        "recovery_left_out": figures.recovery_left_out,
        "windows": figures.windows,
        "windows_by_the_clock": figures.windows_by_the_clock,
        "outages": outages,
        "first_success_worst": first,
        "first_success_since_back": since_back,
        "first_success_since_killed": since_killed,
        "first_ends": ends_waited_for,
        "first_end_worst": first_end,
        "first_end_since_back": end_since_back,
        "first_end_since_killed": end_since_killed,
        "overdue": late.overdue,
        "looks": late.looks,
        "idle": figures.idle,
        "idle_could": figures.idle_could,
        "waits": figures.waits,
        "passed_over": counted["nothing_is_passed_over"],
        "alone": figures.alone,
        "alone_short": counted["who_is_left_alone_does_all_its_part"],
        "quiet_seconds": round(outcome.quiet_seconds, 1),
        "cases": figures.cases,
    }


def show(found: Found, wrong: list[str], *, file: TextIO = sys.stdout) -> None:
    """Print what was found, what is short of its aim, and what is wrong."""
    print(_told(found), file=file)
    for each in aims.judge(found):
        print(f"  {each.what:64} {each.aim:>9}   {each.value}{'' if each.held else '   SHORT OF ITS AIM'}", file=file)
    for cause, count in found["started_again"].items():
        print(f"  again: {cause:57} {count:>9,}", file=file)
    for told in found["unforced"]:
        print(f"    {told}", file=file)
    for case, count in () if "soak" in found else found["cases"].items():
        print(f"  {case:64} {count:>9,}", file=file)
    for each_wrong in wrong:
        print(f"WRONG  {each_wrong}", file=file)
    print(
        "Nothing was lost, nothing ended twice, nothing hangs." if not wrong else f"{len(wrong)} things are wrong.",
        file=file,
    )


def _told(found: Found) -> str:
    """Say what ran, for how long, on what."""
    through = " through PgBouncer," if found["pooler"] else ""
    kept = f" What has ended was kept for {found['retention']:g} s." if found.get("retention") else ""
    return (
        f"Seed {found['seed']}, {found['minutes']:g} minutes of faults,{through} {found['wall_seconds']} s in all, on"
        f" {found['cores']} cores with a load of {found['load'][1]:g}, Python {found['python']}, with"
        f" {terms.told(found['lease'])}: {found['tasks']:,} tasks, {found['turns']:,} turns,"
        f" {found['batches']:,} batches, {found['commands']:,} commands, {found['records']:,} ingested"
        f" records; {found['acknowledged']:,} acknowledgements. All was at rest"
        f" {found['quiet_seconds']:g} s after the last death, where {QUIET_SECONDS:g} s are the most.{kept}"
    )


def write(page: Path, found: Found) -> None:
    """Put the table into the page, between the marks of chaos, of soak, or of a soak in which rows leave."""
    text = page.read_text(encoding="utf-8")
    name = "retention" if found.get("retention") else "soak" if "soak" in found else "chaos"
    begin, end = (mark.format(name) for mark in MARKS)
    if begin not in text or end not in text:
        raise ValueError(f"{page} has no place for this: {begin} and {end} are not in it.")
    before, _, rest = text.partition(begin)
    _, _, after = rest.partition(end)
    table = [
        "| figure | aim | found |",
        "|---|---|---|",
        *(
            f"| {each.what} | {each.aim} | {each.value}{'' if each.held else ' (short of its aim)'} |"
            for each in aims.judge(found)
        ),
    ]
    if "soak" in found:
        made = "\n".join([begin, _told(found), "", *table, end])
        page.write_text(f"{before}{made}{after}", encoding="utf-8")
        return
    again = ", ".join(f"{cause} {count:,}" for cause, count in found["started_again"].items())
    cases = ["| case | times |", "|---|---|", *(f"| {case} | {count:,} |" for case, count in found["cases"].items())]
    made = "\n".join(
        [begin, _told(found), "", *table, "", f"Started again: {again}.", "", "What the run met:", "", *cases, end]
    )
    page.write_text(f"{before}{made}{after}", encoding="utf-8")
