"""`ferryman demo`: a story of tasks on a real PostgreSQL, with real worker processes that are killed and frozen.

Everything is thrown away at the end: the embedded server lives in a temporary directory; on a server that
FERRYMAN_DATABASE_URL names, the story has a schema of its own and drops it.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import tempfile
import time
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Any

from ferryman.app import doctor as doctors
from ferryman.app.embedded import Embedded
from ferryman.cli import apps, logs
from ferryman.cli.demo import story
from ferryman.cli.demo.handlers import STRAIT_SLOTS
from ferryman.cli.demo.hands import Hands
from ferryman.cli.demo.stage import Stage
from ferryman.cli.demo.tale import Tale
from ferryman.cli.options import PLAIN, Options
from ferryman.cli.words import command
from ferryman.kernel import db, setting
from ferryman.kernel.pool import Line

SUMMARY = db.load("ferryman.cli.demo", "summary")
APP = "ferryman.cli.demo.handlers:app"
WORKERS = 3
SCHEMA = "ferryman_demo"


async def demo(*, options: Options = PLAIN) -> int:
    """Watch a story: schedules, limits, workflows, killed and frozen workers, ten thousand tasks at once.

    It uses an embedded PostgreSQL of its own, or the server that is named, and leaves nothing behind. It ends by itself in
    under a minute, with 1 if anything did not hold.
    """
    logs.hush()
    tale = Tale(options.screen)
    task = asyncio.current_task()
    assert task is not None
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, task.cancel)
    async with AsyncExitStack() as stack:
        url, schema = await stack.enter_async_context(_database(options, tale))
        app = apps.load(APP, {"database_url": url, "schema": schema})
        applied = await app.migrate()
        tale.tell(f"{len(applied)} migrations applied")
        hands = Hands(url, schema)
        stack.push_async_callback(hands.close)
        await stack.enter_async_context(app)
        began = time.monotonic()
        stage = Stage(app, hands, tale)
        await _start(stage)
        await story.play(stage, story.ACTS)
        summary = await _summary(stage)
        summary["seconds"] = round(time.monotonic() - began, 1)
    return _end(summary, options, tale)


@asynccontextmanager
async def _database(options: Options, tale: Tale) -> AsyncIterator[tuple[str, str]]:
    named = options.settings().database_url
    if named is None:
        with tempfile.TemporaryDirectory(prefix="ferryman-demo-", ignore_cleanup_errors=True) as folder:
            os.chmod(folder, 0o755)  # so that the server's user may go in when this is root
            embedded = Embedded(Path(folder) / "postgres", keep=False)
            tale.tell("starting an embedded PostgreSQL …")
            url = await asyncio.to_thread(embedded.start)
            tale.tell("it answers")
            try:
                yield url, db.SCHEMA
            finally:
                await asyncio.to_thread(embedded.stop)
        return
    schema = f"{SCHEMA}_{os.getpid()}"
    tale.tell(f"on {setting.show(named)}, schema {schema}")
    try:
        yield named, schema
    finally:
        line = Line(named)
        await line.fetch(f"drop schema if exists {schema} cascade")
        await line.close()


async def _start(stage: Stage) -> None:
    for _ in range(WORKERS):
        await stage.hands.start()
    there = await stage.crew(WORKERS)
    stage.tale.hold(len(there) == WORKERS, f"{len(there)} worker processes are there: {', '.join(map(str, there))}")


async def _summary(stage: Stage) -> dict[str, Any]:
    """Say what is true now, as the database tells it."""
    tale = stage.tale
    async with stage.app.database.session() as tx:
        row = await db.one(tx, SUMMARY)
    assert row is not None
    report = await doctors.examine(stage.app.settings)
    tale.act("What the database says")
    states = json.loads(row["states"])
    tale.tell("tasks by state: " + ", ".join(f"{count:,} {state}" for state, count in sorted(states.items())))
    tale.tell(f"{row['events']:,} events; {row['retries']} retries, {row['lost_leases']} of them after a lost lease")
    for reading in report.readings:
        if reading.name in {"overdue", "invariants", "bounds"}:
            tale.tell(f"{reading.name}: {reading.says}")
    for finding in report.findings:
        tale.hold(False, f"{finding.name}: {finding.says}")
    live = sum(count for state, count in states.items() if state in {"pending", "ready", "running"})
    tale.hold(live == 0 and report.healthy, "everything that boarded got across")
    return {
        "states": states,
        "events": row["events"],
        "retries": row["retries"],
        "lost_leases": row["lost_leases"],
        **asdict(stage.measured),
        "healthy": report.healthy,
    }


def _end(summary: dict[str, Any], options: Options, tale: Tale) -> int:
    summary["broken"] = tale.broken
    if options.json:
        options.screen.document(summary)
    tale.plain("")
    for about, said in _lines(summary):
        tale.plain(f"{about:<25} {said}", style="bold")
    tale.plain("")
    return tale.verdict()


def _lines(summary: dict[str, Any]) -> list[tuple[str, str]]:
    recovery = summary["recovery_seconds"]
    again = "did not run again" if recovery is None else f"ran again after {recovery:.2f} s"
    return [
        ("Task of a killed worker", again),
        ("Killed between steps", f"{summary['steps']} steps, {summary['step_calls']} calls"),
        ("Schedules", f"{summary['firings']} firings, {summary['fired_tasks']} tasks"),
        (f"Limit of {STRAIT_SLOTS}", f"at most {summary['most_at_once']} of {summary['limited']} at once"),
        ("Frozen worker", f"{summary['fenced']} late result that touched nothing"),
        (f"{story.CROWD:,} tasks", f"{summary['tasks_per_second']:,.0f} a second"),
        ("In all", f"{summary['seconds']} s"),
    ]


program = command("demo", demo)
