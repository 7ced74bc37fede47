"""Passing a gate: what the claim counts, what it takes and what it leaves, one condition at a time."""

from datetime import timedelta
from typing import Any
from uuid import UUID

import pytest

from ferryman.kernel.pool import Database, Session
from ferryman.tasks.model import Claimed
from ferryman.tasks.states import PENDING, READY, RUNNING, SUCCEEDED, TASK
from ferryman.tasks.store import agreements, gates
from ferryman.tasks.store.gates import Asked, Looked
from ferryman.testing import plant, travel
from tests.sql.moves import HOUR, LEASE, MARGIN, OTHER, OWNER, SECOND, columns, turn

pytestmark = pytest.mark.contract("T17")


async def agree(tx: Session, name: str = "default", tenant: str = "*", **terms: Any) -> None:
    await agreements.add(tx, name, tenant=tenant)
    await agreements.change(tx, name, tenant=tenant, changes=terms)


async def claim(
    tx: Session, *asked: Asked, room: int = 100, keys: int = 50, names: Any = ("mail",), kinds: Any = ()
) -> tuple[list[Claimed], list[Looked]]:
    wanted = asked or (Asked("default", "default", 100, ""),)
    locked = await gates.lock(tx, sorted({each.queue for each in wanted}))
    return await gates.pass_through(
        tx,
        wanted,
        locked=locked,
        room=room,
        keys=keys,
        owner=OWNER,
        names=list(names),
        kinds=list(kinds),
        lease=LEASE,
        margin=MARGIN,
    )


async def ready(tx: Session, count: int = 1, **columns: Any) -> list[UUID]:
    return [await plant(tx, TASK, READY, **columns) for _ in range(count)]


def ids(claimed: list[Claimed]) -> set[UUID]:
    return {task.id for task in claimed}


# Slots


async def test_as_many_are_claimed_as_slots_are_free(given: Session) -> None:
    await agree(given, concurrency=3)
    await plant(given, TASK, RUNNING, slot=True)
    await ready(given, 5)

    claimed, [looked] = await claim(given)

    assert len(claimed) == 2
    assert looked.waits
    assert (await claim(given))[0] == []


async def test_a_slot_is_held_by_leased_rows_of_its_queue_alone(given: Session) -> None:
    await agree(given, concurrency=1)
    await plant(given, TASK, SUCCEEDED, slot=True)
    await plant(given, TASK, RUNNING, slot=True, queue="other")
    await plant(given, TASK, RUNNING)
    await ready(given, 2)

    assert len((await claim(given))[0]) == 1


async def test_a_lease_that_has_passed_holds_its_slot_until_it_is_reaped(given: Session) -> None:
    await agree(given, concurrency=1)
    await plant(given, TASK, RUNNING, slot=True, leased_until=-HOUR)
    await ready(given)

    assert (await claim(given))[0] == []


async def test_slots_of_one_tenant_are_counted_within_those_of_all(given: Session) -> None:
    await agree(given, concurrency=3)
    await agree(given, tenant="acme", concurrency=1)
    await plant(given, TASK, RUNNING, slot=True, tenant="beta")
    for tenant in ("acme", "beta"):
        await ready(given, 3, tenant=tenant)

    claimed, _ = await claim(given, Asked("default", "acme", 10, ""), Asked("default", "beta", 10, ""))

    assert sorted(task.tenant for task in claimed) == ["acme", "beta"]


async def test_everybodys_first_comes_before_anybodys_second(given: Session) -> None:
    await agree(given, concurrency=3)
    await ready(given, 5, tenant="acme", rank=-HOUR)
    await ready(given, 1, tenant="beta")
    await ready(given, 1, tenant="dora")

    claimed, _ = await claim(given, *(Asked("default", tenant, 10, "") for tenant in ("acme", "beta", "dora")))

    assert sorted(task.tenant for task in claimed) == ["acme", "beta", "dora"]


async def test_no_more_are_claimed_than_there_is_room_for(given: Session) -> None:
    await agree(given, concurrency=10)
    await ready(given, 9)

    assert len((await claim(given, room=4))[0]) == 4
    assert len((await claim(given, Asked("default", "default", 3, "")))[0]) == 3


async def test_the_oldest_come_first(given: Session) -> None:
    await agree(given, concurrency=1)
    await ready(given, 2)
    [oldest] = await ready(given, rank=-SECOND)

    assert ids((await claim(given))[0]) == {oldest}


