"""Passing a gate: what the claim counts, what it takes and what it leaves, one condition at a time."""

from datetime import timedelta
from typing import Any

import pytest

from ferryman.kernel.pool import Database, Session
from ferryman.tasks.states import PENDING, RUNNING, SUCCEEDED, TASK
from ferryman.tasks.store import gates
from ferryman.tasks.store.gates import Asked
from ferryman.testing import plant
from tests.sql.gating import agree, claim, ids, ready
from tests.sql.moves import HOUR, LEASE, MARGIN, OWNER, SECOND, columns, turn

pytestmark = pytest.mark.contract("T17")

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


async def test_of_many_keys_no_more_is_held_than_fills_the_room_twice(db: Database) -> None:
    async with db.session() as ground:
        await agree(ground, concurrency=100, key_concurrency=5)
        for key in "abcd":
            await ready(ground, 5, limit_key=key)

    async with db.transaction() as tx, db.session() as other:
        claimed, [looked] = await claim(tx, room=4)
        free = await other.fetch("select from ferryman.tasks where limit_key is not null for update skip locked")

    assert len({task.id for task in claimed}) == 4
    assert len(free) == 4 * 5 - 2 * 4
    assert looked.cut


async def test_a_key_that_was_cut_short_is_emptied_by_the_next_looks(given: Session) -> None:
    """One key has all the room that others cannot use."""
    await agree(given, concurrency=100, key_concurrency=5)
    for key in "abc":
        await ready(given, 1, limit_key=key)
        await plant(given, TASK, RUNNING, slot=True, limit_key=key)
    await ready(given, 5, limit_key="d")

    looks = [await claim(given, room=4) for _ in range(3)]

    assert [len(claimed) for claimed, _ in looks] == [4, 4, 0]
    assert [looked.cut for _, [looked] in looks] == [True, False, False]


async def test_no_more_are_claimed_than_there_is_room_for(given: Session) -> None:
    await agree(given, concurrency=10)
    await ready(given, 9)

    assert len((await claim(given, room=4))[0]) == 4
    assert len((await claim(given, Asked("default", "default", 3, "")))[0]) == 3


async def test_the_oldest_come_first(given: Session) -> None:
    await agree(given, concurrency=1)
    await ready(given, 2)
    [oldest] = await ready(given, rank=-HOUR)

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
