"""What each statement of tasks looks at besides the state and the fence: one test for one condition."""

from datetime import timedelta
from typing import Any
from uuid import UUID

import pytest

from ferryman.kernel.pool import Database, Session
from ferryman.tasks import store
from ferryman.tasks.states import CANCELLED, FAILED, PENDING, READY, RUNNING, SUCCEEDED, TASK, TaskState
from ferryman.testing import plant, state_of
from tests.sql.moves import EPOCH, HOUR, LANE, OWNER, SECOND, SOUND, columns, outcome, turn


async def now(tx: Session) -> Any:
    [row] = await tx.fetch("select ferryman.clock() as now")
    return row["now"]


# A turn settles


@pytest.mark.contract("K6")
@pytest.mark.parametrize("state", [SUCCEEDED, FAILED, READY])
async def test_a_turn_leaves_a_task_that_owes_a_callback_to_its_own_settling(given: Session, state: TaskState) -> None:
    task = await plant(given, TASK, RUNNING, **SOUND[RUNNING], callback="tool", callback_ref="1")

    _claimed, stale = await turn(given, outcome(task, state))

    assert stale == [task]
    assert await state_of(given, task) == RUNNING


@pytest.mark.contract("K4")
async def test_a_turn_names_exactly_the_outcomes_that_were_stale(given: Session) -> None:
    fresh = [await plant(given, TASK, RUNNING, **SOUND[RUNNING]) for _ in range(2)]
    stale_won, stale_lost = [await plant(given, TASK, RUNNING, **SOUND[RUNNING] | {"epoch": 8}) for _ in range(2)]

    _claimed, stale = await turn(
        given,
        outcome(fresh[0], SUCCEEDED),
        outcome(fresh[1], FAILED),
        outcome(stale_won, SUCCEEDED),
        outcome(stale_lost, FAILED),
    )

    assert sorted(stale) == sorted([stale_won, stale_lost])


@pytest.mark.contract("P13")
@pytest.mark.parametrize(
    ("priority", "claimed"), [(0, ["at", "after"]), (1, ["after"]), (-1, ["before", "at", "after"])]
)
async def test_a_lane_that_begins_behind_a_task_is_looked_into_from_its_place_on(
    given: Session, priority: int, claimed: list[str]
) -> None:
    there = await plant(given, TASK, RUNNING, **SOUND[RUNNING], id=UUID(int=10), due_at=-HOUR, priority=priority)
    [place] = await given.fetch("select due_at from ferryman.tasks where id = $1", there)
    ready = {
        name: await plant(given, TASK, READY, **SOUND[READY] | {"id": UUID(int=id), "rank": place["due_at"] + away})
        for name, id, away in (("before", 9, 0 * SECOND), ("at", 11, 0 * SECOND), ("after", 8, 61 * SECOND))
    }

    got, _stale = await turn(given, lanes=[LANE], behind=[there])

    assert {each.id for each in got} == {ready[name] for name in claimed}


@pytest.mark.contract("P13")
async def test_a_lane_that_begins_behind_a_task_that_has_gone_is_looked_into_from_the_front(given: Session) -> None:
    task = await plant(given, TASK, READY, **SOUND[READY])

    got, _stale = await turn(given, lanes=[LANE], behind=[OWNER])

    assert [each.id for each in got] == [task]


@pytest.mark.contract("P13")
@pytest.mark.parametrize("place", ["rank", "wake_at"])
async def test_a_lane_that_begins_behind_a_task_that_waits_again_is_looked_into_from_the_front(
    given: Session, place: str
) -> None:
    waits = await plant(given, TASK, READY, due_at=HOUR, **{"rank": None, place: HOUR})
    task = await plant(given, TASK, READY, **SOUND[READY])

    got, _stale = await turn(given, lanes=[LANE], behind=[waits])

    assert task in [each.id for each in got]