async def test_a_claim_through_a_gate_is_a_claim_like_any_other_and_holds_a_slot(given: Session) -> None:
    await agree(given, concurrency=1)
    [task] = await ready(given, epoch=3, lease_count=5, timeout_ms=1000)

    [claimed], _ = await claim(given)

    row = await columns(
        given, task, "state", "epoch", "lease_owner", "lease_count", "rank", "slot", "leased_until", "started_at"
    )
    assert (claimed.id, claimed.epoch) == (task, 4)
    assert list(row.values())[:6] == ["running", 4, OWNER, 6, None, True]
    assert row["leased_until"] - row["started_at"] == timedelta(seconds=6)
    [event] = await given.fetch("select from_state, to_state from ferryman.events where subject = $1", task)
    assert (event["from_state"], event["to_state"]) == ("ready", "running")


@pytest.mark.parametrize(
    "unfit",
    [
        {"name": "unknown"}, {"ends_at": -SECOND}, {"callback": "tool"}, {"tenant": "acme"}, {"queue": "other"},
        {"rank": None, "wake_at": HOUR},
    ],
)  # fmt: skip
@pytest.mark.parametrize("key", [None, "k"])
async def test_what_is_not_for_this_worker_or_not_now_is_left(
    given: Session, unfit: dict[str, Any], key: str | None
) -> None:
    await agree(given, concurrency=5)
    await ready(given, limit_key=key, **unfit)
    await plant(given, TASK, PENDING, limit_key=key)

    assert (await claim(given))[0] == []


@pytest.mark.parametrize("key", [None, "k"])
async def test_what_owes_to_an_owner_known_here_is_taken(given: Session, key: str | None) -> None:
    await agree(given, concurrency=5)
    owing = await ready(given, limit_key=key, callback="tool")

    assert ids((await claim(given, kinds=["tool"]))[0]) == set(owing)


async def test_a_gate_that_was_not_locked_is_not_passed(given: Session) -> None:
    await agree(given, concurrency=5)
    await agree(given, "slow", concurrency=5)
    await ready(given)
    slow = await ready(given, queue="slow")
    asked = [Asked("default", "default", 5, ""), Asked("slow", "default", 5, "")]

    claimed, _ = await gates.pass_through(
        given,
        asked,
        locked=["slow"],
        room=10,
        keys=50,
        owner=OWNER,
        names=["mail"],
        kinds=[],
        lease=LEASE,
        margin=MARGIN,
    )

    assert ids(claimed) == set(slow)


async def test_only_the_gates_that_were_asked_for_are_locked(given: Session) -> None:
    for name in ("c", "a", "b"):
        await agree(given, name, tenant="acme")

    assert await gates.lock(given, ["c", "a", "nobody"]) == ["a", "c"]


@pytest.mark.contract("K5")
@pytest.mark.parametrize("key", [None, "k"])
async def test_a_task_that_somebody_is_writing_is_passed_over_and_not_waited_for(db: Database, key: str | None) -> None:
    async with db.transaction() as tx:
        await agree(tx, concurrency=5, key_concurrency=5)
        busy, free = [*await ready(tx, limit_key=key, rank=-SECOND), *await ready(tx, limit_key=key)]
    async with db.transaction() as writer, db.transaction() as tx:
        await writer.fetch("select from ferryman.tasks where id = $1 for update", busy)
        await tx.execute("set local lock_timeout = '2s'")

        assert ids((await claim(tx))[0]) == {free}


# Lanes


@pytest.mark.parametrize(
    ("tenant", "terms"),
    [
        ("*", {"concurrency": 5}),
        ("acme", {"concurrency": 5}),
        ("*", {"rate_count": 5, "rate_seconds": 1, "burst": 5}),
        ("*", {"max_depth": 5}),
    ],
)
async def test_a_turn_passes_over_a_lane_that_is_not_open(given: Session, tenant: str, terms: dict[str, Any]) -> None:
    await agree(given, tenant=tenant, **terms)
    await ready(given, tenant="acme")
    free = await ready(given, tenant="acme", queue="open")
    await agree(given, "open", weight=3)

    claimed, _ = await turn(given, lanes=[("default", "acme", 5), ("open", "acme", 5)])

    assert ids(claimed) == set(free)


async def test_a_turn_passes_over_tasks_with_a_key(given: Session) -> None:
    await ready(given, limit_key="k")
    free = await ready(given)

    claimed, _ = await turn(given, lanes=[("default", "default", 5)])

    assert ids(claimed) == set(free)


