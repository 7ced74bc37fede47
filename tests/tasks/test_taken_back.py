"""What was taken back from a dead worker keeps its place in the line, and is begun at once (W13, T7)."""

import asyncio
from datetime import timedelta

import pytest

from ferryman.kernel.looks import Pace
from ferryman.tasks.states import RUNNING, SUCCEEDED, TASK
from ferryman.tasks.work import places
from ferryman.testing import plant
from tests.patience import PATIENCE_SECONDS
from tests.tasks.conftest import MakeApp

HOUR = timedelta(hours=1)
SECOND = timedelta(seconds=1)


class Starved(Pace):
    """Looks that are believed to walk far, and are not allowed before the end of the test."""

    @property
    def walk(self) -> float:
        return 3600.0

    def rest(self) -> float:
        return 3600.0


async def echo(n: int) -> int:
    return n


@pytest.mark.contract("W13", "P13")
async def test_what_is_taken_back_is_begun_at_once_where_looks_from_the_front_are_put_off(
    make_app: MakeApp, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(places, "Pace", Starved)
    app = await make_app(echo)
    async with (
        app.database.session() as tx
    ):  # else it takes the age of its template for an outage, and grants a lease's grace
        await tx.fetch("update ferryman.watchdog set ticked_at = clock_timestamp()")

    async with app.worker():
        assert (await app.tasks.end((await app.tasks.create(echo, n=1)).id)).state is SUCCEEDED
        async with app.database.transaction() as tx:
            lost = await plant(tx, TASK, RUNNING, name="echo", payload={"n": 2}, due_at=-HOUR, leased_until=-SECOND)

        # In front of what was claimed since, where nobody looks of himself.
        async with asyncio.timeout(PATIENCE_SECONDS):
            assert (await app.tasks.end(lost)).state is SUCCEEDED
