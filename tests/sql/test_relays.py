"""The statements of relays, each against every state; their guards, their invariants, and the guard of the database."""

import json
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID, uuid4

import pytest

from ferryman.kernel import errors, events, ids, invariants
from ferryman.kernel.events import Place
from ferryman.kernel.machine import Machine
from ferryman.kernel.pool import Database, Session
from ferryman.relays import intake
from ferryman.relays.model import Claimed, NewDelivery, Outcome
from ferryman.relays.rules import ending
from ferryman.relays.states import (
    ACTIVE,
    DEAD,
    DELIVERED,
    DELIVERY,
    DISABLED,
    PAUSED,
    PENDING,
    WEBHOOK,
    DeliveryState,
    WebhookState,
)
from ferryman.relays.store import deliveries, relays, webhooks
from ferryman.relays.watch import RELAY_INVARIANTS

SECOND, HOUR, DAY = timedelta(seconds=1), timedelta(hours=1), timedelta(days=1)
OWNER, OTHER = UUID(int=1), UUID(int=2)
EPOCH = 7
TENANT = "default"


class _Undone(Exception):
    pass


async def now_of(tx: Session) -> datetime:
    [row] = await tx.fetch("select ferryman.clock() as now")
    now: datetime = row["now"]
    return now


async def put(tx: Session, table: str, row: dict[str, Any]) -> UUID:
    """Put one row into a table, past the guard of births; nothing is logged."""
    now = await now_of(tx)
    told = {name: now + value if isinstance(value, timedelta) else value for name, value in row.items()}
    text = json.dumps(told, default=lambda each: each.isoformat() if isinstance(each, datetime) else str(each))
    await tx.execute("set local session_replication_role = replica")
    await tx.fetch(
        f"insert into ferryman.{table} select (jsonb_populate_record(null::ferryman.{table}, $1::jsonb)).*", text
    )
    await tx.execute("set local session_replication_role = origin")
    id: UUID = row["id"]
    return id


async def hook(tx: Session, state: WebhookState = ACTIVE, **columns: Any) -> UUID:
    row = {
        "id": uuid4(), "tenant": TENANT, "url": "https://example.com/", "state": state.value, "after_id": 0, "key_id": "k",
        "secret_version": 1, "created_at": -DAY, "updated_at": -DAY, "disabled_at": -HOUR if state is DISABLED else None,
    }  # fmt: skip
    return await put(tx, "webhooks", row | columns)


async def owed(tx: Session, webhook: UUID, state: DeliveryState = PENDING, **columns: Any) -> UUID:
    row = {
        "id": uuid4(), "webhook_id": webhook, "event_id": uuid4().int % 2**60, "epoch": 0, "next_at": -SECOND, "ends_at": DAY,
        "created_at": -HOUR, "attempts": 0, "state": state.value, "tenant": TENANT, "kind": "task", "body": "{}",
        "finished_at": None if state is PENDING else -HOUR,
    }  # fmt: skip
    return await put(tx, "webhook_deliveries", row | columns)


LEASED: dict[str, Any] = {"lease_owner": OWNER, "leased_until": HOUR, "next_at": HOUR, "epoch": EPOCH, "attempts": 2}


async def row_of(tx: Session, table: str, id: UUID) -> dict[str, Any]:
    [row] = await tx.fetch(f"select to_jsonb(row)::text as row from ferryman.{table} as row where id = $1", id)
    found: dict[str, Any] = json.loads(row["row"])
    return found


async def told_of(tx: Session, id: UUID) -> list[tuple[Any, ...]]:
    rows = await tx.fetch(
        "select kind, from_state, to_state, reason_code, reason_message, tenant from ferryman.events where subject = $1"
        " order by id",
        id,
    )
    return [tuple(row) for row in rows]  # type: ignore[arg-type]  # a record is a sequence


async def claim(tx: Session, *held: UUID, each: int = 9, limit: int = 9) -> list[Claimed]:
    return await deliveries.claim(tx, held, owner=OWNER, each=each, limit=limit, lease=timedelta(seconds=15))


async def settle(tx: Session, id: UUID, word: str = "delivered", *, epoch: int = EPOCH, **more: Any) -> dict[UUID, str]:
    return await deliveries.settle(tx, [Outcome(id, epoch, word, **more)], owner=more.pop("owner", OWNER))


# What moves a webhook


