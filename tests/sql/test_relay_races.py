"""Two connections, one row of relays: whoever comes second sees what the first has done."""

from collections.abc import AsyncIterator

import pytest

from ferryman.kernel import events
from ferryman.kernel.events import Place
from ferryman.kernel.pool import Database, Line
from ferryman.relays.states import DEAD
from ferryman.relays.store import deliveries, relays, webhooks
from tests.sql.hooks import HOUR, LEASED, OTHER, OWNER, SECOND, TENANT, claim, hook, new, owed, row_of, settle
from tests.sql.test_races import begin_and_wait


@pytest.fixture
async def second(database_url: str) -> AsyncIterator[Line]:
    line = Line(database_url)
    yield line
    await line.close()


@pytest.mark.contract("K4", "K10")
async def test_a_relay_that_is_being_overtaken_does_not_move_the_place(db: Database, second: Line) -> None:
    async with db.transaction() as tx:
        await events.begin(tx, "r")
        await relays.take(tx, "r", owner=OWNER, lease=-SECOND)
    async with db.transaction() as first:
        await relays.take(first, "r", owner=OTHER, lease=HOUR)
        moving = await begin_and_wait(
            db, second, relays.advance(second, "r", Place(9), from_id=0, owner=OWNER, epoch=1, lease=SECOND)
        )

    assert not await moving
    async with db.session() as tx:
        assert await relays.place(tx, "r") == Place(0)
        assert (await relays.look(tx, "r", owner=OWNER) or 0) > 3000


@pytest.mark.contract("K4")
@pytest.mark.parametrize("by", ["claim", "settle"])
async def test_what_the_watchdog_is_ending_is_neither_claimed_nor_settled(db: Database, second: Line, by: str) -> None:
    async with db.transaction() as tx:
        webhook = await hook(tx)
        id = await owed(tx, webhook, **LEASED | {"leased_until": -SECOND, "next_at": -SECOND})
    async with db.transaction() as first:
        await first.fetch("update ferryman.webhook_deliveries set ends_at = ferryman.clock() - interval '1 s'")
        assert await deliveries.expire(first, [id]) == 1
        coming = await begin_and_wait(db, second, claim(second, webhook) if by == "claim" else settle(second, id))

    assert not await coming
    async with db.transaction() as tx:
        assert (await row_of(tx, "webhook_deliveries", id))["state"] == DEAD


@pytest.mark.contract("K6")
async def test_what_is_born_while_its_webhook_is_removed_is_dead_with_it(db: Database, second: Line) -> None:
    async with db.transaction() as tx:
        webhook = await hook(tx)
    born = new(webhook)

    async def remove() -> bool:
        async with second.transaction() as tx:
            return await webhooks.disable(tx, webhook, tenant=TENANT, reason=None)

    async with db.transaction() as first:
        await deliveries.create(first, [born], ends_after=HOUR)
        removing = await begin_and_wait(db, second, remove())

    assert await removing
    async with db.transaction() as tx:
        assert (await row_of(tx, "webhook_deliveries", born.id))["state"] == DEAD


@pytest.mark.contract("K6")
async def test_nothing_is_born_for_a_webhook_that_was_removed_meanwhile(db: Database, second: Line) -> None:
    async with db.transaction() as tx:
        webhook = await hook(tx)
        dead = await owed(tx, webhook, DEAD)
    async with db.transaction() as first:
        await webhooks.disable(first, webhook, tenant=TENANT, reason=None)
        bearing = await begin_and_wait(db, second, deliveries.create(second, [new(webhook)], ends_after=HOUR))
    assert await bearing == 0
    async with db.transaction() as tx:
        assert not await deliveries.retry(tx, dead, tenant=TENANT, new_id=new(webhook).id, ends_after=HOUR)
