"""Waiting until a task has parked, without a clock: the worker rings when it has."""

import asyncio
from datetime import timedelta
from uuid import UUID

from ferryman import Ferryman
from ferryman.testing import travel
from tests.patience import PATIENCE_SECONDS
from tests.tasks.conftest import MakeApp

__all__ = ["MakeApp", "parked", "parks", "pass_time"]


async def parked(app: Ferryman, id: UUID, *, times: int = 1) -> None:
    """Wait until a task has parked so many times."""
    rung = asyncio.Event()
    hushes = [app.doorbell.listen(topic, lambda _hints: rung.set()) for topic in ("due", "ready")]
    try:
        async with asyncio.timeout(PATIENCE_SECONDS):
            while await parks(app, id) < times:
                rung.clear()
                if await parks(app, id) < times:
                    await rung.wait()
    finally:
        for hush in hushes:
            hush()


async def parks(app: Ferryman, id: UUID) -> int:
    """Count how often a task has parked, by its log."""
    return sum(event.reason_message == "parked" for event in await app.tasks.events(id))


async def pass_time(app: Ferryman, seconds: float) -> None:
    """Move the clock of the database, and let the sweep look at it."""
    async with app.database.session() as tx:
        await travel(tx, timedelta(seconds=seconds))
    app.doorbell.ring("due")
