"""R4 for deliveries: whoever claims, settles, expires, spreads, tries anew or removes, in every order of their statements.

Three of them meet as well. What becomes of the deliveries is what becomes of them when one comes after another; and what was
settled is delivered, unless somebody took it from its holder.
"""

from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from datetime import timedelta
from functools import partial
from itertools import combinations, combinations_with_replacement, pairwise
from typing import Any, NamedTuple
from uuid import UUID

import pytest

from ferryman.kernel import ids, invariants
from ferryman.kernel.event_id import EventId
from ferryman.kernel.pool import Database, Session
from ferryman.relays.model import NewDelivery, Outcome
from ferryman.relays.states import DEAD, DELIVERED, DELIVERY, DISABLED, DeliveryState
from ferryman.relays.store import deliveries, webhooks
from ferryman.relays.watch import RELAY_INVARIANTS
from tests.property.interleave import MOST_OF_THREE, Program, driving, orders, some, walks
from tests.property.oracle import InTurn
from tests.property.stage import Stage, staging

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


class Did(NamedTuple):
    """What an act claimed, and whether it left something that another held; then it is done again, as a sender does."""

    claimed: Sequence[UUID] = ()
    left: bool = False


NEW = 1_000_000  # the event that is spread


async def claims(scene: Scene, tx: Session) -> Did:
    held = await webhooks.hold(tx, key_id="k", each=ROOM, limit=9)
    if not held:
        return Did(left=True)
    made = await deliveries.claim(tx, held, owner=ids.new_id(), each=ROOM, limit=9, lease=LEASE)
    return Did([each.id for each in made])


async def settles(scene: Scene, tx: Session) -> Did:
    _, busy = await deliveries.settle(tx, [Outcome(scene.lapsed, 1, "delivered", 200)], owner=HOLDER)
    return Did(left=bool(busy))


async def expires(scene: Scene, tx: Session) -> Did:
    found = [row["id"] for row in await deliveries.expired(tx, 9)]
    await deliveries.expire(tx, found)
    return Did()


async def spreads(scene: Scene, tx: Session) -> Did:
    new = NewDelivery(ids.new_id(), scene.webhook, EventId(NEW), "default", "task", "{}")
    await deliveries.create(tx, [new], ends_after=DAY)
    return Did()


async def retries(scene: Scene, tx: Session) -> Did:
    await deliveries.retry(tx, scene.dead, tenant="default", new_id=ids.new_id(), ends_after=DAY)
    return Did()


async def removes(scene: Scene, tx: Session) -> Did:
    await webhooks.disable(tx, scene.webhook, tenant="default", reason=None)
    return Did()


ACTS: dict[str, Callable[[Scene, Session], Awaitable[Did]]] = {
    "claim": claims, "settle": settles, "expire": expires, "spread": spreads, "retry": retries, "remove": removes,
}  # fmt: skip


# Of senders there may be two, or three.
THREES = [*combinations(ACTS, 3), *(("claim", "claim", third) for third in ACTS)]


async def lay(db: Database) -> Scene:
    """Set up a webhook with its deliveries."""
    terms: dict[str, Any] = {
        "tenant": "default",
        "name": None,
        "url": "https://a.example",
        "kinds": None,
        "after_id": 0,
    }
    async with db.transaction() as tx:
        webhook, made = ids.new_id(), [ids.new_id() for _ in range(4)]
        await webhooks.create(tx, webhook, key_id="k", **terms)
        new = [NewDelivery(id, webhook, EventId(-n), "default", "task", "{}") for n, id in enumerate(made)]
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
    return Scene(webhook, due, lapsed, over, dead)


@pytest.mark.contract("R4", "K10", "K4")
async def test_whoever_meets_whom_a_delivery_has_one_holder_and_one_end(db: Database, database_url: str) -> None:
    async with staging(database_url) as stage, driving(database_url) as driver:
        scene = await lay(db)
        await stage.keep()
        alone = {}
        for name, act in ACTS.items():
            await stage.reset()
            alone[name] = await driver.count(0, partial(act, scene))
        for pair in combinations_with_replacement(ACTS, 2):
            programs = [partial(ACTS[name], scene) for name in pair]
            turns = InTurn(programs, partial(in_turn, db, stage, scene))
            for order in some(orders(*(alone[name] for name in pair))):
                await stage.reset()
                try:
                    did = await driver.run(programs, order)
                    became = await settled(db, scene, pair, programs, did, said=f"in {order}")
                    came = driver.came([each.left for each in did])
                    assert await turns.tells(became, came), f"{became} is none of {turns.could}"
                except BaseException as error:
                    error.add_note(f"{pair} in the order {order}")
                    raise
            async with db.session() as tx:
                assert await invariants.check(tx, RELAY_INVARIANTS) == [], pair


