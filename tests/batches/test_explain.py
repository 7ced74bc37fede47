"""What is a batch doing, or one of its tasks, why is it not done, what ends it? Every reason has its test (K22)."""

from datetime import timedelta
from uuid import UUID

import pytest

from ferryman.kernel import ids
from ferryman.tasks import store
from ferryman.tasks.intake.explain import Explanation, explain
from tests.agents.house import TENANT
from tests.batches.yard import Yard, task

WATCHED = "update ferryman.watchdog set ticked_at = clock_timestamp() + ferryman.slack()"


async def told(yard: Yard, id: UUID) -> Explanation:
    async with yard.db.session() as tx:
        explanation = await explain(tx, id, tenant=TENANT)
    assert explanation is not None
    return explanation


async def part_of(yard: Yard, batch: UUID, index: int = 0) -> UUID:
    id: UUID = await yard.value(
        "select id from ferryman.pmo_batch_tasks where batch_id = $1 and task_index = $2", batch, index
    )
    return id


async def works(yard: Yard) -> None:
    async with yard.db.session() as tx:
        await store.beat(
            tx, boot_id=ids.boot_id(), host="ferry", pid=7, version="1", queues=["default"], handlers=[],
            settings="{}", lease=timedelta(hours=1),
        )  # fmt: skip


@pytest.mark.contract("K22")
async def test_a_batch_names_its_open_tasks_and_who_waits_for_it(yard: Yard) -> None:
    await yard.write(WATCHED)
    caller = await yard.parent()
    batch = await yard.fork(task(), task(), caller=caller)

    explained = await told(yard, batch)

    assert explained.codes() == ["waiting_for_task", "waiting_for_task", "parent_waits"]
    assert [each.about["task_index"] for each in explained.reasons[:2]] == [0, 1]
    assert explained.reasons[2].about == {"turn": str(caller.turn)}
    assert (explained.domain, explained.doing) == ("batch", "It waits for 2 of its 2 tasks.")
    assert explained.ends is not None
    assert explained.ends.says.startswith("W10 ends it as timeout at ")


@pytest.mark.contract("K22")
async def test_a_task_of_a_batch_says_how_far_its_turn_is(yard: Yard) -> None:
    await yard.write(WATCHED)
    batch = await yard.fork(task())
    part = await part_of(yard, batch)
    nobody = await told(yard, part)
    await works(yard)
    due = await told(yard, part)
    await yard.write(
        "update ferryman.pmo_batch_tasks set next_retry_at = now() + interval '1 h', attempt_count = 2, error_detail = 'busy'"
    )
    later = await told(yard, part)
    await yard.write("update ferryman.pmo_batch_tasks set next_retry_at = now()")
    await yard.dispatch()
    sent = await told(yard, part)

    assert nobody.codes() == ["due", "no_worker"]
    assert (due.codes(), due.doing) == (["due"], "It waits to be dispatched.")
    assert later.codes() == ["backing_off"]
    assert later.reasons[0].says.startswith("Its agent did not take it (try 2: busy); it is asked again at ")
    assert later.reasons[0].until is not None
    assert sent.codes() == ["waiting_for_turn"]
    assert sent.reasons[0].about == {"turn": sent.about["turn"], "state": "dispatched"}
    await yard.write("delete from ferryman.agent_inbox")
    assert (await told(yard, part)).codes() == ["turn_unheard"]


@pytest.mark.contract("K22")
async def test_an_ended_batch_says_how_and_whether_its_parent_was_told(yard: Yard) -> None:
    await yard.write(WATCHED)
    batch = await yard.fork(task())
    part = await part_of(yard, batch)
    await yard.cancel_batch(batch)

    ended, canceled = await told(yard, batch), await told(yard, part)
    await yard.write("update ferryman.pmo_batches set parent_told_at = null")

    assert (ended.codes(), ended.ends, ended.state) == (["ended"], None, "failed")
    assert ended.doing == "It has ended as failed: canceled."
    assert (canceled.codes(), canceled.doing) == (["ended"], "It has ended as canceled.")
    assert (await told(yard, batch)).codes() == ["parent_untold", "ended"]