@pytest.mark.contract("K3", "K6", "K10")
@pytest.mark.parametrize("state", list(WebhookState))
@pytest.mark.parametrize("move", ["pause", "resume", "disable"])
async def test_a_statement_moves_exactly_what_is_declared(given: Session, state: WebhookState, move: str) -> None:
    id = await hook(given, state)
    before = await row_of(given, "webhooks", id)

    moved = await getattr(webhooks, move)(given, id, tenant=TENANT, reason="why")

    assert moved is WEBHOOK.allows(move, state)
    after = await row_of(given, "webhooks", id)
    if not moved:
        assert after == before
        assert await told_of(given, id) == []
        return
    to = next(each.to for each in WEBHOOK.moves if each.name == move)
    assert after["state"] == to
    assert (after["disabled_at"] is not None) is (to is DISABLED)
    assert after["updated_at"] > before["updated_at"]
    assert await told_of(given, id) == [("webhook", state, to, None, "why", TENANT)]


@pytest.mark.contract("K12")
@pytest.mark.parametrize(("move", "state"), [("pause", ACTIVE), ("resume", PAUSED), ("disable", ACTIVE)])
async def test_a_move_touches_one_webhook_of_one_tenant(given: Session, move: str, state: WebhookState) -> None:
    id, other = await hook(given, state), await hook(given, state)

    assert not await getattr(webhooks, move)(given, id, tenant="other", reason=None)
    assert await getattr(webhooks, move)(given, id, tenant=TENANT, reason=None)

    assert (await row_of(given, "webhooks", other))["state"] == state


@pytest.mark.contract("K6", "K10")
async def test_what_a_removed_webhook_was_owed_is_dead_with_it(given: Session) -> None:
    id, other = await hook(given), await hook(given)
    waiting, lapsed = await owed(given, id, attempts=3), await owed(given, id, **LEASED | {"leased_until": -SECOND})
    sent, kept = await owed(given, id, **LEASED), await owed(given, other)
    won = await owed(given, id, DELIVERED)

    await webhooks.disable(given, id, tenant=TENANT, reason=None)

    for each in (waiting, lapsed):
        row = await row_of(given, "webhook_deliveries", each)
        assert (row["state"], row["last_error"], row["leased_until"]) == (DEAD, "its webhook was removed", None)
        assert await told_of(given, each) == [
            ("webhook_delivery", PENDING, DEAD, "WEBHOOK_UNDELIVERED", "its webhook was removed", TENANT)
        ]
    for each, state in ((sent, PENDING), (kept, PENDING), (won, DELIVERED)):
        assert (await row_of(given, "webhook_deliveries", each))["state"] == state
        assert await told_of(given, each) == []


@pytest.mark.contract("S6")
async def test_a_secret_is_changed_once_for_one_webhook_that_is_there(given: Session) -> None:
    id, other, gone = await hook(given), await hook(given, PAUSED), await hook(given, DISABLED)

    assert await webhooks.rotate(given, id, tenant=TENANT, key_id="new") == 2
    assert await webhooks.rotate(given, id, tenant="other", key_id="new") is None
    assert await webhooks.rotate(given, gone, tenant=TENANT, key_id="new") is None

    assert (await row_of(given, "webhooks", other))["secret_version"] == 1
    row = await row_of(given, "webhooks", id)
    assert (row["key_id"], row["rotated_at"] is not None) == ("new", True)


@pytest.mark.contract("K11", "K12")
async def test_a_name_is_taken_once_for_a_tenant_and_free_again_at_the_end(given: Session) -> None:
    async def add(**more: Any) -> bool:
        terms = {"tenant": TENANT, "name": "alarms", "url": "https://a", "kinds": None, "after_id": 0, "key_id": "k"}
        return await webhooks.create(given, ids.new_id(), **terms | more)

    assert await add()
    assert not await add()
    assert await add(tenant="other")
    assert await add(name=None)
    found = await webhooks.get(given, tenant=TENANT, id=None, name="alarms")
    assert found is not None
    assert await told_of(given, found.id) == [("webhook", None, ACTIVE, None, None, TENANT)]
    await webhooks.disable(given, found.id, tenant=TENANT, reason=None)
    assert await add()
    again = await webhooks.get(given, tenant=TENANT, id=None, name="alarms")
    assert again is not None
    assert (again.state, again.id != found.id) == (ACTIVE, True)
    assert await webhooks.get(given, tenant="third", id=found.id, name=None) is None


