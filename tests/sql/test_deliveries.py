"""The statements of deliveries, each against every state, and their guards."""

import json
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID, uuid4

import pytest

from ferryman.kernel.pool import Database, Session
from ferryman.relays.model import Claimed, Outcome
from ferryman.relays.states import ACTIVE, DEAD, DELIVERED, DISABLED, PAUSED, PENDING, DeliveryState
from ferryman.relays.store import deliveries, webhooks
from tests.sql import walking
from tests.sql.hooks import (
    DAY,
    EPOCH,
    HOUR,
    LEASED,
    OTHER,
    OWNER,
    SECOND,
    TENANT,
    claim,
    hook,
    new,
    now_of,
    owed,
    row_of,
    settle,
    told_of,
)

# Births of deliveries


@pytest.mark.contract("K10", "K11")
async def test_one_event_is_one_delivery_of_one_webhook_that_is_there(given: Session) -> None:
    active, paused, gone = [await hook(given, state) for state in (ACTIVE, PAUSED, DISABLED)]
    first = new(active)

    assert await deliveries.create(given, [first, new(paused), new(gone)], ends_after=HOUR) == 2
    assert await deliveries.create(given, [new(active), new(active, 2)], ends_after=HOUR) == 1

    # The number of an event comes again when history went back; then it is another event.
    assert await deliveries.create(given, [new(active, token=2)], ends_after=HOUR) == 1

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
    await hook(given, url="https://before.example/")
    id = await hook(given, rotated_at=-DAY + HOUR, secret_version=3)
    due = await owed(given, id, epoch=4, attempts=1, body='{"a":1}', event_id=12, event_token=31)
    for columns in ({"next_at": HOUR}, {"ends_at": -SECOND}, LEASED):
        await owed(given, id, **columns)
    await owed(given, id, DELIVERED, next_at=-HOUR)
    await owed(given, await hook(given, url="https://after.example/"))

    [claimed] = await claim(given, id, limit=1)

    assert claimed == Claimed(due, 5, id, "evt_12-1f", 2, '{"a":1}', "https://example.com/", 3, True)
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

    assert await deliveries.settle(given, [outcome], owner=stale.get("owner", OWNER)) == ({}, set())
    assert await row_of(given, "webhook_deliveries", id) == before


@pytest.mark.contract("K25")
async def test_a_delivery_that_somebody_else_writes_is_named_as_busy_and_the_others_are_settled(db: Database) -> None:
    async with db.transaction() as tx:
        webhook = await hook(tx)
        held, free, stale = [await owed(tx, webhook, **LEASED) for _ in range(3)]
    said = [
        Outcome(held, EPOCH, "delivered", 200),
        Outcome(free, EPOCH, "delivered", 200),
        Outcome(stale, EPOCH - 1, "dead"),
    ]
    async with db.transaction() as other, db.transaction() as tx:
        await other.fetch("select from ferryman.webhook_deliveries where id = any($1) for update", [held, stale])

        assert await deliveries.settle(tx, said, owner=OWNER) == ({free: "delivered"}, {held})


@pytest.mark.contract("K9", "K21")
async def test_a_try_that_would_come_too_late_is_not_waited_for(given: Session) -> None:
    id = await owed(given, await hook(given), **LEASED | {"ends_at": timedelta(seconds=59)})

    assert await settle(given, id, "again", error="HTTP 500", delay=60.0) == {id: "dead"}

    row = await row_of(given, "webhook_deliveries", id)
    assert row["last_error"] == "HTTP 500 (no time is left for another try)"


