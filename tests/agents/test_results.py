"""What a set of results does, and to whom: every guard of the statement that takes them in has its row here (A12)."""

from __future__ import annotations

from datetime import timedelta
from typing import Any
from uuid import UUID

import pytest

from ferryman.agents import intake
from ferryman.agents.model import Accepted, Answer, Report
from ferryman.kernel import ids
from tests.agents.house import TENANT, House

SECOND = timedelta(seconds=1)


def said(call: str, **more: Any) -> Report:
    content = more.pop("content", {"status": "success", "result": call})
    return Report(tenant=TENANT, tool_call_id=call, id=ids.new_id(), card_id=ids.new_id(), content=content, **more)


async def report(house: House, *reports: Report) -> list[Answer]:
    house.after.targets.clear()
    async with house.db.transaction() as tx:
        return await intake.report(tx, reports, house.parties, after=house.after)


async def waits(house: House) -> dict[str, tuple[str, UUID | None]]:
    rows = await house.rows("select tool_call_id, wait_status, tool_result_card_id from ferryman.turn_waiting_tools")
    return {row["tool_call_id"]: (row["wait_status"], row["tool_result_card_id"]) for row in rows}


@pytest.mark.contract("A12", "A11")
async def test_a_result_is_noted_in_its_own_turn_and_the_clock_goes_on_with_the_next(house: House) -> None:
    taken = await house.suspend(("a1", 10), ("a2", 30), ("a3", 20), agent_id="ann")
    await house.suspend(("b1", 5), agent_id="bob")
    boxes = (
        "select agent_id, card_ids from ferryman.boxes as box join ferryman.agent_state_head on output_box_id = box.id"
    )
    before = {row["agent_id"]: row["card_ids"] for row in await house.rows(boxes)}
    head = await house.head("ann")
    first = said("a1")

    [answer] = await report(house, first)

    assert answer == Accepted(first.id)
    assert house.after.targets == set()  # others are waited for
    now = await house.head("ann")
    assert (now["waiting_tool_count"], now["ready_at"]) == (2, None)
    # Of those that are still waited for; not what was answered, and not another turn's.
    assert now["resume_deadline"] - head["resume_deadline"] == 10 * SECOND
    after = {row["agent_id"]: row["card_ids"] for row in await house.rows(boxes)}
    assert after == {**before, "ann": [*before["ann"], first.card_id]}

    await report(house, said("a3"))
    assert (await house.head("ann"))["resume_deadline"] - head["resume_deadline"] == 20 * SECOND
    await report(house, said("a2"))

    assert house.after.targets == {"default"}
    assert (await waits(house))["b1"] == ("waiting", None)
    assert [each.id for each in await house.claim()] == [taken.id]
    messages = await house.rows(
        "select status, archived_at from ferryman.agent_inbox where message_type = 'tool_result'"
    )
    assert [(row["status"], row["archived_at"] is not None) for row in messages] == [("consumed", True)] * 3


@pytest.mark.contract("A12")
async def test_of_results_that_come_together_the_earliest_counts(house: House) -> None:
    await house.suspend("a1", "b1", "other")
    same, late, later = said("a1"), *[said("a1", content={"status": "failed"}) for _ in range(2)]
    result, timeout = said("b1"), said("b1", message_type="timeout", content={"status": "timeout"})

    answers = await report(house, late, same, later, timeout, result)

    told = [(each.created, each.effect) for each in answers if isinstance(each, Accepted)]
    # Of one kind one message is stored; of two kinds both are, and one has an effect.
    assert told == [(False, False), (True, True), (False, False), (True, False), (True, True)]
    found = await waits(house)
    assert (found["a1"], found["b1"]) == (("received", same.card_id), ("received", result.card_id))
    assert (await house.head())["waiting_tool_count"] == 1


@pytest.mark.contract("A12", "K4", "K12")
async def test_a_result_has_no_effect_on_a_turn_that_does_not_wait_for_it_now(house: House) -> None:
    """The row says that it is waited for; the head does not: it runs, or has gone on since."""
    await house.suspend("r1", agent_id="run")
    await house.suspend("p1", agent_id="past")
    await house.suspend("s1", agent_id="sus")
    await house.report("r1")
    await house.claim()
    await house.write("update ferryman.turn_waiting_tools set wait_status = 'waiting' where tool_call_id = 'r1'")
    await house.write("delete from ferryman.agent_inbox where tool_call_id = 'r1'")
    await house.write("update ferryman.agent_state_head set turn_epoch = turn_epoch + 1 where agent_id = 'past'")
    # Another tenant waits for a call of the same name; it is suspended at the epoch at which r1 was made.
    await house.write(
        "insert into ferryman.turn_waiting_tools select (jsonb_populate_record(waited, jsonb_build_object('tenant', 'other',"
        " 'tool_call_id', 's2'))).* from ferryman.turn_waiting_tools as waited where tool_call_id = 's1'"
    )
    await house.write(
        "update ferryman.turn_waiting_tools set tool_call_id = 's1' where tenant = 'other' and tool_call_id = 's2'"
    )

    answers = await report(house, said("r1"), said("p1"), said("s1"))

    assert [each.effect for each in answers if isinstance(each, Accepted)] == [False, False, True]
    assert (await house.head("sus"))["waiting_tool_count"] == 0
    rows = await house.rows("select tenant, tool_call_id, wait_status from ferryman.turn_waiting_tools order by 1, 2")
    assert [tuple(row.values()) for row in rows] == [
        (TENANT, "p1", "waiting"), (TENANT, "r1", "waiting"), (TENANT, "s1", "received"), ("other", "s1", "waiting"),
    ]  # fmt: skip


@pytest.mark.contract("A12", "A8")
async def test_a_result_may_point_to_a_card_that_exists(house: House) -> None:
    taken = await house.suspend("a1", "a2")
    [first] = [said("a1")]
    await report(house, first)
    pointing = Report(tenant=TENANT, tool_call_id="a2", id=ids.new_id(), card_id=first.card_id)

    [answer] = await report(house, pointing)

    assert answer == Accepted(pointing.id)
    assert (await waits(house))["a2"] == ("received", first.card_id)
    assert await house.value("select count(*) from ferryman.cards where type = 'tool.result'") == 1
    [again] = await house.claim()
    assert (again.id, [call.result for call in again.results]) == (
        taken.id,
        ['{"result": "a1", "status": "success"}'] * 2,
    )