@pytest.mark.contract("K12")
async def test_lists_are_of_one_tenant_newest_first_a_page_at_a_time(given: Session) -> None:
    active = [await hook(given, id=UUID(int=n)) for n in (3, 1, 2)]
    paused = await hook(given, PAUSED, id=UUID(int=9))
    await hook(given, tenant="other")

    async def page(**more: Any) -> list[UUID]:
        terms = {"tenant": TENANT, "state": None, "before": None, "limit": 9} | more
        return [each.id for each in await webhooks.list_page(given, **terms)]

    assert await page() == [paused, *sorted(active, reverse=True)]
    assert await page(limit=2) == [paused, UUID(int=3)]
    assert await page(before=UUID(int=3)) == [UUID(int=2), UUID(int=1)]
    assert await page(state="paused") == [paused]


@pytest.mark.contract("K12")
async def test_who_is_told_is_of_these_tenants_and_not_removed(given: Session) -> None:
    active, paused = await hook(given), await hook(given, PAUSED)
    await hook(given, DISABLED)
    await hook(given, tenant="other")

    assert {each.id for each in await webhooks.told(given, [TENANT, "third"])} == {active, paused}


# Births of deliveries


def new(webhook: UUID, event_id: int = 1) -> NewDelivery:
    return NewDelivery(uuid4(), webhook, event_id, TENANT, "task", "{}")


@pytest.mark.contract("K10", "K11")
async def test_one_event_is_one_delivery_of_one_webhook_that_is_there(given: Session) -> None:
    active, paused, gone = [await hook(given, state) for state in (ACTIVE, PAUSED, DISABLED)]
    first = new(active)

    assert await deliveries.create(given, [first, new(paused), new(gone)], ends_after=HOUR) == 2
    assert await deliveries.create(given, [new(active), new(active, 2)], ends_after=HOUR) == 1

    row = await row_of(given, "webhook_deliveries", first.id)
    span = datetime.fromisoformat(row["ends_at"]) - datetime.fromisoformat(row["created_at"])
    assert (row["state"], row["attempts"], span, row["next_at"]) == (PENDING, 0, HOUR, row["created_at"])
    assert await told_of(given, first.id) == [("webhook_delivery", None, PENDING, None, None, TENANT)]
    assert await given.fetch("select from ferryman.webhook_deliveries where webhook_id = $1", gone) == []


# Claims


@pytest.mark.contract("K5", "K10")
async def test_a_webhook_is_held_when_it_is_active_of_our_key_and_has_something_due_and_room(given: Session) -> None:
    due = await hook(given)
    await owed(given, due)
    cases = {
        "paused": await hook(given, PAUSED),
        "of another key": await hook(given, key_id="x"),
        "nothing due": await hook(given),
        "over": await hook(given),
        "full": await hook(given),
    }
    for id in cases.values():
        await owed(given, id, next_at=HOUR if id == cases["nothing due"] else -SECOND)
    await given.fetch(
        "update ferryman.webhook_deliveries set ends_at = created_at where webhook_id = $1", cases["over"]
    )
    await owed(given, cases["nothing due"], DELIVERED)
    for _ in range(2):
        await owed(given, cases["full"], **LEASED)
        await owed(given, due, **LEASED | {"leased_until": -SECOND})

    assert await webhooks.hold(given, key_id="k", each=2, limit=9) == [due]
    assert await webhooks.hold(given, key_id="k", each=2, limit=0) == []


@pytest.mark.contract("K10")
async def test_a_webhook_that_another_holds_is_passed_over(db: Database) -> None:
    async with db.transaction() as tx:
        id = await hook(tx)
        await owed(tx, id)
    async with db.transaction() as one, db.transaction() as other:
        assert await webhooks.hold(one, key_id="k", each=1, limit=9) == [id]
        assert await webhooks.hold(other, key_id="k", each=1, limit=9) == []


@pytest.mark.contract("K4", "K5", "K10")
async def test_a_claim_takes_what_is_due_under_a_lease_that_is_its_next_time(given: Session) -> None:
    id = await hook(given, rotated_at=-DAY + HOUR, secret_version=3)
    due = await owed(given, id, epoch=4, attempts=1, body='{"a":1}', event_id=12)
    for columns in ({"next_at": HOUR}, {"ends_at": -SECOND}, LEASED):
        await owed(given, id, **columns)
    await owed(given, id, DELIVERED)
    await owed(given, await hook(given))

    [claimed] = await claim(given, id)

    assert claimed == Claimed(due, 5, id, 12, 2, '{"a":1}', "https://example.com/", 3, True)
    row = await row_of(given, "webhook_deliveries", due)
    assert row["lease_owner"] == str(OWNER)
    assert row["next_at"] == row["leased_until"] > (await now_of(given)).isoformat()
    assert await claim(given, id) == []


