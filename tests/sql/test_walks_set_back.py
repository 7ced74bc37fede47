"""No walk rests for as long as the database's clock was ahead (T19, T20)."""

from collections.abc import Awaitable, Callable, Sequence
from datetime import timedelta
from functools import partial
from typing import Any

import pytest

from ferryman.agents.store import retention as turns
from ferryman.batches.store import retention as batches
from ferryman.ingest.store import retention as plans
from ferryman.kernel.pool import Session
from ferryman.tasks.store import retention, steps
from ferryman.testing import travel

MINUTE, DAY, YEAR = timedelta(minutes=1), timedelta(days=1), timedelta(days=365)
# A walk that has found nothing rests for a minute, and looks at the next page after five seconds.
TERMS: Any = {"span": 10, "pace": timedelta(seconds=5), "rest": MINUTE}
SHORT: Any = {"span": 10, "rest": MINUTE}
WALKS: dict[str, Callable[..., Awaitable[Sequence[Any]]]] = {
    "task": partial(retention.walk, kept=DAY, failed_kept=DAY, **TERMS),
    "turn": partial(turns.walk, kept=DAY, **TERMS),
    "batch": partial(batches.walk, kept=DAY, **TERMS),
    "ingest_plan": partial(plans.walk, kept=DAY, **TERMS),
    "schedule": partial(retention.schedules, kept=DAY, **SHORT),
    "signal": partial(retention.signals, **SHORT),
    "wait": partial(retention.waits, **SHORT),
    "stuck": partial(steps.stuck, span=10, pace=MINUTE),
}
RESTS = "select domain, next_at - ferryman.clock() as left from ferryman.retention where domain = $1"


async def rest_of(tx: Session, domain: str) -> timedelta:
    """Return for how long a walk still rests."""
    [row] = await tx.fetch(RESTS, domain)
    left: timedelta = row["left"]
    return left


async def test_every_walk_is_looked_at(given: Session) -> None:
    places = await given.fetch("select domain from ferryman.retention")

    assert {row["domain"] for row in places} == set(WALKS)


@pytest.mark.contract("K14", "T19", "T20")
@pytest.mark.parametrize("domain", WALKS)
async def test_a_walk_goes_on_although_the_clock_was_a_year_ahead_when_it_rested(given: Session, domain: str) -> None:
    walk = WALKS[domain]
    await travel(given, YEAR)
    await walk(given, 5)
    ahead = await rest_of(given, domain)
    await walk(given, 5)
    rested = await rest_of(given, domain)
    await travel(given, -YEAR)

    await walk(given, 5)

    assert MINUTE / 2 < rested <= ahead <= MINUTE, "who looks while it rests changes nothing"
    assert await rest_of(given, domain) <= MINUTE
