"""What a gate keeps to: keys, rates and pauses, one condition at a time."""

from datetime import timedelta

import pytest

from ferryman.kernel.pool import Session
from ferryman.tasks.states import PENDING, RUNNING, SUCCEEDED, TASK
from ferryman.tasks.store import agreements
from ferryman.tasks.store.gates import Asked
from ferryman.testing import plant, travel
from tests.sql.gating import agree, claim, ids, ready
from tests.sql.moves import HOUR, turn

pytestmark = pytest.mark.contract("T17")

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
    await agree(given, rate_count=1, rate_seconds=60, burst=3)
    await ready(given, 10)

    first, [looked] = await claim(given)
    none, _ = await claim(given)
    await travel(given, timedelta(minutes=2.5))
    later, _ = await claim(given)

    assert (len(first), none, len(later)) == (3, [], 2)
    assert looked.open_seconds == pytest.approx(60, abs=0.2)
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


@pytest.mark.contract("K14")
@pytest.mark.parametrize("tenant", ["*", "default"])
async def test_a_clock_that_was_set_back_closes_no_rate_for_long(given: Session, tenant: str) -> None:
    await agree(given, rate_count=1, rate_seconds=60, burst=3, tenant=tenant)
    for name, of in (("default", "acme"), ("other", "*"), ("other", tenant)):
        await agree(given, name, of, rate_count=1, rate_seconds=60, burst=3)
    unspent = "select from ferryman.queues where rate_count is not null and open_at < ferryman.clock()"
    await ready(given, 10)
    first, _ = await claim(given)
    await travel(given, -HOUR)

    none, [looked] = await claim(given)
    rested = len(await given.fetch(unspent))
    await travel(given, timedelta(seconds=61))
    second, _ = await claim(given)
    await travel(given, timedelta(minutes=3))
    rest, _ = await claim(given)

    assert (len(first), none, len(second), len(rest)) == (3, [], 1, 3)
    assert looked.open_seconds == pytest.approx(60, abs=0.2)
    assert rested == (2 if tenant == "*" else 3), "the rates of others are as they were"


@pytest.mark.parametrize("tenant", ["*", "default"])
async def test_a_rate_that_is_raised_is_not_held_back_by_what_was_spent_of_the_one_before(
    given: Session, tenant: str
) -> None:
    await agree(given, rate_count=1, rate_seconds=3600, burst=1, tenant=tenant)
    await ready(given, 10)
    first, _ = await claim(given)
    await agree(given, rate_count=1, rate_seconds=10, burst=2, tenant=tenant)

    none, [looked] = await claim(given)
    await travel(given, timedelta(seconds=11))
    second, _ = await claim(given)

    assert (len(first), none, len(second)) == (1, [], 1)
    assert looked.open_seconds == pytest.approx(10, abs=0.2)


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
