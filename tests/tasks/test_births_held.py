"""A key that somebody holds, in a transaction that he leaves open, holds up the one child that wants it (T17, K25)."""

import asyncio
import contextlib
from datetime import timedelta

import pytest

from ferryman import Context
from tests.patience import PATIENCE_SECONDS
from tests.tasks.conftest import MakeApp

# Less than a line that is not hurried waits for a lock: 10 s with a long lease, and 4 with that of every day.
LEASE = timedelta(minutes=5)
SOON_SECONDS = 8.0
WAITS = "select from pg_stat_activity where wait_event_type = 'Lock' and datname = current_database()"


async def report(customer: int = 1) -> int:
    return customer


async def flow(ctx: Context, customer: int) -> list[int]:
    return await ctx.join([ctx.child(report, customer=customer)])


class ChangedHisMind(Exception):
    """Whoever held it goes away without it."""


@pytest.mark.contract("T17", "T19", "K25")
async def test_a_key_that_somebody_holds_holds_up_no_other_child(make_app: MakeApp) -> None:
    app = await make_app(flow, (report, {"singleton": "s-{customer}"}))
    async with app.worker(lease=LEASE):
        with contextlib.suppress(ChangedHisMind):
            async with app.database.transaction() as tx:
                await app.tasks.create(report, customer=1, connection=tx._connection)
                stuck = await app.tasks.create(flow, customer=1)
                async with app.database.session() as looks, asyncio.timeout(PATIENCE_SECONDS):
                    while not await looks.fetch(WAITS):  # noqa: ASYNC110 - what PostgreSQL is doing
                        await asyncio.sleep(0.01)
                async with asyncio.timeout(SOON_SECONDS):
                    for n in (2, 3, 4):
                        handle = await app.tasks.create(flow, customer=n)
                        assert await handle.result(timeout=PATIENCE_SECONDS) == [n]
                raise ChangedHisMind

        assert await stuck.result(timeout=PATIENCE_SECONDS) == [1]
