"""How the story ends: what is true now, as the database tells it, and where to look at it."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from ferryman.app import doctor as doctors
from ferryman.app.doctor.report import Report
from ferryman.cli.demo import ground, story
from ferryman.cli.demo.handlers import STRAIT_SLOTS
from ferryman.cli.demo.stage import LOOK_SECONDS, Stage
from ferryman.cli.demo.tale import Tale
from ferryman.cli.options import Options
from ferryman.cli.spelling import called
from ferryman.kernel import db

SUMMARY = db.load("ferryman.cli.demo", "summary")
# What was told to stop may be on its way to its end.
SETTLING_SECONDS = 10.0
DOMAINS = ("states", "commands", "turns", "batches", "slices")
SPELLED = {"states": "tasks"}


async def summary(stage: Stage) -> dict[str, Any]:
    """Read what the story left behind, and say it."""
    row = await _settled(stage)
    report = await doctors.examine(stage.app.settings)
    tale = stage.tale
    tale.act("What the database says")
    counts = {name: json.loads(row[name] or "{}") for name in DOMAINS}
    for name, found in counts.items():
        tale.tell(f"{SPELLED.get(name, name):<10} {_spelled(found)}")
    tale.tell(f"{row['events']:,} events; {row['retries']} retries, {row['lost_leases']} of them after a lost lease")
    _examine(tale, report)
    tale.hold(row["live"] == 0 and report.healthy, "everything that boarded got across: nothing is live any more")
    told = {name: row[name] for name in ("records", "live", "events", "retries", "lost_leases")}
    return {**counts, **told, **asdict(stage.measured), "healthy": report.healthy}


async def _settled(stage: Stage) -> db.Row:
    until = time.monotonic() + SETTLING_SECONDS
    while True:
        async with stage.app.database.session() as tx:
            row = await db.one(tx, SUMMARY)
        assert row is not None
        if not row["live"] or time.monotonic() > until:
            return row
        await asyncio.sleep(LOOK_SECONDS)


def _examine(tale: Tale, report: Report) -> None:
    for reading in report.readings:
        if reading.name in {"overdue", "invariants"}:
            tale.tell(f"{reading.name:<10} {reading.says}")
    for finding in report.findings:
        tale.hold(False, f"{finding.name}: {finding.says}")


def _spelled(counts: Mapping[str, int]) -> str:
    return ", ".join(f"{count:,} {state}" for state, count in sorted(counts.items())) or "none"


def end(summary: dict[str, Any], place: ground.Ground, options: Options, tale: Tale) -> int:
    """Say it in a few lines, and where to read on; return the exit code."""
    summary["broken"] = tale.broken
    if options.json:
        options.screen.document(summary)
    tale.plain("")
    for about, said in _lines(summary):
        tale.plain(f"{about:<25} {said}", style="bold")
    tale.plain("")
    code = tale.verdict()
    for line in _onward(summary, place):
        tale.plain(line)
    return code


def _lines(summary: Mapping[str, Any]) -> list[tuple[str, str]]:
    recovery = summary["recovery_seconds"]
    again = "did not run again" if recovery is None else f"ran again after {recovery:.2f} s"
    bad = f"{summary['refusals']} refusals, {summary['breakdowns']} breakdowns and a kill"
    return [
        ("Task of a killed worker", again),
        ("Killed between steps", f"{summary['steps']} steps, {summary['step_calls']} calls"),
        ("Schedules", f"{summary['firings']} firings, {summary['fired_tasks']} tasks"),
        (f"Limit of {STRAIT_SLOTS}", f"at most {summary['most_at_once']} of {summary['limited']} at once"),
        ("Commands", _spelled(summary["commands"])),
        ("Turns of agents", _spelled(summary["turns"])),
        ("Batches", _spelled(summary["batches"])),
        ("Ingestion", f"{summary['parcels']:,} of {summary['parcels_there']:,} records through {bad}"),
        ("Frozen worker", f"{summary['fenced']} late result that touched nothing"),
        (f"{story.CROWD:,} tasks", f"{summary['tasks_per_second']:,.0f} a second"),
        ("In all", f"{summary['seconds']} s"),
    ]


def _onward(summary: Mapping[str, Any], place: ground.Ground) -> list[str]:
    program = called()
    if not place.kept:
        return [f"Nothing is left on the server; `{program} demo --keep` leaves it there for the dashboard."]
    address = summary["dashboard"] or "the address that it tells"
    return [f"All of it is still there: run `{program} dev --demo` and open {address}"]