@pytest.mark.contract("K5")
async def test_what_a_dead_sender_held_is_due_again_when_its_lease_ends(given: Session) -> None:
    id = await hook(given)
    lapsed = await owed(given, id, **LEASED | {"leased_until": -SECOND, "next_at": -SECOND, "lease_owner": OTHER})

    [claimed] = await claim(given, id)

    assert (claimed.id, claimed.epoch, claimed.attempts, claimed.both_secrets) == (lapsed, EPOCH + 1, 3, False)


@pytest.mark.contract("K10")
async def test_room_is_per_webhook_and_one_of_each_comes_first(given: Session) -> None:
    busy, full, quiet = [await hook(given) for _ in range(3)]
    first = await owed(given, busy, next_at=-HOUR)
    for _ in range(5):
        await owed(given, busy)
    for _ in range(3):
        await owed(given, full, **LEASED)
        await owed(given, full)
    calm = await owed(given, quiet)
    sent = await owed(given, quiet, **LEASED | {"leased_until": -HOUR})

    taken = await claim(given, busy, full, quiet, each=3, limit=3)

    assert {first, calm} <= {each.id for each in taken}
    assert [each.webhook_id for each in taken].count(busy) == 2
    assert len(await claim(given, busy, full, quiet, each=3, limit=9)) == 1
    assert (await row_of(given, "webhook_deliveries", sent))["epoch"] == EPOCH


# Ends


@pytest.mark.contract("K3", "K4", "K6")
@pytest.mark.parametrize("state", list(DeliveryState))
@pytest.mark.parametrize("word", ["delivered", "dead", "again", "back"])
async def test_an_outcome_settles_what_is_pending_and_ours(given: Session, state: DeliveryState, word: str) -> None:
    id = await owed(given, await hook(given), state, **LEASED if state is PENDING else {"epoch": EPOCH})
    if state is not PENDING:  # as tempting as can be
        await given.execute("alter table ferryman.webhook_deliveries drop constraint webhook_deliveries_lease_live")
        await given.fetch(
            "update ferryman.webhook_deliveries set lease_owner = $2, leased_until = now() where id = $1", id, OWNER
        )
    before = await row_of(given, "webhook_deliveries", id)

    settled = await settle(given, id, word, status=500, error="why", delay=60.0)

    after = await row_of(given, "webhook_deliveries", id)
    if state is not PENDING:
        assert (settled, after, await told_of(given, id)) == ({}, before, [])
        return
    assert settled == {id: word}
    assert (after["lease_owner"], after["leased_until"]) == (None, None)
    ended = word in ("delivered", "dead")
    assert after["state"] == (word if ended else PENDING)
    assert (after["finished_at"] is not None) is ended
    assert after["attempts"] == (1 if word == "back" else 2)
    assert (after["last_status"], after["last_error"]) == ((None, None) if word == "back" else (500, "why"))
    code = "WEBHOOK_UNDELIVERED" if word == "dead" else None
    told = [("webhook_delivery", PENDING, word, code, "why", TENANT)] if ended else []
    assert await told_of(given, id) == told
    if not ended:
        assert timedelta(0) < datetime.fromisoformat(after["next_at"]) - await now_of(given) <= timedelta(seconds=60)


@pytest.mark.contract("K4")
@pytest.mark.parametrize("stale", [{"epoch": EPOCH - 1}, {"owner": OTHER}])
async def test_a_stale_sender_settles_nothing(given: Session, stale: dict[str, Any]) -> None:
    id = await owed(given, await hook(given), **LEASED)
    before = await row_of(given, "webhook_deliveries", id)
    outcome = Outcome(id, stale.get("epoch", EPOCH), "delivered", 200)

    assert await deliveries.settle(given, [outcome], owner=stale.get("owner", OWNER)) == {}
    assert await row_of(given, "webhook_deliveries", id) == before


@pytest.mark.contract("K9", "K21")
async def test_a_try_that_would_come_too_late_is_not_waited_for(given: Session) -> None:
    id = await owed(given, await hook(given), **LEASED | {"ends_at": timedelta(seconds=59)})

    assert await settle(given, id, "again", error="HTTP 500", delay=60.0) == {id: "dead"}

    row = await row_of(given, "webhook_deliveries", id)
    assert row["last_error"] == "HTTP 500 (no time is left for another try)"