@pytest.mark.contract("T4", "K8")
@pytest.mark.parametrize("by", ["turn", "settle"])
async def test_an_end_keeps_its_result_or_its_cause_and_lets_the_lease_go(given: Session, by: str) -> None:
    won, lost = [await plant(given, TASK, RUNNING, **SOUND[RUNNING], last_error_code="OLD") for _ in range(2)]
    sent = [outcome(won, SUCCEEDED), outcome(lost, FAILED)]

    await (turn(given, *sent) if by == "turn" else store.settle(given, sent))

    kept = (
        "result",
        "last_error_code",
        "last_error_reason",
        "lease_owner",
        "leased_until",
        "rank",
        "wake_at",
        "attempt",
    )
    assert tuple((await columns(given, won, *kept)).values()) == ('{"sent": 1}', *[None] * 6, 2)
    assert tuple((await columns(given, lost, *kept)).values()) == (
        None, "TASK_RETRY_EXHAUSTED", "TASK_TIMEOUT: too late", *[None] * 4, 2,
    )  # fmt: skip
    assert (await columns(given, won, "finished_at"))["finished_at"] is not None
    assert (await columns(given, lost, "finished_at"))["finished_at"] is not None


@pytest.mark.contract("T5")
@pytest.mark.parametrize("by", ["turn", "settle"])
async def test_a_retry_with_a_delay_waits_outside_the_order_of_claiming(given: Session, by: str) -> None:
    task = await plant(given, TASK, RUNNING, **SOUND[RUNNING])
    sent = [outcome(task, READY, delay=60.0)]

    await (turn(given, *sent) if by == "turn" else store.settle(given, sent))

    row = await columns(given, task, "attempt", "rank", "wake_at", "due_at", "finished_at", "epoch", "last_error_code")
    assert (row["attempt"], row["rank"], row["finished_at"], row["epoch"]) == (3, None, None, EPOCH)
    assert row["wake_at"] == row["due_at"] > await now(given) + timedelta(seconds=55)
    assert row["last_error_code"] == "TASK_EXECUTION_FAILED"


@pytest.mark.contract("T5")
@pytest.mark.parametrize("by", ["turn", "settle"])
async def test_a_retry_without_a_delay_can_be_claimed_at_once_behind_its_priority(given: Session, by: str) -> None:
    task = await plant(given, TASK, RUNNING, **SOUND[RUNNING], priority=2)
    sent = [outcome(task, READY)]

    await (turn(given, *sent) if by == "turn" else store.settle(given, sent))

    row = await columns(given, task, "rank", "wake_at", "due_at")
    assert row["wake_at"] is None
    assert row["rank"] == row["due_at"] + timedelta(seconds=120)


# A turn claims


@pytest.mark.contract("K4", "K5", "T6", "T7")
async def test_a_claim_grows_the_fence_and_leases_for_the_shorter_of_lease_and_timeout(given: Session) -> None:
    long = await plant(given, TASK, READY, rank=-SECOND, epoch=3, lease_count=5)
    short = await plant(given, TASK, READY, timeout_ms=1000)

    claimed, _stale = await turn(given, lanes=[LANE])

    assert [(task.id, task.epoch) for task in claimed] == [(long, 4), (short, 1)]
    held = ("lease_owner", "lease_count", "rank", "leased_until", "started_at")
    first, second = await columns(given, long, *held), await columns(given, short, *held)
    assert (first["lease_owner"], first["lease_count"], first["rank"]) == (OWNER, 6, None)
    assert first["leased_until"] - first["started_at"] == timedelta(seconds=30)
    assert second["leased_until"] - second["started_at"] == timedelta(seconds=6)  # its timeout and the margin


@pytest.mark.contract("T5", "T21", "K12")
@pytest.mark.parametrize(
    "other",
    [{"queue": "mails"}, {"tenant": "acme"}, {"name": "fax"}, {"rank": None, "wake_at": HOUR}, {"ends_at": -SECOND}],
    ids=str,
)
async def test_a_claim_takes_from_its_lane_only_what_it_knows_and_what_is_due(
    given: Session, other: dict[str, Any]
) -> None:
    await plant(given, TASK, READY, **other)

    claimed, _stale = await turn(given, lanes=[LANE])

    assert claimed == []


