"""The rows that benchmarks put in by the million look like those that the product leaves."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta

from bench.peers.ferryman import FILLS
from ferryman import Ferryman
from ferryman.kernel.pool import Database
from tests.patience import PATIENCE_SECONDS

# Of each column: is it null, and for those that say where a row stands, its value. Of the log: the moves. One that failed
# here has a backoff of its own, so that it waits.
SHAPES = """
select (select string_agg(format('%s %s', key, case
            when key in ('state', 'epoch', 'attempt', 'lease_count', 'schedule_type', 'last_error_code', 'queue', 'tenant')
            then coalesce(value #>> '{}', 'null') else (value = 'null'::jsonb)::text end), e'\\n' order by key)
        from jsonb_each(to_jsonb(task) - 'backoff'))
    || (select string_agg(format(e'\\n%s>%s', from_state, to_state), '' order by event.id)
        from ferryman.events as event where event.subject = task.id)
from ferryman.tasks as task
where (task.id > '01000000-0000-0000-0000-000000000000') = $1
order by 1
"""


async def shapes(db: Database, *, made: bool) -> list[str]:
    async with db.session() as tx:
        return [line for row in await tx.fetch(SHAPES, made) for line in row[0].splitlines()]


async def test_what_is_filled_in_looks_like_what_the_product_leaves(database_url: str, db: Database) -> None:
    app = Ferryman(database_url)

    @app.task
    async def noop(job: int) -> None: ...

    @app.task(backoff={"kind": "fixed", "base_seconds": 86_400, "jitter": 0})
    async def failing(job: int) -> None:
        raise ValueError("it broke")

    async with app:
        failed = await app.tasks.create(failing, job=0)
        async with app.worker():
            await (await app.tasks.create(noop, job=0)).result()
            async with asyncio.timeout(PATIENCE_SECONDS):
                while (await failed.refresh()).attempt == 1:  # noqa: ASYNC110 - the database says when it was settled
                    await asyncio.sleep(0)
        await app.tasks.create(noop, {"job": 0}, at=datetime.now(UTC) + timedelta(days=1))
        await app.tasks.create(noop, {"job": 0})

    for number, sql in enumerate(FILLS.values(), 1):
        async with db.session() as tx:
            for statement in sql.replace("{first}", str(number)).replace("{last}", str(number)).split(";"):
                if statement.strip():
                    await tx.execute(statement)

    assert await shapes(db, made=False) == await shapes(db, made=True)