@pytest.mark.contract("K4")
async def test_a_set_settles_each_by_its_own_word(given: Session) -> None:
    webhook = await hook(given)
    won, lost, stale = [await owed(given, webhook, **LEASED | {"epoch": n}) for n in (1, 2, 3)]

    settled = await deliveries.settle(
        given,
        [Outcome(won, 1, "delivered", 200), Outcome(lost, 2, "dead", 410, "gone"), Outcome(stale, 9, "dead")],
        owner=OWNER,
    )

    assert settled == {won: "delivered", lost: "dead"}
    assert (await row_of(given, "webhook_deliveries", won))["last_status"] == 200
    assert (await row_of(given, "webhook_deliveries", lost))["last_error"] == "gone"


@pytest.mark.contract("K17")
async def test_what_a_sender_does_not_know_of_is_handed_back(given: Session) -> None:
    webhook = await hook(given)
    known, unknown = await owed(given, webhook, **LEASED), await owed(given, webhook, **LEASED)
    other, waiting = await owed(given, webhook, **LEASED | {"lease_owner": OTHER}), await owed(given, webhook)

    assert await deliveries.reclaim(given, owner=OWNER, held=[known]) == 1

    row = await row_of(given, "webhook_deliveries", unknown)
    assert (row["lease_owner"], row["attempts"], row["epoch"]) == (None, 1, EPOCH)
    assert [each.id for each in await claim(given, webhook)] == [waiting, unknown]
    assert (await row_of(given, "webhook_deliveries", other))["lease_owner"] == str(OTHER)


@pytest.mark.contract("K21", "K9")
async def test_what_is_owed_at_its_end_is_dead(given: Session) -> None:
    webhook = await hook(given)
    over, tried = (
        await owed(given, webhook, ends_at=-SECOND),
        await owed(given, webhook, ends_at=-HOUR, last_error="HTTP 500", attempts=4),
    )
    lapsed = await owed(given, webhook, **LEASED | {"ends_at": -2 * SECOND, "leased_until": -SECOND})
    sent, later = await owed(given, webhook, **LEASED | {"ends_at": -HOUR}), await owed(given, webhook)
    won = await owed(given, webhook, DELIVERED, ends_at=-HOUR)

    found = [row["id"] for row in await deliveries.expired(given, 9)]
    assert found == [tried, lapsed, over]
    assert len(await deliveries.expired(given, 1)) == 1
    assert await deliveries.expire(given, [*found, sent, later, won]) == 3

    told = {id: (await row_of(given, "webhook_deliveries", id))["last_error"] for id in found}
    assert told == {
        tried: "HTTP 500 (its time is over)", lapsed: "its time was over before the first try",
        over: "its time was over before the first try",
    }  # fmt: skip
    assert await told_of(given, tried) == [
        ("webhook_delivery", PENDING, DEAD, "WEBHOOK_UNDELIVERED", "HTTP 500 (its time is over)", TENANT)
    ]
    assert [(await row_of(given, "webhook_deliveries", id))["state"] for id in (sent, later, won)] == [
        PENDING, PENDING, DELIVERED,
    ]  # fmt: skip


@pytest.mark.contract("K23")
async def test_two_watchdogs_end_a_delivery_once(db: Database) -> None:
    async with db.transaction() as tx:
        await owed(tx, await hook(tx), ends_at=-SECOND)
    async with db.transaction() as one, db.transaction() as other:
        assert len(await deliveries.expired(one, 9)) == 1
        assert await deliveries.expired(other, 9) == []


# Trying anew


@pytest.mark.contract("K10", "K11", "K12")
async def test_a_dead_delivery_is_tried_anew_once_and_nothing_else_is(given: Session) -> None:
    webhook, gone = await hook(given), await hook(given, DISABLED)
    dead = await owed(given, webhook, DEAD, body='{"a":1}', event_id=12)
    others = [await owed(given, webhook), await owed(given, webhook, DELIVERED), await owed(given, gone, DEAD)]

    async def retry(id: UUID, tenant: str = TENANT) -> UUID | None:
        tried = uuid4()
        born = await deliveries.retry(given, id, tenant=tenant, new_id=tried, ends_after=HOUR)
        return tried if born else None

    assert [await retry(id) for id in others] == [None] * 3
    assert await retry(dead, tenant="other") is None
    tried = await retry(dead)
    assert await retry(dead) is None
    assert tried is not None
    found = await deliveries.get(given, tenant=TENANT, retry_of=dead)
    assert found is not None
    assert (found.id, found.state, found.event_id, found.attempts) == (tried, PENDING, 12, 0)
    assert (await row_of(given, "webhook_deliveries", tried))["body"] == '{"a":1}'
    assert await told_of(given, tried) == [("webhook_delivery", None, PENDING, None, None, TENANT)]
    assert await deliveries.get(given, tenant="other", id=dead) is None