async def test_of_an_open_queue_only_tasks_with_a_key_come_through_its_gate(given: Session) -> None:
    await agree(given)
    await ready(given)
    keyed = await ready(given, limit_key="k")

    assert ids((await claim(given))[0]) == set(keyed)


async def test_the_gate_of_a_tenant_lets_only_that_tenant_through(given: Session) -> None:
    await agree(given, tenant="acme", concurrency=2)
    limited = await ready(given, 2, tenant="acme")
    await ready(given, tenant="beta")

    claimed, _ = await claim(given, Asked("default", "acme", 10, ""), Asked("default", "beta", 10, ""))

    assert ids(claimed) == set(limited)


# Keys


async def test_tasks_of_one_key_share_its_slots(given: Session) -> None:
    await agree(given, key_concurrency=2)
    await plant(given, TASK, RUNNING, slot=True, limit_key="a")
    await ready(given, 3, limit_key="a")
    await ready(given, 3, limit_key="b")

    claimed, _ = await claim(given)

    keys = await given.fetch("select limit_key from ferryman.tasks where id = any($1) order by 1", list(ids(claimed)))
    assert [row["limit_key"] for row in keys] == ["a", "b", "b"]


async def test_a_key_has_one_slot_if_nobody_says_more(given: Session) -> None:
    await agree(given)
    await ready(given, 2, limit_key="a")

    assert len((await claim(given))[0]) == 1


async def test_keys_of_different_tenants_queues_and_names_of_keys_do_not_meet(given: Session) -> None:
    await agree(given)
    await plant(given, TASK, RUNNING, slot=True, limit_key="a", tenant="acme")
    await plant(given, TASK, RUNNING, slot=True, limit_key="a", queue="slow")
    await plant(given, TASK, RUNNING, slot=True, limit_key="b")
    await plant(given, TASK, SUCCEEDED, slot=True, limit_key="a")
    await plant(given, TASK, RUNNING, limit_key="a")
    free = await ready(given, limit_key="a")

    assert ids((await claim(given))[0]) == set(free)


async def test_the_slots_of_a_queue_bound_those_of_its_keys(given: Session) -> None:
    await agree(given, concurrency=2, key_concurrency=5)
    await ready(given, 3, limit_key="a")
    await ready(given, 3)

    assert len((await claim(given))[0]) == 2


async def test_a_look_ends_after_so_many_keys_and_the_next_goes_on_behind_them(given: Session) -> None:
    await agree(given)
    for n in range(6):
        await ready(given, limit_key=f"k{n}")

    first, [looked] = await claim(given, Asked("default", "default", 2, ""), keys=4)
    rest, [over] = await claim(given, Asked("default", "default", 9, looked.upto or ""), keys=4)

    assert (len(first), looked.upto) == (2, "k3")
    assert (len(rest), over.upto) == (2, None)


async def test_a_look_spends_none_of_its_keys_on_those_of_others_or_of_what_does_not_wait(given: Session) -> None:
    await agree(given)
    for n in range(3):
        await ready(given, limit_key=f"a{n}", tenant="acme")
        await ready(given, limit_key=f"b{n}", queue="slow")
        await plant(given, TASK, PENDING, limit_key=f"c{n}")
        await ready(given, limit_key=f"m{n}", tenant="acme")
        await ready(given, limit_key=f"m{n}", queue="slow")
    ours = [*await ready(given, limit_key="m"), *await ready(given, limit_key="n")]

    assert ids((await claim(given, Asked("default", "default", 2, ""), keys=2))[0]) == set(ours)


async def test_a_tenants_own_word_on_keys_comes_before_that_for_all(given: Session) -> None:
    await agree(given, key_concurrency=1)
    await agree(given, tenant="acme", key_concurrency=3)
    await ready(given, 4, tenant="acme", limit_key="a")

    assert len((await claim(given, Asked("default", "acme", 10, "")))[0]) == 3


# Rates


async def test_a_rate_allows_a_burst_and_then_one_start_after_the_other(given: Session) -> None:
    await agree(given, rate_count=60, rate_seconds=60, burst=3)
    await ready(given, 10)

    first, [looked] = await claim(given)
    none, _ = await claim(given)
    await travel(given, timedelta(seconds=2.5))
    later, _ = await claim(given)

    assert (len(first), none, len(later)) == (3, [], 2)
    assert looked.open_seconds == pytest.approx(1.0, abs=0.2)
    assert looked.waits


async def test_a_queue_that_rested_has_its_burst_again_and_no_more(given: Session) -> None:
    await agree(given, rate_count=60, rate_seconds=60, burst=3)
    await ready(given, 20)
    await claim(given)

    await travel(given, HOUR)

    assert len((await claim(given))[0]) == 3


