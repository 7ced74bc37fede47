"""What fires fires once, and what has ended is known from what is stored (T11 for `at`, K1, K7)."""

import asyncio
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from ferryman.kernel.db import Row
from ferryman.kernel.doorbell import NoDoorbell
from ferryman.kernel.pool import Database, Line
from ferryman.tasks.work.due import Sweep
from ferryman.testing import travel
from tests.patience import PATIENCE_SECONDS
from tests.tasks.conftest import MakeApp


async def greet(name: str) -> str:
    return f"Hello, {name}"


async def told(db: Database, to_state: str) -> Sequence[Row]:
    async with db.session() as tx:
        return await tx.fetch("select subject from ferryman.events where to_state = $1", to_state)


@pytest.mark.contract("T11", "T9")
async def test_a_task_for_later_fires_once_however_many_sweep(
    make_app: MakeApp, db: Database, database_url: str
) -> None:
    app = await make_app(greet)
    later = datetime.now(UTC) + timedelta(hours=1)
    created = await app.tasks.create_many(greet, [{"name": str(n)} for n in range(1200)], at=later)
    async with db.session() as tx:
        await travel(tx, timedelta(hours=1, seconds=1))
    sweeps = [Sweep(Line(database_url), NoDoorbell(), poll=1.0) for _ in range(5)]

    async def sweep(each: Sweep) -> None:
        while await each.once() == 0.0:
            pass

    await asyncio.gather(*(sweep(each) for each in sweeps))

    fired = [row["subject"] for row in await told(db, "ready")]
    assert sorted(fired) == sorted(task.id for task in created)
    for each in sweeps:
        await each._line.close()


@pytest.mark.contract("K7", "K2", "K1")
async def test_a_result_is_known_from_the_stored_end_though_nobody_ever_rang(make_app: MakeApp) -> None:
    deaf: dict[str, Any] = {"doorbell": "none", "worker": {"poll": 0.05}}
    creator, worker = await make_app(greet, **deaf), await make_app(greet, **deaf)
    task = await creator.tasks.create(greet, name="Ada")

    async with worker.worker():
        assert await task.result(timeout=PATIENCE_SECONDS) == "Hello, Ada"
    assert (await (await worker.tasks.get(task.id)).result(timeout=PATIENCE_SECONDS)) == "Hello, Ada"
