"""What a dead process held is free within two leases although the clock was set back: relays and deliveries (K5)."""

import json
from datetime import timedelta
from uuid import UUID

import pytest

from ferryman.kernel import watchdog
from ferryman.kernel.pool import Session
from ferryman.relays import watch
from ferryman.relays.rules import ending
from ferryman.relays.store import deliveries, relays
from ferryman.tasks import store
from ferryman.tasks.states import READY, TASK
from ferryman.testing import plant, travel
from tests.sql.hooks import HOUR, OTHER, OWNER, SECOND, claim, hook, owed, row_of
from tests.sql.moves import columns

LEASE = timedelta(seconds=30)
CALL = timedelta(seconds=10)
LONG = "update ferryman.webhook_deliveries set leased_until = ferryman.clock() + $1"


async def beat(tx: Session, **leases: float) -> None:
    await store.beat(
        tx, boot_id=OWNER, tenant=None, host="h", pid=1, version="1", queues=[], handlers=[],
        settings=json.dumps(leases), lease=HOUR,
    )  # fmt: skip


async def looks(tx: Session) -> dict[str, int]:
    """Look by the rules, and say how much each found."""
    ticked = await watchdog.tick(tx, watch.set_back(every=SECOND, lease=LEASE, call=CALL))
    return {each.rule: each.found for each in ticked.outcomes}


@pytest.mark.contract("K5", "K10")
async def test_a_relay_is_taken_over_from_a_dead_holder(given: Session) -> None:
    await relays.take(given, "r", owner=OWNER, lease=LEASE)
    before = await looks(given)
    await travel(given, -HOUR)

    found = [await looks(given), await looks(given)]
    await travel(given, LEASE - SECOND)
    early = await relays.take(given, "r", owner=OTHER, lease=LEASE)
    await travel(given, 2 * SECOND)

    assert [each["K5-relays"] for each in (before, *found)] == [0, 1, 0]
    assert early is None
    assert await relays.take(given, "r", owner=OTHER, lease=LEASE) == 2


@pytest.mark.contract("K5", "K10")
async def test_a_delivery_is_sent_again_after_a_dead_sender(given: Session) -> None:
    held = ending.lease(CALL)
    id = await hook(given)
    delivery = await owed(given, id)
    waiting = await owed(given, id, next_at=HOUR)
    [first] = await deliveries.claim(given, [id], owner=OWNER, each=1, limit=1, lease=held)
    before = await looks(given)
    await travel(given, -HOUR)

    found = [await looks(given), await looks(given)]
    await travel(given, held - SECOND)
    early = await again(given, id)
    await travel(given, 2 * SECOND)

    assert [each["K5-deliveries"] for each in (before, *found)] == [0, 1, 0]
    assert (first.id, early) == (delivery, [])
    assert await again(given, id) == [delivery]
    assert (await row_of(given, "webhook_deliveries", waiting))["leased_until"] is None


async def again(tx: Session, webhook: UUID) -> list[UUID]:
    claimed = await deliveries.claim(tx, [webhook], owner=OTHER, each=1, limit=1, lease=ending.lease(CALL))
    return [each.id for each in claimed]


@pytest.mark.contract("K14")
async def test_what_waits_for_its_time_waits_until_the_clock_has_come_to_it_again(given: Session) -> None:
    """A retry that backs off, and a delivery that is to be tried again."""
    backing_off = await plant(given, TASK, READY, rank=None, wake_at=10 * SECOND)
    id = await hook(given)
    delivery = await owed(given, id, next_at=10 * SECOND)
    await travel(given, -HOUR)

    seen = []
    for pause in (timedelta(0), 11 * SECOND, HOUR - 2 * SECOND, 2 * SECOND):
        await travel(given, pause)
        count, _, _ = await store.promote(given, limit=5)
        seen.append((count, await again(given, id)))

    assert seen == [(0, []), (0, []), (0, []), (1, [delivery])]
    assert (await columns(given, backing_off, "state", "wake_at")) == {"state": "ready", "wake_at": None}


@pytest.mark.contract("K5")
async def test_who_says_that_it_works_with_longer_leases_is_left_alone(given: Session) -> None:
    await relays.take(given, "r", owner=OWNER, lease=4 * LEASE)
    id = await hook(given)
    await owed(given, id)
    await claim(given, id)
    await given.fetch(LONG, 4 * ending.lease(CALL))
    short = await looks(given)
    await relays.take(given, "r", owner=OWNER, lease=4 * LEASE)
    await given.fetch(LONG, 4 * ending.lease(CALL))
    await beat(
        given, lease_seconds=4 * LEASE.total_seconds(), delivery_lease_seconds=4 * ending.lease(CALL).total_seconds()
    )

    assert short == {"K5-relays": 1, "K5-deliveries": 1}
    assert await looks(given) == {"K5-relays": 0, "K5-deliveries": 0}