async def test_a_rate_of_one_tenant_leaves_the_others_alone(given: Session) -> None:
    await agree(given, concurrency=100)
    await agree(given, tenant="acme", rate_count=1, rate_seconds=60, burst=1)
    for tenant in ("acme", "beta"):
        await ready(given, 3, tenant=tenant)

    claimed, looked = await claim(given, Asked("default", "acme", 10, ""), Asked("default", "beta", 10, ""))

    assert sorted(task.tenant for task in claimed) == ["acme", "beta", "beta", "beta"]
    assert {each.tenant: each.open_seconds is not None for each in looked} == {"acme": True, "beta": False}


# Pauses


@pytest.mark.parametrize("tenant", ["*", "default"])
@pytest.mark.parametrize("key", [None, "k"])
async def test_nothing_of_a_paused_queue_starts_until_it_is_resumed(
    given: Session, tenant: str, key: str | None
) -> None:
    await agree(given, tenant=tenant)
    await agreements.pause(given, "default", tenant=tenant, paused=True)
    waiting = await ready(given, limit_key=key)

    assert (await claim(given))[0] == []
    assert (await turn(given, lanes=[("default", "default", 5)]))[0] == []

    await agreements.pause(given, "default", tenant=tenant, paused=False)
    claimed = (await claim(given))[0] if key else (await turn(given, lanes=[("default", "default", 5)]))[0]
    assert ids(claimed) == set(waiting)


async def test_a_pause_of_one_queue_or_tenant_leaves_the_others_alone(given: Session) -> None:
    for name, tenant in (("default", "acme"), ("slow", "*"), ("default", "*")):
        await agreements.add(given, name, tenant=tenant)
    await agreements.pause(given, "default", tenant="acme", paused=True)

    rows = await agreements.agreements(given)

    assert [(row["name"], row["tenant"]) for row in rows if row["paused_at"]] == [("default", "acme")]


# What is agreed


async def test_what_ran_when_its_queue_got_limits_holds_a_slot_from_then_on(given: Session) -> None:
    running = [await plant(given, TASK, RUNNING) for _ in range(2)]
    await plant(given, TASK, RUNNING, queue="open")
    await ready(given)
    await agree(given, concurrency=2)

    marked = await agreements.mark(given, 10)

    assert {row["id"] for row in marked} == set(running)
    assert (await claim(given))[0] == []
    assert await agreements.mark(given, 10) == []


async def test_marking_is_bounded(given: Session) -> None:
    await agree(given, concurrency=2)
    for _ in range(3):
        await plant(given, TASK, RUNNING)

    assert len(await agreements.mark(given, 2)) == 2


async def test_what_runs_for_another_tenant_is_not_marked_by_the_limit_of_one(given: Session) -> None:
    await agree(given, tenant="acme", concurrency=2)
    ours = await plant(given, TASK, RUNNING, tenant="acme")
    await plant(given, TASK, RUNNING, tenant="beta")

    assert [row["id"] for row in await agreements.mark(given, 10)] == [ours]


async def test_what_is_not_named_stays_agreed(given: Session) -> None:
    await agree(given, concurrency=2, rate_count=5, rate_seconds=60, burst=2, weight=3, max_depth=9, key_concurrency=4)

    await agree(given, concurrency=None)

    [row] = await agreements.agreements(given, "default")
    told = ("concurrency", "rate_count", "rate_interval", "burst", "weight", "max_depth", "key_concurrency")
    assert [row[name] for name in told] == [None, 5, timedelta(seconds=60), 2, 3, 9, 4]


async def test_a_change_is_for_one_row_alone(given: Session) -> None:
    await agree(given, tenant="acme", concurrency=2)
    await agree(given, "slow", concurrency=3)

    rows = await agreements.agreements(given)

    assert [(row["name"], row["tenant"], row["concurrency"]) for row in rows] == [
        ("default", "*", None), ("default", "acme", 2), ("slow", "*", 3),
    ]  # fmt: skip


async def test_a_declaration_that_has_not_changed_leaves_what_was_set_by_hand(given: Session) -> None:
    said = {"name": "default", "concurrency": 5, "weight": 2}
    assert await agreements.declare(given, [said]) == ["default"]
    await agree(given, concurrency=9)

    assert await agreements.declare(given, [said]) == []
    [row] = await agreements.agreements(given, "default")
    assert (row["concurrency"], row["weight"]) == (9, 2)

    assert await agreements.declare(given, [said | {"concurrency": 6}]) == ["default"]
    [row] = await agreements.agreements(given, "default")
    assert row["concurrency"] == 6