@pytest.mark.contract("K5")
async def test_a_claim_takes_the_lowest_ranks_and_no_more_than_its_room(given: Session) -> None:
    planted = [await plant(given, TASK, READY, rank=-HOUR * n) for n in range(5)]

    claimed, _stale = await turn(given, lanes=[("default", "default", 2)])

    assert {task.id for task in claimed} == {planted[4], planted[3]}


@pytest.mark.contract("K5")
async def test_a_claim_skips_what_another_claim_holds(db: Database) -> None:
    async with db.transaction() as one, db.transaction() as other:
        async with db.session() as third:
            tasks = {await plant(third, TASK, READY) for _ in range(4)}

        first, _ = await turn(one, lanes=[("default", "default", 3)])
        second, _ = await turn(other, lanes=[("default", "default", 3)])

    assert (len(first), len(second)) == (3, 1)
    assert {task.id for task in [*first, *second]} == tasks


# settle


@pytest.mark.contract("W13")
@pytest.mark.parametrize("state", [FAILED, READY])
async def test_a_lease_that_was_renewed_meanwhile_is_not_reaped(given: Session, state: TaskState) -> None:
    task = await plant(given, TASK, RUNNING, **SOUND[RUNNING] | {"leased_until": SECOND * 20})

    assert await store.settle(given, [outcome(task, state)], lapsed=True) == ([], set())

    assert await state_of(given, task) == RUNNING


@pytest.mark.contract("T6")
async def test_a_living_holder_settles_before_and_after_its_lease_ends(given: Session) -> None:
    within = await plant(given, TASK, RUNNING, **SOUND[RUNNING] | {"leased_until": SECOND * 20})
    after = await plant(given, TASK, RUNNING, **SOUND[RUNNING])

    rows, _busy = await store.settle(given, [outcome(within, SUCCEEDED), outcome(after, SUCCEEDED)])

    assert {row["id"] for row in rows} == {within, after}


# cancel


@pytest.mark.contract("K12", "T14")
async def test_a_cancel_stays_within_its_tenant(given: Session) -> None:
    task = await plant(given, TASK, READY, tenant="acme")

    assert await store.cancel(given, [task], tenant="default") == []
    assert len(await store.cancel(given, [task], tenant="acme")) == 1


@pytest.mark.contract("T21")
async def test_only_what_waits_past_its_end_expires(given: Session) -> None:
    early = await plant(given, TASK, READY, ends_at=HOUR)
    running = await plant(given, TASK, RUNNING, ends_at=-HOUR)
    late = await plant(given, TASK, PENDING, ends_at=-SECOND)

    rows = await store.cancel(given, [early, running, late], expired=True, code="TASK_EXPIRED", reason="too late")

    assert [row["id"] for row in rows] == [late]
    assert await columns(given, late, "state", "last_error_code", "last_error_reason") == {
        "state": CANCELLED, "last_error_code": "TASK_EXPIRED", "last_error_reason": "too late",
    }  # fmt: skip


@pytest.mark.contract("T14", "T4")
async def test_a_cancel_takes_the_named_only_and_keeps_the_last_cause(given: Session) -> None:
    task = await plant(given, TASK, READY, last_error_code="TASK_TIMEOUT", last_error_reason="slow")
    neighbour = await plant(given, TASK, READY)

    await store.cancel(given, [task], reason="not wanted")

    assert await columns(given, task, "last_error_code", "last_error_reason", "rank", "wake_at", "leased_until") == {
        "last_error_code": "TASK_TIMEOUT", "last_error_reason": "slow", "rank": None, "wake_at": None, "leased_until": None,
    }  # fmt: skip
    assert await state_of(given, neighbour) == READY
