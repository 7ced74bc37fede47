"""How tasks come to be: at once, later, by schedules, with somebody else's work, and never twice."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from contextlib import suppress
from datetime import UTC, datetime, timedelta

from ferryman.cli.demo.stage import LOOK_SECONDS, PATIENCE_SECONDS, Stage
from ferryman.kernel import db

FIRINGS = db.load("ferryman.cli.demo", "firings")
ORDERS = db.load("ferryman.cli.demo", "orders")
ORDER = db.load("ferryman.cli.demo", "order")
SEEN = db.load("ferryman.cli.demo", "seen")

BELLS = 10
ROUNDS = 3
CRON = "0 8 * * 1-5"
ZONE = "Europe/Berlin"


async def now(stage: Stage) -> None:
    """A task that runs at once."""
    stage.tale.act("A task, now")
    cold = await _greet(stage, "Ada")
    warm = await _greet(stage, "Grace")
    stage.tale.hold(
        warm < PATIENCE_SECONDS,
        f"another process answered after {cold * 1000:.0f} ms, then after {warm * 1000:.0f} ms",
    )


async def _greet(stage: Stage, name: str) -> float:
    began = time.monotonic()
    answer = await (await stage.app.tasks.create("greet", name=name)).result(timeout=PATIENCE_SECONDS)
    stage.tale.tell(repr(answer))
    return time.monotonic() - began


async def later(stage: Stage) -> None:
    """A task that waits for its time."""
    stage.tale.act("A task in two seconds")
    due = datetime.now(UTC) + timedelta(seconds=2)
    handle = await stage.app.tasks.create("greet", {"name": "later"}, at=due)
    stage.tale.tell(f"created, {handle.task.state.value} until {due:%H:%M:%S.%f}"[:-3])
    await handle.result(timeout=PATIENCE_SECONDS)
    started = (await handle.refresh()).started_at
    assert started is not None
    after = (started - due).total_seconds() * 1000
    stage.tale.hold(after >= 0, f"it ran {after:.0f} ms after its time")


async def scheduling(stage: Stage) -> None:
    """Schedules that every worker may fire."""
    schedulers = len(await stage.workers())
    stage.tale.act(f"{BELLS} schedules, every second, and {schedulers} workers that fire them")
    schedules = stage.app.schedules
    for n in range(BELLS):
        await schedules.create("chime", every=1, schedule_id=f"bell-{n}", bell=n)
    report = await schedules.create("chime", cron=CRON, timezone=ZONE, schedule_id="report", bell=0)
    [first] = await report.next(1)
    stage.tale.tell(f'cron "{CRON}", {ZONE}, is next due {first:%a %d %b %H:%M} UTC')
    fired = await _fired(stage, until=time.monotonic() + PATIENCE_SECONDS)
    for name in [*(f"bell-{n}" for n in range(BELLS)), "report"]:
        await schedules.delete(name)
    fired = await _fired(stage, until=0)
    due, tasks, times, missed = (sum(row[name] for row in fired) for name in ("due", "tasks", "times", "missed"))
    stage.measured.firings = due
    stage.measured.fired_tasks = tasks
    made_up = f" ({missed} missed)" if missed else ""
    stage.tale.hold(
        min(row["tasks"] for row in fired) >= ROUNDS and tasks == times == due - missed,
        f"{due} firings came due{made_up}, and there are {tasks} tasks: one for each",
    )


async def _fired(stage: Stage, *, until: float) -> Sequence[db.Row]:
    """Wait until each has fired some times, and return what is known of each."""
    while True:
        async with stage.app.database.session() as tx:
            rows = await db.many(tx, FIRINGS)
        if min(row["tasks"] for row in rows) >= ROUNDS or time.monotonic() >= until:
            return rows
        await asyncio.sleep(LOOK_SECONDS)


class _ChangedMind(Exception):
    """The caller rolls back."""


async def lending(stage: Stage) -> None:
    """A task that is created in a caller's own transaction."""
    stage.tale.act("An order and its task, in one transaction of the caller's")
    async with stage.app.database.session() as tx:
        await db.many(tx, ORDERS)
    with suppress(_ChangedMind):
        await _order(stage, 1, keep=False)
    orders, tasks = await _seen(stage)
    stage.tale.hold((orders, tasks) == (0, 0), f"rolled back: {orders} orders, {tasks} tasks")
    before = await _order(stage, 2, keep=True)
    orders, tasks = await _seen(stage)
    stage.tale.hold(
        (before, orders, tasks) == ((0, 0), 1, 1),
        f"committed: {orders} order, {tasks} task; before the commit others saw {before[1]}",
    )
    handle = await stage.app.tasks.get("ship-2")
    stage.tale.tell(repr(await handle.result(timeout=PATIENCE_SECONDS)))


async def _order(stage: Stage, number: int, *, keep: bool) -> tuple[int, int]:
    """Store an order and its task together; return what others see of it before the commit."""
    async with stage.app.database.transaction() as tx:
        await db.many(tx, ORDER, number=number)
        await stage.app.tasks.create("ship", {"order": number}, task_id=f"ship-{number}", connection=tx)
        seen = await _seen(stage)
        if not keep:
            raise _ChangedMind
    return seen


async def _seen(stage: Stage) -> tuple[int, int]:
    async with stage.app.database.session() as tx:
        row = await db.one(tx, SEEN)
    assert row is not None
    return row["orders"], row["tasks"]


async def repeating(stage: Stage) -> None:
    """A create that is sent twice."""
    stage.tale.act("The same create twice, with one idempotency key")
    first = await stage.app.tasks.create("greet", {"name": "once"}, idempotency_key="demo")
    again = await stage.app.tasks.create("greet", {"name": "once"}, idempotency_key="demo")
    stage.tale.hold(again.idempotent_hit and again.id == first.id, "the second answered with the task of the first")
