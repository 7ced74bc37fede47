"""What is agreed for queues, and who holds their slots: the statements, one condition at a time."""

from datetime import timedelta

import pytest

from ferryman.kernel.pool import Session
from ferryman.tasks.states import RUNNING, SUCCEEDED, TASK
from ferryman.tasks.store import agreements, gates
from ferryman.testing import plant
from tests.sql.gating import agree, claim, ready
from tests.sql.moves import HOUR, OTHER, OWNER

pytestmark = pytest.mark.contract("T17")

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
