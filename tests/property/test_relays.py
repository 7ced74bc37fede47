"""R4 for deliveries: whoever claims, settles, expires, spreads, tries anew or removes, in every order of their statements."""

from collections import Counter
from collections.abc import Awaitable, Callable
from datetime import timedelta
from itertools import combinations_with_replacement, pairwise
from typing import Any, NamedTuple
from uuid import UUID

import pytest

from ferryman.kernel import ids, invariants
from ferryman.kernel.pool import Database, Session
from ferryman.relays.model import NewDelivery, Outcome
from ferryman.relays.states import DEAD, DELIVERY, DISABLED, DeliveryState
from ferryman.relays.store import deliveries, webhooks
from ferryman.relays.watch import RELAY_INVARIANTS
from tests.property.interleave import driving, orders, some

DAY, LEASE = timedelta(days=1), timedelta(seconds=15)
HOLDER = UUID(int=1)
ROOM = 2


class Scene(NamedTuple):
    """A webhook, and what it is owed: one due, one whose holder is late, one whose time is over, and one that is dead."""

    webhook: UUID
    due: UUID
    lapsed: UUID
    over: UUID
    dead: UUID
    number: int


async def claims(tx: Session, scene: Scene) -> list[UUID]:
    held = await webhooks.hold(tx, key_id="k", each=ROOM, limit=9)
    if not held:
        return []
    return [each.id for each in await deliveries.claim(tx, held, owner=ids.new_id(), each=ROOM, limit=9, lease=LEASE)]


async def settles(tx: Session, scene: Scene) -> list[UUID]:
    await deliveries.settle(tx, [Outcome(scene.lapsed, 1, "delivered", 200)], owner=HOLDER)
    return []


async def expires(tx: Session, scene: Scene) -> list[UUID]:
    found = [row["id"] for row in await deliveries.expired(tx, 9)]
    await deliveries.expire(tx, found)
    return []


async def spreads(tx: Session, scene: Scene) -> list[UUID]:
    new = NewDelivery(ids.new_id(), scene.webhook, scene.number, "default", "task", "{}")
    await deliveries.create(tx, [new], ends_after=DAY)
    return []


async def retries(tx: Session, scene: Scene) -> list[UUID]:
    await deliveries.retry(tx, scene.dead, tenant="default", new_id=ids.new_id(), ends_after=DAY)
    return []


async def removes(tx: Session, scene: Scene) -> list[UUID]:
    await webhooks.disable(tx, scene.webhook, tenant="default", reason=None)
    return []


ACTS: dict[str, Callable[[Session, Scene], Awaitable[list[UUID]]]] = {
    "claim": claims, "settle": settles, "expire": expires, "spread": spreads, "retry": retries, "remove": removes,
}  # fmt: skip


async def scene(db: Database, number: int) -> Scene:
    """Set up a webhook with its deliveries; those of earlier orders are out of the way."""
    terms: dict[str, Any] = {
        "tenant": "default",
        "name": None,
        "url": "https://a.example",
        "kinds": None,
        "after_id": 0,
    }
    async with db.transaction() as tx:
        for row in await tx.fetch("select id from ferryman.webhooks where state <> 'disabled'"):
            await tx.fetch("update ferryman.webhook_deliveries set lease_owner = null, leased_until = null")
            await webhooks.disable(tx, row["id"], tenant="default", reason=None)
        webhook, made = ids.new_id(), [ids.new_id() for _ in range(4)]
        await webhooks.create(tx, webhook, key_id="k", **terms)
        new = [NewDelivery(id, webhook, -number * 10 - n, "default", "task", "{}") for n, id in enumerate(made)]
        await deliveries.create(tx, new, ends_after=DAY)
        due, lapsed, over, dead = made
        await tx.fetch(
            "update ferryman.webhook_deliveries set epoch = 1, attempts = 1, lease_owner = $2,"
            " leased_until = ferryman.clock() - interval '1 s' where id = any($1)",
            [lapsed, dead],
            HOLDER,
        )
        await deliveries.settle(tx, [Outcome(dead, 1, "dead", 500, "why")], owner=HOLDER)
        await tx.fetch(
            "update ferryman.webhook_deliveries set ends_at = ferryman.clock() - interval '1 s' where id = $1", over
        )
    return Scene(webhook, due, lapsed, over, dead, number + 1_000_000)


def acting(name: str, on: Scene) -> Callable[[Session], Awaitable[list[UUID]]]:
    return lambda tx: ACTS[name](tx, on)


@pytest.mark.contract("R4", "K10", "K4")
@pytest.mark.parametrize("pair", list(combinations_with_replacement(ACTS, 2)), ids="-".join)
async def test_whoever_meets_whom_a_delivery_has_one_holder_and_one_end(
    pair: tuple[str, str], db: Database, database_url: str
) -> None:
    async with driving(database_url) as driver:
        alone = [await driver.count(place, acting(name, await scene(db, place))) for place, name in enumerate(pair)]
        for nth, order in enumerate(some(orders(*alone)), start=2):
            set_up = await scene(db, nth)
            one, other = await driver.run((acting(pair[0], set_up), acting(pair[1], set_up)), order)

            await judge(db, set_up, [*one, *other], pair=pair, said=f"{pair} in order {order}")
    async with db.session() as tx:
        assert await invariants.check(tx, RELAY_INVARIANTS) == []


async def judge(db: Database, scene: Scene, claimed: list[UUID], *, pair: tuple[str, str], said: str) -> None:
    """Nothing was claimed twice or beyond the room; each has one history; a removed webhook is owed nothing."""
    async with db.session() as tx:
        rows = await tx.fetch("select * from ferryman.webhook_deliveries where webhook_id = $1", scene.webhook)
        [webhook] = await tx.fetch("select state from ferryman.webhooks where id = $1", scene.webhook)
        told = await tx.fetch(
            "select subject, from_state, to_state from ferryman.events where subject = any($1) order by id",
            [row["id"] for row in rows],
        )
    states = {row["id"]: row["state"] for row in rows}
    leased = [row["id"] for row in rows if row["lease_owner"] not in (None, HOLDER)]
    assert max(Counter(claimed).values(), default=1) == 1, said
    assert len(claimed) <= ROOM, said
    assert set(leased) == set(claimed), said
    assert scene.over not in claimed, said
    assert states[scene.dead] == DEAD, said
    assert sum(row["retry_of"] is not None for row in rows) <= 1, said
    assert sum(row["event_id"] == scene.number for row in rows) <= 1, said
    if "expire" in pair or "remove" in pair:
        assert states[scene.over] == DEAD, said
    if "remove" in pair:
        assert webhook["state"] == DISABLED, said
        assert [row["id"] for row in rows if row["state"] == "pending" and row["id"] not in claimed] == [], said
    for id, state in states.items():
        went = [(event["from_state"], event["to_state"]) for event in told if event["subject"] == id]
        assert went[0] == (None, "pending"), said
        assert went[-1][1] == state, said
        for (_, before), (begins, ends_in) in pairwise(went):
            assert before == begins, said
            assert (DeliveryState(begins), DeliveryState(ends_in)) in DELIVERY.legal, said
