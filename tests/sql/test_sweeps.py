"""What the sweeps of tasks find and what they leave: one test for one condition."""

from datetime import timedelta

import pytest

from ferryman.kernel.pool import Database, Session
from ferryman.tasks import store
from ferryman.tasks.states import PENDING, READY, RUNNING, SUCCEEDED, TASK
from ferryman.testing import plant, state_of
from tests.sql.moves import EPOCH, HOUR, OTHER, OWNER, SECOND, SOUND, columns


@pytest.mark.contract("T1", "T5")
async def test_the_sweep_lets_in_what_is_due_and_says_when_to_look_again(given: Session) -> None:
    due = await plant(given, TASK, PENDING, wake_at=-SECOND, due_at=-SECOND, priority=-1)
    backing_off = await plant(given, TASK, READY, rank=None, wake_at=-SECOND, due_at=-SECOND)
    later = await plant(given, TASK, PENDING, wake_at=SECOND * 60)
    await plant(given, TASK, PENDING, wake_at=SECOND * 90)
    still = await plant(given, TASK, READY, rank=None, wake_at=HOUR)

    count, lanes, next_seconds = await store.promote(given, limit=10)

    assert (count, lanes) == (2, ["default\x1fdefault"])
    assert next_seconds == pytest.approx(60, abs=10)
    assert [await state_of(given, task) for task in (due, backing_off, later)] == [READY, READY, PENDING]
    assert (await columns(given, still, "rank"))["rank"] is None
    for task, ahead in ((due, 60), (backing_off, 0)):
        row = await columns(given, task, "rank", "due_at", "wake_at")
        assert (row["rank"], row["wake_at"]) == (row["due_at"] - timedelta(seconds=ahead), None)
    told = await given.fetch("select subject from ferryman.events")
    assert [row["subject"] for row in told] == [due]


@pytest.mark.contract("K5")
async def test_the_sweep_is_bounded_and_skips_what_another_sweep_holds(db: Database) -> None:
    async with db.transaction() as one, db.transaction() as other:
        async with db.session() as third:
            for _ in range(4):
                await plant(third, TASK, PENDING, wake_at=-SECOND)

        first, _, _ = await store.promote(one, limit=3)
        second, _, _ = await store.promote(other, limit=3)

    assert (first, second) == (3, 1)


@pytest.mark.contract("W13")
async def test_the_watchdog_finds_leases_that_have_passed_oldest_first(given: Session) -> None:
    await plant(given, TASK, RUNNING, leased_until=SECOND * 20)
    await plant(given, TASK, READY)
    newer = await plant(given, TASK, RUNNING, leased_until=-SECOND)
    older = await plant(given, TASK, RUNNING, leased_until=-HOUR, started_at=-HOUR * 2)

    assert [(row["id"], row["timed_out"]) for row in await store.lapsed(given, 10)] == [(older, True), (newer, False)]
    assert [row["id"] for row in await store.lapsed(given, 1)] == [older]


@pytest.mark.contract("T21")
async def test_the_watchdog_finds_what_still_waits_at_its_end(given: Session) -> None:
    await plant(given, TASK, READY)
    await plant(given, TASK, RUNNING, ends_at=-HOUR)
    await plant(given, TASK, SUCCEEDED, ends_at=-HOUR)
    newer = await plant(given, TASK, READY, ends_at=-SECOND)
    older = await plant(given, TASK, PENDING, ends_at=-HOUR)

    assert [row["id"] for row in await store.expired(given, 10)] == [older, newer]
    assert [row["id"] for row in await store.expired(given, 1)] == [older]


@pytest.mark.contract("K5", "K24")
async def test_a_worker_hands_back_what_it_does_not_know_of_without_using_an_attempt(given: Session) -> None:
    known = await plant(given, TASK, RUNNING, **SOUND[RUNNING])
    unknown = await plant(given, TASK, RUNNING, **SOUND[RUNNING])
    foreign = await plant(given, TASK, RUNNING, **SOUND[RUNNING] | {"lease_owner": OTHER})

    assert await store.reclaim(given, owner=OWNER, held=[known]) == (1, 0)

    assert [await state_of(given, task) for task in (known, unknown, foreign)] == [RUNNING, READY, RUNNING]
    assert await columns(given, unknown, "attempt", "epoch", "lease_owner", "leased_until") == {
        "attempt": 2, "epoch": EPOCH, "lease_owner": None, "leased_until": None,
    }  # fmt: skip


@pytest.mark.contract("T6", "K5")
async def test_a_lease_is_never_renewed_past_the_end_of_the_attempt(given: Session) -> None:
    task = await plant(given, TASK, RUNNING, **SOUND[RUNNING], started_at=timedelta(0), timeout_ms=1000)

    await store.renew(given, [task], [EPOCH], owner=OWNER, lease=SECOND * 30, margin=SECOND * 5)

    row = await columns(given, task, "leased_until", "started_at", "lease_count")
    assert row["leased_until"] - row["started_at"] == timedelta(seconds=6)
    assert row["lease_count"] == EPOCH + 1


@pytest.mark.contract("W13", "P13")
async def test_leases_that_passed_within_a_time_are_found_without_the_others(given: Session) -> None:
    await plant(given, TASK, RUNNING, leased_until=-HOUR)
    newer = await plant(given, TASK, RUNNING, leased_until=-SECOND)

    assert [row["id"] for row in await store.lapsed(given, 10, SECOND * 60)] == [newer]
