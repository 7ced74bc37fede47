"""The rule by which ended turns leave (T20)."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from functools import partial

from ferryman.agents import leavings
from ferryman.agents.store import retention as past
from ferryman.kernel.db import Row, Tx
from ferryman.kernel.watchdog import Rule, walking


def retention(*, kept: timedelta) -> Rule:
    """Return the rule by which ended turns and messages leave."""

    async def forget(tx: Tx, found: Sequence[Row]) -> int:
        return await leavings.forget(tx, [row["id"] for row in found], kept=kept)

    return Rule(
        name="T20-turns",
        finds="a turn, or another message, that ended longer ago than such are kept and that nothing live needs",
        does="deletes it, with its calls, steps, edges, boxes and cards; a derived agent goes with its last turn",
        setting="worker.watchdog_interval_seconds",
        every=walking.PACE,
        find=partial(past.walk, kept=kept, span=walking.SPAN, pace=walking.PACE, rest=walking.REST),
        act=forget,
    )