@pytest.mark.contract("K12")
async def test_deliveries_are_listed_for_one_webhook_newest_first(given: Session) -> None:
    webhook = await hook(given)
    made = [await owed(given, webhook, DEAD if n == 2 else PENDING, id=UUID(int=n)) for n in (1, 3, 2)]
    await owed(given, await hook(given))

    async def page(**more: Any) -> list[int]:
        terms = {"tenant": TENANT, "state": None, "before": None, "limit": 9} | more
        return [each.id.int for each in await deliveries.list_page(given, webhook, **terms)]

    assert len(made) == len(await page())
    assert await page() == [3, 2, 1]
    assert await page(limit=1) == [3]
    assert await page(before=UUID(int=3)) == [2, 1]
    assert await page(state="dead") == [2]
    assert await page(tenant="other") == []


@pytest.mark.contract("K10")
async def test_what_has_ended_is_kept_for_its_time_and_then_leaves(given: Session) -> None:
    webhook = await hook(given)
    old, dead = (
        await owed(given, webhook, DELIVERED, finished_at=-3 * HOUR),
        await owed(given, webhook, DEAD, finished_at=-5 * HOUR),
    )
    await owed(given, webhook, DELIVERED, finished_at=-HOUR)
    await owed(given, webhook, DEAD, finished_at=-3 * HOUR)
    live = await owed(given, webhook)

    past = [row["id"] for row in await deliveries.past(given, 9, kept=2 * HOUR, dead_kept=4 * HOUR)]
    assert past == [dead, old]
    assert len(await deliveries.past(given, 1, kept=2 * HOUR, dead_kept=4 * HOUR)) == 1
    assert [row["id"] for row in await deliveries.past(given, 9, kept=9 * HOUR, dead_kept=4 * HOUR)] == [dead]
    await deliveries.forget(given, [*past, live])

    assert len(await given.fetch("select from ferryman.webhook_deliveries")) == 3
    depth = await deliveries.depth(given)
    assert (depth["waiting"], depth["sending"]) == (1, 0)
    await owed(given, webhook, **LEASED)
    assert (await deliveries.depth(given))["sending"] == 1


# Who publishes


@pytest.mark.contract("K4", "K5", "K10")
async def test_a_relay_is_held_by_one_and_taken_over_when_its_lease_has_ended(given: Session) -> None:
    async def take(owner: UUID, lease: timedelta = HOUR) -> int | None:
        return await relays.take(given, "r", owner=owner, lease=lease)

    assert await relays.look(given, "r", owner=OTHER) is None
    assert await take(OWNER) == 1
    assert await take(OTHER) is None
    assert (await relays.look(given, "r", owner=OTHER) or 0) > 3000
    assert await relays.look(given, "r", owner=OWNER) is None
    assert await relays.look(given, "s", owner=OTHER) is None
    assert await take(OWNER, lease=-SECOND) == 2
    assert await relays.look(given, "r", owner=OTHER) is None
    assert await take(OTHER) == 3
    assert not await relays.release(given, "r", owner=OWNER, epoch=3)
    assert not await relays.release(given, "r", owner=OTHER, epoch=2)
    assert not await relays.release(given, "s", owner=OTHER, epoch=3)
    assert await relays.release(given, "r", owner=OTHER, epoch=3)
    assert await take(OWNER) == 4


@pytest.mark.contract("K4", "K10")
async def test_the_place_of_a_relay_is_moved_by_its_holder_alone(given: Session) -> None:
    for name in ("r", "s"):
        await events.begin(given, name)
        assert await relays.take(given, name, owner=OWNER, lease=SECOND) == 1
    place = Place(7, 9, "3")

    async def advance(name: str = "r", owner: UUID = OWNER, epoch: int = 1) -> bool:
        return await relays.advance(given, name, place, owner=owner, epoch=epoch, lease=HOUR)

    assert not await advance(owner=OTHER)
    assert not await advance(epoch=0)
    assert not await advance(name="t")
    assert await relays.place(given, "r") == Place(0, 0, "0")
    assert await advance()
    assert await relays.place(given, "r") == place
    assert await relays.place(given, "s") == Place(0, 0, "0")
    assert await relays.place(given, "t") is None
    rows = await given.fetch("select name, leased_until > now() + interval '1 minute' as renewed from ferryman.relays")
    assert {row["name"]: row["renewed"] for row in rows} == {"r": True, "s": False}


