"""The statements of relays and webhooks, each against every state; their guards, their invariants, the database's guard."""

from contextlib import suppress
from datetime import timedelta
from typing import Any
from uuid import UUID, uuid4

import pytest

from ferryman.kernel import errors, events, ids, invariants
from ferryman.kernel.event_id import EventId
from ferryman.kernel.events import Place
from ferryman.kernel.machine import Machine
from ferryman.kernel.pool import Session
from ferryman.relays import intake
from ferryman.relays.rules import ending
from ferryman.relays.states import ACTIVE, DEAD, DELIVERED, DELIVERY, DISABLED, PAUSED, PENDING, WEBHOOK, WebhookState
from ferryman.relays.store import deliveries, relays, webhooks
from ferryman.relays.watch import RELAY_INVARIANTS
from tests.sql.hooks import (
    DAY,
    HOUR,
    LEASED,
    OTHER,
    OWNER,
    SECOND,
    TENANT,
    claim,
    hook,
    new,
    owed,
    row_of,
    settle,
    told_of,
)


class _Undone(Exception):
    pass


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

    async def advance(name: str = "r", owner: UUID = OWNER, epoch: int = 1, from_id: int = 0) -> bool:
        return await relays.advance(given, name, place, from_id=from_id, owner=owner, epoch=epoch, lease=HOUR)

    assert not await advance(owner=OTHER)
    assert not await advance(epoch=0)
    assert not await advance(name="t")
    assert not await advance(from_id=1)
    assert await relays.place(given, "r") == Place(0, 0, "0")
    assert await advance()
    assert await relays.place(given, "r") == place
    assert await relays.place(given, "s") == Place(0, 0, "0")
    assert await relays.place(given, "t") is None
    rows = await given.fetch("select name, leased_until > now() + interval '1 minute' as renewed from ferryman.relays")
    assert {row["name"]: row["renewed"] for row in rows} == {"r": True, "s": False}


@pytest.mark.contract("K4", "K10")
async def test_a_place_moves_only_to_an_event_that_the_log_has(given: Session) -> None:
    await given.fetch(
        "insert into ferryman.events (at, subject, tenant, kind) values (now(), gen_random_uuid(), 'default', 'task')"
    )
    end = (await events.latest(given)).last_id
    [event] = await events.between(given, end - 1, end)
    await events.begin(given, "r", after_id=end - 1)
    await relays.take(given, "r", owner=OWNER, lease=SECOND)

    async def advance(published: EventId) -> bool:
        return await relays.advance(
            given, "r", Place(end), from_id=end - 1, published=published, owner=OWNER, epoch=1, lease=HOUR
        )

    assert not await advance(EventId(end + 1, event.token))
    assert not await advance(EventId(end, event.token + 1))
    assert await relays.place(given, "r") == Place(end - 1, end - 1)
    assert await advance(event.identity)
    assert await relays.place(given, "r") == Place(end)


@pytest.mark.contract("K10")
async def test_the_origin_of_a_log_is_made_once(given: Session) -> None:
    first = uuid4()
    await given.fetch("insert into ferryman.settings (name, value) values ('relays.other', '1')")

    assert await relays.origin(given, first) == str(first)
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
        with suppress(_Undone):
            async with given.transaction():
                await given.fetch(f"update ferryman.{change} where id = any($1)", [webhook, claimed.id])
                assert await broken() == {name}
                raise _Undone


async def test_webhooks_of_another_key_and_late_deaths_are_counted(given: Session) -> None:
    id = await hook(given)
    await hook(given, key_id="x")
    await hook(given, PAUSED, key_id="x")
    await owed(given, id, DEAD)
    await owed(given, id, DEAD, finished_at=-25 * HOUR)
    await owed(given, id, DELIVERED)

    told = await webhooks.calls(given, key_id="k")

    assert (told["strangers"], told["dead"]) == (1, 1)


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
    for odd in ("nobody", "n\x00", "", 5):
        with pytest.raises(errors.WebhookNotFound):
            await intake.pause(given, odd, tenant=TENANT)  # type: ignore[arg-type]
    for reason in ("a\x00b", "\ud800", "x" * 2001, 7):
        with pytest.raises(errors.WebhookInvalid, match="reason"):
            await intake.pause(given, "a", tenant=TENANT, reason=reason)  # type: ignore[arg-type]
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
