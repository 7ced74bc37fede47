"""Forking: every target is looked at before anything is made, and all of it is one transaction."""

import json
from dataclasses import replace
from typing import Any
from uuid import uuid4

import pytest

from ferryman.agents import intake
from ferryman.batches.model import Forked, Refused
from tests.agents.house import TENANT
from tests.batches.yard import CALL, Yard, caller_of, task


class Policy:
    def __init__(self, *names: str) -> None:
        self.names = names

    def may_ask(self, *names: str) -> bool:
        return any(name in self.names for name in names)


@pytest.mark.contract("B4", "B15", "B3")
async def test_a_batch_is_made_with_its_tasks_boxes_and_agents(yard: Yard) -> None:
    caller = await yard.parent()
    batch = await yard.fork(task(instruction="one"), task(instruction="two"), caller=caller, fail_fast=True)

    record = await yard.batch(batch)
    assert (record.status, record.task_count, record.fail_fast) == ("running", 2, True)
    assert (record.parent_agent_id, record.parent_agent_turn_id, record.parent_tool_call_id) == (
        "ann", caller.turn, CALL,
    )  # fmt: skip
    assert (record.deadline_at - record.created_at).total_seconds() == 900
    tasks = await yard.tasks_of(batch)
    assert [(each.status, each.retryable, each.attempt_count) for each in tasks] == [("pending", True, 0)] * 2
    assert [json.loads(each.metadata)["task_index"] for each in tasks] == [0, 1]
    assert len({each.agent_id for each in tasks}) == 2
    async with yard.db.session() as tx:
        cards = await intake.read.cards(tx, tasks[1].context_box_id, tenant=TENANT)
    assert [(card.type, json.loads(card.content)) for card in cards] == [
        ("task.instruction", "two"),
        (
            "meta.parent_pointer",
            {
                "agent_id": "ann", "agent_turn_id": str(caller.turn), "tool_call_id": CALL, "batch_id": str(batch),
                "task_index": 1,
            },
        ),
    ]  # fmt: skip
    edges = await yard.rows("select edge_phase from ferryman.execution_edges where correlation_id = $1", str(batch))
    assert edges == [{"edge_phase": "request"}]
    assert await yard.broken() == []


@pytest.mark.contract("B4", "K11")
async def test_the_same_id_again_is_the_same_batch(yard: Yard) -> None:
    id = uuid4()
    first = await yard.answer_fork(task(), id=id)
    before = await yard.counts()
    assert (first, await yard.answer_fork(task(), id=id)) == (Forked(id), Forked(id, created=False))
    assert await yard.counts() == before
    caller = await yard.parent()
    stranger = await yard.answer_fork(task(), id=id, caller=caller)
    assert isinstance(stranger, Refused)
    assert stranger.code == "conflict"


@pytest.mark.contract("B2", "B1", "B11", "A7")
async def test_what_cannot_be_done_is_refused_and_nothing_is_made(yard: Yard) -> None:
    caller = await yard.parent()
    await yard.agent("bob")
    mine = {"caller": caller}
    deep = {"caller": replace(caller, depth=19)}
    before = await yard.counts()
    cases: list[tuple[list[dict[str, Any]], dict[str, Any], str, str | None]] = [
        ([task(), task("nobody")], {}, "bad_request", "tasks[1].target_ref"),
        ([task("nobody", strategy="reuse")], {}, "bad_request", "tasks[0].target_ref"),
        ([task("nobody", strategy="clone")], {}, "bad_request", "tasks[0].target_ref"),
        ([task("bob", strategy="clone")], {}, "bad_request", "tasks[0].target_ref"),
        ([task("bob", strategy="reuse")] * 2, {}, "bad_request", "tasks[1].target_ref"),
        ([task("ann", strategy="reuse")], mine, "bad_request", "tasks[0].target_ref"),
        ([task()], {**mine, "policy": Policy()}, "delegation_refused", "tasks[0].target_ref"),
        ([task("bob", strategy="reuse")], {**mine, "policy": Policy("child")}, "delegation_refused", "tasks[0].target_ref"),
        ([task(context_box_id=str(uuid4()))], {}, "bad_request", "tasks[0].context_box_id"),
        ([task()], deep, "recursion_depth_exceeded", None),
    ]  # fmt: skip
    for tasks, more, code, field in cases:
        answer = await yard.answer_fork(*tasks, **more)
        assert isinstance(answer, Refused), tasks
        assert (answer.code, answer.field) == (code, field), answer
        assert answer.reason
    assert await yard.counts() == before


@pytest.mark.contract("B2")
async def test_a_policy_lets_profiles_and_agents_be_asked(yard: Yard) -> None:
    caller = await yard.parent()
    await yard.agent("bob")
    for tasks, policy in (
        ([task()], Policy("child")),
        ([task("bob", strategy="reuse")], Policy("writer")),
        ([task("bob", strategy="reuse")], Policy("bob")),
    ):
        assert isinstance(await yard.answer_fork(*tasks, caller=caller, policy=policy), Forked)


@pytest.mark.contract("B2", "B11")
async def test_an_ancestor_is_not_reused(yard: Yard) -> None:
    caller = await yard.parent("ann")
    batch = await yard.fork(task(), caller=caller)
    await yard.dispatch()
    [child] = await yard.children()
    below = caller_of(child, "call-2")
    answer = await yard.answer_fork(task("ann", strategy="reuse"), caller=below)
    assert isinstance(answer, Refused)
    assert "waits for this batch" in answer.reason
    assert (await yard.batch(batch)).status == "running"


@pytest.mark.contract("B2", "B3")
async def test_a_clone_begins_with_its_origins_output(yard: Yard) -> None:
    first = await yard.begin("bob")
    await yard.settle(yard.success(first, {"summary": "known"}))
    batch = await yard.fork(task("bob", "go on", strategy="clone"))

    [made] = await yard.tasks_of(batch)
    assert (made.profile, made.agent_id != "bob") == ("writer", True)
    async with yard.db.session() as tx:
        cards = await intake.read.cards(tx, made.context_box_id, tenant=TENANT)
    assert [card.type for card in cards] == ["task.deliverable", "task.instruction", "meta.parent_pointer"]
    assert json.loads(cards[1].content) == "go on"


@pytest.mark.contract("B3")
async def test_a_child_inherits_only_boxes_that_its_caller_may_see(yard: Yard) -> None:
    caller = await yard.parent("ann")
    other = await yard.begin("bob")
    assert caller.context_box is not None
    hidden = await yard.answer_fork(task(context_box_id=str(other.context_box_id)), caller=caller)
    assert isinstance(hidden, Refused)
    assert hidden.field == "tasks[0].context_box_id"

    batch = await yard.fork(task(instruction="new", context_box_id=str(caller.context_box)), caller=caller)
    [made] = await yard.tasks_of(batch)
    async with yard.db.session() as tx:
        cards = await intake.read.cards(tx, made.context_box_id, tenant=TENANT)
    assert [json.loads(card.content) for card in cards][:2] == ["write", "new"]

    # What its children wrote is its own to pass on; somebody outside of an agent sees what the tenant has.
    again = await yard.answer_fork(task(context_box_id=str(made.output_box_id)), caller=caller)
    outside = await yard.answer_fork(task(context_box_id=str(other.context_box_id)))
    assert isinstance(again, Forked)
    assert isinstance(outside, Forked)