@pytest.mark.contract("K10")
async def test_the_origin_of_a_log_is_made_once(given: Session) -> None:
    first = uuid4()

    assert await relays.origin(given, first) == str(first)
    await given.fetch("insert into ferryman.settings (name, value) values ('relays.other', '1')")
    assert await relays.origin(given, uuid4()) == str(first)


@pytest.mark.contract("K10", "K19")
async def test_a_standing_tells_how_far_a_reader_is_and_who_holds_it(given: Session) -> None:
    for n in range(3):
        await given.fetch(
            "insert into ferryman.events (at, subject, tenant, kind, logged_at)"
            " values (now(), gen_random_uuid(), 'default', 'task', now() - $1 * interval '1 hour')",
            10.0 - n,
        )
    end = (await events.latest(given)).last_id
    await events.begin(given, "b", after_id=end - 2)
    await events.begin(given, "a", after_id=end)
    await relays.take(given, "b", owner=OWNER, lease=HOUR)

    [read, late] = await relays.standings(given)

    assert (read.name, read.behind, read.behind_seconds, read.lease_owner) == ("a", 0, 0.0, None)
    assert (late.name, late.behind, late.lease_owner, late.last_id) == ("b", 2, OWNER, end - 2)
    assert late.behind_seconds == pytest.approx(9 * 3600, abs=60)


# What the database itself refuses, and what must always be true


@pytest.mark.contract("K3")
@pytest.mark.parametrize("machine", [WEBHOOK, DELIVERY], ids=lambda machine: machine.table)
async def test_the_database_refuses_what_is_not_declared(given: Session, machine: Machine[Any]) -> None:
    webhook = await hook(given)
    for was in machine.states:
        for to in machine.states:
            id = await hook(given, was) if machine is WEBHOOK else await owed(given, webhook, was)
            ends = "disabled_at" if machine is WEBHOOK else "finished_at"
            change = (
                f"update ferryman.{machine.table} set state = $2, {ends} = case when $3 then now() end where id = $1"
            )
            if (was, to) in machine.legal:
                async with given.transaction():
                    await given.fetch(change, id, to.value, to in machine.terminal)
                continue
            with pytest.raises(errors.InvalidTransition) as refused:
                async with given.transaction():
                    await given.fetch(change, id, to.value, to in machine.terminal)
            assert refused.value.code == machine.code


async def test_the_migration_holds_what_the_declarations_say(given: Session) -> None:
    for machine in (WEBHOOK, DELIVERY):
        rows = await given.fetch(
            "select tgname from pg_trigger where tgrelid = $1::regclass and not tgisinternal",
            f"ferryman.{machine.table}",
        )
        assert {row["tgname"] for row in rows} == set(machine.triggers())
        rows = await given.fetch(
            "select conname from pg_constraint where conrelid = $1::regclass and contype = 'c'",
            f"ferryman.{machine.table}",
        )
        assert set(machine.constraints()) <= {row["conname"] for row in rows}


@pytest.mark.contract("K21", "W16", "W21")
async def test_every_delivery_that_is_owed_is_bounded_and_told_when_it_is_late(given: Session) -> None:
    webhook = await hook(given)
    waiting, sent = await owed(given, webhook, ends_at=HOUR), await owed(given, webhook, **LEASED | {"ends_at": -HOUR})
    late = await owed(given, webhook, ends_at=-HOUR)
    lapsed = await owed(given, webhook, **LEASED | {"ends_at": -DAY, "leased_until": -HOUR})
    await owed(given, webhook, DEAD, ends_at=-DAY)

    bounds = await given.fetch(
        "select id, rule, ends_by < terminal_by as later from ferryman.bounds where domain = 'delivery'"
    )
    overdue = await given.fetch("select id from ferryman.overdue where domain = 'delivery'")

    assert {(row["id"], row["rule"], row["later"]) for row in bounds} == {
        (id, "K10-dead", True) for id in (waiting, sent, late, lapsed)
    }
    assert {row["id"] for row in overdue} == {late, lapsed}


