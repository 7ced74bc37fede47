"""What tests of schedules have in common: firing what is due, moving the clock, what came of it."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import datetime, timedelta
from typing import Any

from ferryman.kernel.doorbell import NoDoorbell
from ferryman.kernel.pool import Database, Line
from ferryman.tasks.work.scheduler import Scheduler
from ferryman.testing import travel

MINUTE, HOUR, DAY = timedelta(minutes=1), timedelta(hours=1), timedelta(days=1)
REQUEST: dict[str, Any] = {
    "task_id": "nightly",
    "schedule_type": "cron",
    "cron_expr": "30 2 * * *",
    "timezone": "Europe/Berlin",
    "timeout_ms": 30000,
    "max_retries": 2,
    "idempotency_key": "order_1001",
    "idempotency_scope": "tenant_a",
    "payload": {"channel": "dingtalk", "request_id": "req-1"},
}


async def report(day: str = "today") -> str:
    return day


@asynccontextmanager
async def scheduling(url: str) -> AsyncIterator[tuple[Scheduler, Line]]:
    """Give a scheduler with a line of its own."""
    line = Line(url)
    yield Scheduler(line, NoDoorbell(), ends_after=DAY), line
    await line.close()


async def many(db: Database, count: int, **columns: Any) -> None:
    """Plant schedules that came due a second ago."""
    said = {"overlap": "allow", "catch_up": "latest", **columns}
    async with db.session() as tx:
        await tx.fetch(
            "insert into ferryman.schedules (id, next_run_at, created_at, updated_at, interval_ms, timeout_ms, max_retries,"
            " priority, declared, state, tenant, queue, name, schedule_type, catch_up, overlap, payload)"
            " select gen_random_uuid(), now - interval '1 s', now, now, 60000, 1000, 1, 0, false, 'active', 'default',"
            " 'default', 'report', 'every', $2, $3, '{}' from ferryman.clock() as now, generate_series(1, $1::integer)",
            count,
            said["catch_up"],
            said["overlap"],
        )


async def fire(url: str) -> int:
    """Fire all that is due."""
    line = Line(url)
    scheduler = Scheduler(line, NoDoorbell(), ends_after=DAY)
    fired = 0
    while count := await scheduler.once():
        fired += count
    await line.close()
    return fired


async def forward(db: Database, by: timedelta) -> None:
    async with db.session() as tx:
        await travel(tx, by)


async def to(db: Database, moment: datetime) -> None:
    """Move the clock to a moment."""
    async with db.session() as tx:
        [row] = await tx.fetch("select ferryman.clock() as now")
        await travel(tx, moment - row["now"])


async def times(db: Database) -> list[datetime]:
    async with db.session() as tx:
        rows = await tx.fetch("select fire_time from ferryman.tasks where schedule is not null order by fire_time")
    return [row["fire_time"] for row in rows]


async def states(db: Database) -> list[str]:
    async with db.session() as tx:
        rows = await tx.fetch("select state from ferryman.tasks where schedule is not null order by fire_time")
    return [row["state"] for row in rows]
