"""The acts of the story, in order: each makes something happen to real processes, and says whether what was promised held."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Coroutine, Sequence
from typing import Any

from ferryman.cli.demo import agents, batch, births, deaths, ends, harvest, novel, waits
from ferryman.cli.demo.stage import Stage
from ferryman.kernel import errors
from ferryman.tasks.intake import read

Act = Callable[[Stage], Coroutine[Any, Any, None]]

CROWD = 10_000


async def play(stage: Stage, acts: Sequence[Act]) -> None:
    """Play acts in order; one that breaks off is the last, and did not hold."""
    for act in acts:
        try:
            await act(stage)
        except (TimeoutError, errors.FerrymanError) as error:
            stage.tale.hold(False, f"{act.__name__} broke off: {str(error) or 'it took too long'}")
            return


async def crowding(stage: Stage) -> None:
    """Ten thousand tasks at once."""
    stage.tale.act(f"{CROWD:,} tasks at once")
    began = time.monotonic()
    await stage.app.tasks.create_many("count", [{"n": n} for n in range(CROWD)])
    created = time.monotonic() - began
    stage.tale.tell(f"created in {created:.1f} s ({CROWD / created:,.0f}/s), all or none")
    with stage.tale.counting("done", CROWD) as counter:
        while left := await _left(stage):
            counter.now(CROWD - left)
            await asyncio.sleep(0.1)
        counter.now(CROWD)
    took = time.monotonic() - began
    stage.measured.tasks_per_second = CROWD / took
    stage.tale.hold(
        await _left(stage) == 0, f"all ended {took:.1f} s after the first was created: {CROWD / took:,.0f}/s"
    )


async def _left(stage: Stage) -> int:
    async with stage.app.database.session() as tx:
        return sum(each.count for each in await read.depth(tx))


ACTS: tuple[Act, ...] = (
    births.now, births.later, births.scheduling, births.lending, births.repeating,
    ends.stumbling, ends.timing_out, ends.cancelling,
    waits.approving, waits.limiting,
    novel.directing,
    deaths.killing, deaths.surviving, agents.researching, batch.forking, harvest.harvesting, deaths.freezing,
    crowding,
)  # fmt: skip