@pytest.mark.contract("K23")
async def test_each_invariant_notices_what_it_is_there_for(given: Session) -> None:
    async def broken() -> set[str]:
        return {each.name for each in await invariants.check(given, RELAY_INVARIANTS)}

    terms: dict[str, Any] = {"url": "https://a", "kinds": None, "after_id": 0, "key_id": "k", "name": None}
    webhook, other = uuid4(), uuid4()
    for id in (webhook, other):
        await webhooks.create(given, id, tenant=TENANT, **terms)
    await webhooks.pause(given, webhook, tenant=TENANT, reason=None)
    await webhooks.resume(given, webhook, tenant=TENANT, reason=None)
    await webhooks.disable(given, other, tenant=TENANT, reason=None)
    await deliveries.create(given, [new(webhook), new(webhook, 2)], ends_after=HOUR)
    [claimed] = await claim(given, webhook, limit=1)
    await settle(given, claimed.id, epoch=claimed.epoch)
    for id in (webhook, claimed.id):  # what is no move of theirs says nothing
        for kind, state in (("webhook", None), ("webhook_delivery", None), ("else", "odd")):
            await given.fetch(
                "insert into ferryman.events (at, subject, tenant, kind, to_state) values (now(), $1, 'default', $2, $3)",
                id,
                kind,
                state,
            )
    assert await broken() == set()

    await given.execute("set local session_replication_role = replica")
    for change, name in (
        ("webhook_deliveries set tenant = 'x'", "deliveries_have_one_tenant"),
        ("webhook_deliveries set state = 'dead', finished_at = now()", "delivery_and_log_agree"),
        ("webhooks set state = 'paused', disabled_at = null", "webhook_and_log_agree"),
    ):
        with pytest.raises(_Undone):
            async with given.transaction():
                await given.fetch(f"update ferryman.{change}")
                assert await broken() == {name}
                raise _Undone


async def test_a_webhook_of_another_key_is_counted(given: Session) -> None:
    await hook(given)
    await hook(given, key_id="x")
    await hook(given, PAUSED, key_id="x")

    assert await webhooks.strangers(given, key_id="k") == 1


@pytest.mark.contract("K11", "K20")
async def test_intake_says_what_is_wrong_and_stores_nothing(given: Session) -> None:
    terms: dict[str, Any] = {"tenant": TENANT, "consumer": "c", "key_id": "k"}
    made, existed = await intake.add(given, "https://a.example/", name="a", kinds=["task"], **terms)
    again, hit = await intake.add(given, "https://a.example/", name="a", kinds="task", **terms)
    assert (made, existed, hit) == (again, False, True)
    for more, told in (({"kinds": None}, "kinds"), ({"url": "https://b.example/"}, "url")):
        asked: dict[str, Any] = {"url": "https://a.example/", "kinds": ["task"]} | more
        with pytest.raises(errors.WebhookDuplicate, match=told):
            await intake.add(given, asked.pop("url"), name="a", **asked, **terms)
    for name in ("a b", str(uuid4()), ""):
        with pytest.raises(errors.WebhookInvalid, match="name"):
            await intake.add(given, "https://a.example/", name=name, **terms)
    with pytest.raises(errors.WebhookNotFound, match="nobody"):
        await intake.pause(given, "nobody", tenant=TENANT)
    with pytest.raises(errors.DeliveryNotFound):
        await intake.retry(given, uuid4(), tenant=TENANT, ends_after=HOUR)
    with pytest.raises(errors.WebhookInvalid, match="state"):
        await intake.list_page(given, tenant=TENANT, state="odd")
    with pytest.raises(errors.WebhookInvalid, match="limit"):
        await intake.deliveries_of(given, "a", tenant=TENANT, limit=0)
    pending = await owed(given, made.id)
    with pytest.raises(errors.DeliveryNotDead, match="it is pending"):
        await intake.retry(given, pending, tenant=TENANT, ends_after=HOUR)
    dead = await owed(given, made.id, DEAD)
    tried, _ = await intake.retry(given, dead, tenant=TENANT, ends_after=HOUR)
    assert await intake.retry(given, dead, tenant=TENANT, ends_after=HOUR) == (tried, True)
    await intake.remove(given, "a", tenant=TENANT)
    with pytest.raises(errors.DeliveryNotDead, match="removed"):
        await intake.retry(given, await owed(given, made.id, DEAD), tenant=TENANT, ends_after=HOUR)
    with pytest.raises(errors.InvalidTransition, match="removed"):
        await intake.rotate(given, made.id, tenant=TENANT, key_id="k")
    assert len(await given.fetch("select from ferryman.webhooks")) == 1


def test_the_words_of_outcomes_are_those_the_statement_knows() -> None:
    assert {ending.DELIVERED, ending.DEAD, ending.AGAIN, ending.BACK} == {"delivered", "dead", "again", "back"}
