"""R1: the slots of a worker that was killed are free when its leases are, and not before."""

import os
import signal
from itertools import accumulate
from pathlib import Path
from typing import Any

import pytest

from ferryman.kernel.pool import Database
from ferryman.tasks.store import agreements
from tests.crash import cargo, judge
from tests.crash.conftest import Launch
from tests.crash.yard import LEASE_SECONDS, until

SLOTS = 2
# So rare that a lease is over for a while before somebody reaps it: meanwhile it holds its slot.
SWEEP = {"FERRYMAN_WORKER__LEASE_SWEEP_SECONDS": "1"}
# How many more tasks run after each transaction, in the order in which they wrote. Who claims may have looked at the clock
# before he waited for whoever made room, so the time of an event tells no order.
STEPS = """
    select sum((to_state = 'running')::int - coalesce(from_state = 'running', false)::int)::int as step
    from ferryman.events where kind = 'task' group by xmin::text order by min(id)
"""
# How long each task was held by its first claim.
HELD = """
    select subject::text as task,
           min(at) filter (where from_state = 'running') - min(at) filter (where to_state = 'running') as held
    from ferryman.events where kind = 'task' group by 1
"""


@pytest.mark.contract("R1", "T17")
async def test_the_slots_of_a_killed_worker_are_free_when_its_leases_are(
    database_url: str, ship: Launch, tmp_path: Path
) -> None:
    db = Database(database_url)
    await db.open()
    async with db.transaction() as tx:
        await agreements.add(tx, "default", tenant="*")
        await agreements.change(tx, "default", tenant="*", changes={"concurrency": SLOTS})
    gate = tmp_path / "gate"  # so that the first holds both slots when it dies
    acknowledged = await cargo.load(database_url, 12, hold=0.2, gate=str(gate))
    first = ship(database_url).start()
    await first.seen("start", count=SLOTS)
    second = ship(database_url).start(**SWEEP)
    os.kill(first.pid, signal.SIGKILL)
    await until(lambda: not first.alive(), "the end of the first")
    gate.touch()

    await judge.all_ended(database_url)

    lines = [*first.lines(), *second.lines()]
    await judge.judge(database_url, acknowledged, lines)
    assert await cargo.broken(database_url) == []
    assert overlap(lines) <= SLOTS
    # Also while nobody could know yet that the first is dead: its slots are nobody else's before its leases are over.
    steps = [row["step"] for row in await judge.read(database_url, STEPS)]
    assert max(accumulate(steps)) == SLOTS
    # What the dead one held was begun again when its lease was over: not before, and soon after.
    dead = {line["task"] for line in first.lines("start")}
    assert len(dead) == SLOTS
    there = max(line["at"] for line in [*first.lines("start"), *second.lines("working")])
    held = {row["task"]: row["held"].total_seconds() for row in await judge.read(database_url, HELD)}
    for task in dead:
        assert held[task] >= LEASE_SECONDS
        assert min(line["at"] for line in second.lines("start") if line["task"] == task) - there < LEASE_SECONDS + 6
    await db.close()


def overlap(lines: list[dict[str, Any]]) -> int:
    """Return how many ran at once, by what the processes wrote. What was killed has no end and is left out."""
    ends = {(line["task"], line["epoch"]): line["at"] for line in lines if line["what"] in ("end", "abort")}
    moments = []
    for line in lines:
        if line["what"] == "start" and (line["task"], line["epoch"]) in ends:
            moments += [(line["at"], 1), (ends[line["task"], line["epoch"]], -1)]
    return max(accumulate(step for _, step in sorted(moments)))