async def test_who_of_a_tenant_holds_slots_of_a_queue_is_told_those_whose_lease_ends_first(given: Session) -> None:
    late = await plant(given, TASK, RUNNING, slot=True, leased_until=HOUR, limit_key="k")
    soon = await plant(given, TASK, RUNNING, slot=True, lease_owner=OTHER)
    await plant(given, TASK, RUNNING)
    await plant(given, TASK, RUNNING, slot=True, queue="slow")
    await plant(given, TASK, SUCCEEDED, slot=True)
    await plant(given, TASK, RUNNING, slot=True, tenant="acme")

    rows = await agreements.holders(given, "default", tenant="default", limit=10)

    assert [(row["id"], row["limit_key"]) for row in rows] == [(soon, None), (late, "k")]
    assert rows[0]["lease_owner"] == OTHER
    assert len(await agreements.holders(given, "default", tenant="default", limit=1)) == 1


async def test_the_slots_held_are_counted_by_row(given: Session) -> None:
    await agree(given, tenant="acme", concurrency=2)
    await plant(given, TASK, RUNNING, slot=True, tenant="acme")
    await plant(given, TASK, RUNNING, slot=True, tenant="beta")
    await plant(given, TASK, RUNNING, tenant="acme")
    await plant(given, TASK, RUNNING, slot=True, queue="slow")
    await plant(given, TASK, SUCCEEDED, slot=True)

    assert [(row["tenant"], row["held"]) for row in await agreements.agreements(given, "default")] == [
        ("*", 2),
        ("acme", 1),
    ]


@pytest.mark.parametrize("by", ["agreed", "served", "waiting", "running"])
async def test_a_queue_is_known_if_it_is_declared_served_or_live(given: Session, by: str) -> None:
    if by == "agreed":
        await agree(given)
    elif by == "waiting":
        await ready(given)
    elif by == "running":
        await plant(given, TASK, RUNNING)
    else:
        await given.execute(
            "insert into ferryman.workers (boot_id, host, pid, version, queues, handlers, seen_until)"
            f" values ('{OWNER}', 'h', 1, '0', array['default'], array['mail'], now() + interval '1 minute')"
        )

    assert await agreements.known(given, "default")
    assert not await agreements.known(given, "other")


async def test_a_queue_of_ended_tasks_and_dead_workers_is_not_known(given: Session) -> None:
    await plant(given, TASK, SUCCEEDED)
    await given.execute(
        "insert into ferryman.workers (boot_id, host, pid, version, queues, handlers, seen_until)"
        f" values ('{OWNER}', 'h', 1, '0', array['default'], array['mail'], now() - interval '1 minute')"
    )

    assert not await agreements.known(given, "default")


async def test_paused_handlers_are_told_and_resumed_by_name(given: Session) -> None:
    for name in ("b", "a", "a"):
        await agreements.pause_name(given, name, paused=True)

    assert [row["name"] for row in await agreements.paused_names(given)] == ["a", "b"]
    await agreements.pause_name(given, "a", paused=False)
    assert [row["name"] for row in await agreements.paused_names(given)] == ["b"]


async def test_a_gate_is_made_once_for_a_queue_that_nobody_declared(given: Session) -> None:
    await agree(given, concurrency=5)

    await gates.ensure(given, ["default", "slow"])

    rows = await agreements.agreements(given)
    assert [(row["name"], row["concurrency"]) for row in rows] == [("default", 5), ("slow", None)]


async def test_the_bounded_queues_are_those_with_a_depth(given: Session) -> None:
    await agree(given, concurrency=5)
    await agree(given, "deep", tenant="acme", max_depth=5)

    assert await agreements.bounded(given) == {"deep"}


@pytest.mark.parametrize(
    "row",
    [
        "weight = 0", "concurrency = 0", "key_concurrency = -1", "max_depth = 0", "at_limit = 'never'", "rate_count = 5",
        "rate_count = 0, rate_interval = '1 s', burst = 1", "rate_count = 1, rate_interval = '0 s', burst = 1",
        "rate_count = 1, rate_interval = '1 s', burst = 0",
    ],
)  # fmt: skip
async def test_the_table_refuses_what_no_rule_would_let_through(given: Session, row: str) -> None:
    await agree(given)

    with pytest.raises(Exception, match="violates check constraint"):
        await given.execute(f"update ferryman.queues set {row}")