@pytest.mark.contract("K4")
async def test_a_set_settles_each_by_its_own_word(given: Session) -> None:
    webhook = await hook(given)
    won, lost, stale, tried = [await owed(given, webhook, **LEASED | {"epoch": n}) for n in (1, 2, 3, 4)]
    before = await row_of(given, "webhook_deliveries", stale)
    said = [
        Outcome(won, 1, "delivered", 200), Outcome(lost, 2, "dead", 410, "gone"), Outcome(stale, 9, "dead"),
        Outcome(tried, 4, "again", 500, "why"),
    ]  # fmt: skip

    settled, _busy = await deliveries.settle(given, said, owner=OWNER)

    assert settled == {won: "delivered", lost: "dead", tried: "again"}
    assert (await row_of(given, "webhook_deliveries", tried))["lease_owner"] is None
    assert await row_of(given, "webhook_deliveries", stale) == before
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
    lapsed = await owed(given, webhook, **LEASED | {"ends_at": -HOUR / 2, "leased_until": -SECOND})
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
async def test_two_watchdogs_find_a_delivery_once(db: Database) -> None:
    async with db.transaction() as tx:
        webhook = await hook(tx)
        await owed(tx, webhook, ends_at=-SECOND)
        await owed(tx, webhook, DEAD)
    async with db.transaction() as one, db.transaction() as other:
        assert len(await deliveries.expired(one, 9)) == 1
        assert await deliveries.expired(other, 9) == []
        assert len(await deliveries.past(one, 9, kept=SECOND, dead_kept=SECOND)) == 1
        assert await deliveries.past(other, 9, kept=SECOND, dead_kept=SECOND) == []


# Trying anew


@pytest.mark.contract("K10", "K11", "K12")
async def test_a_dead_delivery_is_tried_anew_once_and_nothing_else_is(given: Session) -> None:
    webhook, gone = await hook(given), await hook(given, DISABLED)
    dead = await owed(given, webhook, DEAD, body='{"a":1}', event_id=12, event_token=31)
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
    assert (found.id, found.state, found.event_id, found.attempts) == (tried, PENDING, "evt_12-1f", 0)
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
    assert await walking.past(given, "delivery", kept=4 * HOUR) == 1, "doctor counts them"
    assert len(await deliveries.past(given, 1, kept=2 * HOUR, dead_kept=4 * HOUR)) == 1
    assert [row["id"] for row in await deliveries.past(given, 9, kept=9 * HOUR, dead_kept=4 * HOUR)] == [dead]
    await deliveries.forget(given, [*past, live])

    assert len(await given.fetch("select from ferryman.webhook_deliveries")) == 3
    depth = await deliveries.depth(given)
    assert (depth["waiting"], depth["sending"]) == (1, 0)
    await owed(given, webhook, **LEASED)
    assert (await deliveries.depth(given))["sending"] == 1


@pytest.mark.contract("K22")
async def test_it_is_told_why_an_event_has_not_reached_its_webhook(given: Session) -> None:
    active, paused = await hook(given), await hook(given, PAUSED)
    gone = await hook(given, DISABLED)
    backing = await owed(given, active, next_at=HOUR, attempts=2, last_error="HTTP 500", last_status=500)
    cases = {
        await owed(given, active): ("It waits to be sent.", ["due", "no_worker"]),
        await owed(given, paused): ("It waits to be sent.", ["webhook_paused", "no_worker"]),
        await owed(given, active, **LEASED): ("It is being sent, try 2.", ["leased", "holder_silent"]),
        await owed(given, gone): ("It waits to be sent.", ["webhook_removed", "no_worker"]),
        await owed(given, active, DEAD, last_error="gone"): ("It is dead.", ["last_try_failed"]),
        await owed(given, active, DELIVERED): ("It was delivered.", []),
        backing: ("It waits to be sent.", ["last_try_failed", "backing_off", "no_worker"]),
    }
    for id, expected in cases.items():
        [row] = await given.fetch("select ferryman.explain($1)::text as told", id)
        told = json.loads(row["told"])
        reasons = [each for each in told["reasons"] if each["code"] != "watchdog_silent"]  # the database may be old
        assert (told["doing"], [each["code"] for each in reasons]) == expected
        assert (told["ends"] is None) is (told["state"] != PENDING)
        if id == backing:
            assert reasons[0]["says"] == "Try 2 failed: HTTP 500."
            assert told["ends"]["rule"] == "K10-dead"
