"""Many watchdogs, as many workers have them: the tick is one row, and each finding is one."""

import asyncio
from dataclasses import replace
from datetime import timedelta

import pytest

from ferryman.kernel.pool import Database
from ferryman.kernel.watchdog import Watchdog
from tests.patience import PATIENCE_SECONDS
from tests.watchdog.ward import HEAL, admit, healed, lines

DOGS, FINDINGS = 30, 60


@pytest.mark.contract("W23")
async def test_thirty_watchdogs_at_one_moment_act_on_each_finding_once_and_wait_for_nobody(
    ward: Database, database_url: str
) -> None:
    await admit(ward, FINDINGS)
    async with lines(database_url, DOGS) as many:
        dogs = [Watchdog(each, [replace(HEAL, limit=5, every=timedelta(0))]) for each in many]

        async with asyncio.timeout(PATIENCE_SECONDS):
            while 0 in (await healed(ward)).values():
                reports = await asyncio.gather(*(dog.tick() for dog in dogs))
                assert sum(report.spoiled() for report in reports) == 0

    assert await healed(ward) == dict.fromkeys(range(1, FINDINGS + 1), 1)
