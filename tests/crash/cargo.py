"""What the ships carry: tasks created by the test itself, and what must be true of them at the end."""

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from datetime import timedelta
from typing import Any

from ferryman import Ferryman
from ferryman.kernel import invariants, payload
from ferryman.kernel.pool import Database
from ferryman.tasks.intake import create
from ferryman.tasks.model import Created
from ferryman.tasks.rules import request
from ferryman.tasks.watch import SCHEDULE_INVARIANTS, TASK_INVARIANTS
from ferryman.testing import travel

RETRIES = 20


@asynccontextmanager
async def client(url: str) -> AsyncIterator[Ferryman]:
    """Open an app that runs nothing itself."""
    app = Ferryman(url, tasks={"max_retries": RETRIES})
    app.declare("job", backoff=0.05)
    app.declare("voyage", backoff=0.05)
    async with app:
        yield app


async def load(url: str, count: int, *, name: str = "job", **arguments: Any) -> list[str]:
    """Create plain tasks; return the ids that were acknowledged."""
    async with client(url) as app:
        made = await app.tasks.create_many(name, [{"key": f"t{n}", **arguments} for n in range(count)])
        return [str(handle.id) for handle in made]


async def load_owing(url: str, count: int, *, retries: int = RETRIES, **arguments: Any) -> list[str]:
    """Create tasks whose ends are owed to somebody."""
    db = Database(url)
    await db.open()
    try:
        async with db.transaction() as tx:
            await tx.fetch(
                "create table if not exists public.owed (ref text primary key, ends integer not null default 0)"
            )
            await tx.fetch("insert into public.owed (ref) select 'r' || n from generate_series(0, $1 - 1) as n", count)
            drafts = [
                request.draft(
                    tenant="default",
                    name="job",
                    payload=payload.encode({"key": f"t{n}", **arguments}),
                    defaults=request.Defaults(max_retries=retries),
                    callback="debt",
                    callback_ref=f"r{n}",
                )
                for n in range(count)
            ]
            made = await create.create(tx, drafts, ends_after=timedelta(days=1))
            return [str(each.task.id) for each in made if isinstance(each, Created)]
    finally:
        await db.close()


async def load_schedules(url: str, count: int, **arguments: Any) -> None:
    """Create schedules that are due once: an hour has passed since."""
    async with client(url) as app:
        for n in range(count):
            # Every other has a key: its firing looks before it is born.
            keys = {"singleton": f"s{n}"} if n % 2 else {}
            asked = {"name": "job", "payload": {"key": f"s{n}", **arguments}, "schedule_type": "every"}
            await app.schedules.accept(asked | {"interval": 3600} | keys)
        async with app.database.session() as tx:
            await travel(tx, timedelta(hours=1, minutes=5))


async def debts(url: str) -> list[int]:
    """Return how often each owner was told of the end it waits for."""
    db = Database(url)
    await db.open()
    try:
        async with db.session() as tx:
            return [row["ends"] for row in await tx.fetch("select ends from public.owed order by ref")]
    finally:
        await db.close()


async def broken(url: str) -> Sequence[invariants.Violation]:
    """Return the invariants that do not hold."""
    db = Database(url)
    await db.open()
    try:
        async with db.session() as tx:
            return await invariants.check(tx, [*TASK_INVARIANTS, *SCHEDULE_INVARIANTS, *invariants.KERNEL_INVARIANTS])
    finally:
        await db.close()