@pytest.mark.contract("R4", "K10", "K4")
async def test_of_three_at_once_a_delivery_has_one_holder_and_one_end(db: Database, database_url: str) -> None:
    async with staging(database_url) as stage, driving(database_url, actors=3) as driver:
        scene = await lay(db)
        await stage.keep()
        for three in THREES:
            programs = [partial(ACTS[name], scene) for name in three]
            turns = InTurn(programs, partial(in_turn, db, stage, scene))
            for walk in walks(f"{three}", most=MOST_OF_THREE):
                await stage.reset()
                did = await driver.walk(programs, walk)
                became = await settled(db, scene, three, programs, did, said=f"in {walk.path}")
                came = driver.came([each.left for each in did])
                assert await turns.tells(became, came), (
                    f"{three} in order {walk.path}: {became} is none of {turns.could}"
                )
        assert driver.blocked > 0  # they did meet
    async with db.session() as tx:
        assert await invariants.check(tx, RELAY_INVARIANTS) == []


async def settled(
    db: Database, scene: Scene, names: Sequence[str], programs: Sequence[Program], did: Sequence[Did], *, said: str
) -> list[tuple[Any, ...]]:
    """Let those act again who left something, see that all of it is right, and say what became of the deliveries."""
    more = await again(db, [program for program, each in zip(programs, did, strict=True) if each.left])
    claimed = [id for each in (*did, *more) for id in each.claimed]
    await judge(db, scene, claimed, names=names, said=f"{names} {said}")
    return await found(db, scene)


async def again(db: Database, programs: Sequence[Program]) -> tuple[Did, ...]:
    """Let some act alone, one after another."""
    did = []
    for program in programs:
        async with db.transaction() as tx:
            did.append(await program(tx))
    return tuple(did)


async def in_turn(db: Database, stage: Stage, scene: Scene, programs: Sequence[Program]) -> list[tuple[Any, ...]]:
    """Say what becomes of the deliveries when one comes after another."""
    await stage.reset()
    await again(db, programs)
    return await found(db, scene)


FOUND = """
select delivery.event_id, delivery.retry_of is not null as anew, delivery.state, delivery.attempts, delivery.epoch,
       delivery.last_status, delivery.lease_owner = $2 as kept, webhook.state as webhook
from ferryman.webhook_deliveries as delivery
join ferryman.webhooks as webhook on webhook.id = delivery.webhook_id
where webhook.id = $1
order by 1, 2
"""


async def found(db: Database, scene: Scene) -> list[tuple[Any, ...]]:
    async with db.session() as tx:
        return [tuple(row) for row in await tx.fetch(FOUND, scene.webhook, HOLDER)]  # type: ignore[arg-type]  # a record is a sequence


async def judge(db: Database, scene: Scene, claimed: Sequence[UUID], *, names: Sequence[str], said: str) -> None:
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
    assert sum(row["event_id"] == NEW for row in rows) <= 1, said
    if "settle" in names and scene.lapsed not in claimed and "remove" not in names:
        assert states[scene.lapsed] == DELIVERED, said
    if "expire" in names or "remove" in names:
        assert states[scene.over] == DEAD, said
    if "remove" in names:
        assert webhook["state"] == DISABLED, said
        assert [row["id"] for row in rows if row["state"] == "pending" and row["id"] not in claimed] == [], said
    for id, state in states.items():
        went = [(event["from_state"], event["to_state"]) for event in told if event["subject"] == id]
        assert went[0] == (None, "pending"), said
        assert went[-1][1] == state, said
        for (_, before), (begins, ends_in) in pairwise(went):
            assert before == begins, said
            assert (DeliveryState(begins), DeliveryState(ends_in)) in DELIVERY.legal, said
