"""How long a claim is held, as the statements compute it (K5, T6)."""

import json
from datetime import timedelta
from typing import Any
from uuid import UUID

import pytest

from ferryman.kernel import errors, lease
from ferryman.kernel.db import Statement, one
from ferryman.kernel.pool import Session
from ferryman.kernel.settings import Settings
from ferryman.tasks import store
from ferryman.tasks.states import READY, RUNNING, TASK
from ferryman.testing import plant, travel
from tests.sql.moves import LANE, LEASE, MARGIN, OWNER, outcome, turn

HELD = Statement(
    "held",
    "select leased_until - started_at as held, started_at, leased_until, attempt, created_at, ends_at from ferryman.tasks"
    " where id = :id",
)
BOUND = Statement(
    "bound",
    "select terminal_by - ends_at - timeout_ms * interval '1 ms' - ferryman.slack() as margin"
    " from ferryman.bounds join ferryman.tasks using (id) where id = :id",
)


async def look(tx: Session, id: UUID) -> dict[str, Any]:
    row: Any = await one(tx, HELD, id=id)
    return dict(row.items())


async def claim(tx: Session) -> None:
    await turn(tx, lanes=[LANE])


async def renew(tx: Session, id: UUID) -> bool:
    answer = await store.renew(tx, [id], [1], owner=OWNER, lease=LEASE, margin=MARGIN)
    return answer == {id: True}


@pytest.mark.contract("K5")
async def test_a_fresh_claim_lasts_one_lease(given: Session) -> None:
    task = await plant(given, TASK, READY, timeout_ms=300_000)

    await claim(given)

    assert (await look(given, task))["held"] == LEASE


@pytest.mark.contract("K5", "T6")
async def test_neither_a_claim_nor_a_renewal_reaches_beyond_the_timeout_and_its_margin(given: Session) -> None:
    task = await plant(given, TASK, READY, timeout_ms=10_000)

    await claim(given)
    assert (await look(given, task))["held"] == timedelta(seconds=10) + MARGIN
    await travel(given, timedelta(seconds=9))

    assert await renew(given, task)
    assert (await look(given, task))["held"] == timedelta(seconds=10) + MARGIN


@pytest.mark.contract("K21", "T6")
@pytest.mark.parametrize("state", [READY, RUNNING])
async def test_the_published_bounds_count_on_the_margin_that_workers_use(given: Session, state: Any) -> None:
    task = await plant(given, TASK, state)

    row = await one(given, BOUND, id=task)

    assert row is not None
    assert row["margin"] == lease.MARGIN


@pytest.mark.contract("K17", "K5")
def test_two_seconds_is_the_shortest_lease() -> None:
    assert Settings.load({"worker": {"lease": lease.SHORTEST}}).worker.lease == timedelta(seconds=2)
    with pytest.raises(errors.SettingsInvalid, match=r"worker\.lease"):
        Settings.load({"worker": {"lease": lease.SHORTEST - timedelta(milliseconds=1)}})


@pytest.mark.contract("K8")
@pytest.mark.parametrize("path", ["retry", "lapse"])
async def test_no_retry_pushes_a_deadline_away(given: Session, path: str) -> None:
    task = await plant(given, TASK, READY, ends_at=timedelta(hours=1), created_at=-timedelta(hours=1))
    before = await look(given, task)

    for epoch in range(1, 4):
        await travel(given, timedelta(minutes=1))
        await claim(given)
        word = outcome(task, READY, epoch=epoch, code="TASK_TIMEOUT", reason="slow", used=1, delay=0.0)
        if path == "retry":
            _claimed, stale = await turn(given, word)
            assert stale == []
        else:
            await travel(given, LEASE)
            settled, _busy = await store.settle(given, [word], lapsed=True)
            assert len(settled) == 1
    after = await look(given, task)

    assert after["attempt"] == before["attempt"] + 3
    assert (after["created_at"], after["ends_at"]) == (before["created_at"], before["ends_at"])


async def far(tx: Session) -> list[UUID]:
    return [row["id"] for row in await store.shorten(tx, 10, lease=LEASE)]


@pytest.mark.contract("K5")
async def test_a_lease_of_a_time_before_the_clock_was_set_back_ends_one_lease_from_now(given: Session) -> None:
    task = await plant(given, TASK, READY, timeout_ms=300_000)
    await claim(given)
    now = await far(given)

    await travel(given, -2 * LEASE)
    then, again = await far(given), await far(given)
    await travel(given, LEASE - timedelta(seconds=1))
    early = [row["id"] for row in await store.lapsed(given, 10)]
    await travel(given, timedelta(seconds=2))

    assert (now, then, again, early) == ([], [task], [], [])
    assert [row["id"] for row in await store.lapsed(given, 10)] == [task]


@pytest.mark.contract("K5")
async def test_a_lease_of_a_worker_that_works_with_longer_ones_is_left_alone(given: Session) -> None:
    await plant(given, TASK, READY, timeout_ms=300_000)
    await claim(given)
    await store.beat(
        given, boot_id=OWNER, tenant=None, host="h", pid=1, version="1", queues=[], handlers=[],
        settings=json.dumps({"lease_seconds": 4 * LEASE.total_seconds()}), lease=LEASE,
    )  # fmt: skip

    await travel(given, -2 * LEASE)
    near = await far(given)
    await travel(given, -8 * LEASE)

    assert (near, len(await far(given))) == ([], 1)
