"""The life of a batch: dispatched in fair sets, children absorbed, closed once, the parent told in the same transaction."""

import json
from datetime import timedelta
from typing import Any
from uuid import uuid4

import pytest

from ferryman.agents.intake import cards
from ferryman.agents.model import Card, EndedTurn
from ferryman.agents.states import TurnStatus
from ferryman.batches import rules
from ferryman.batches.ends import absorb, hold
from ferryman.batches.model import Caller, Terms
from ferryman.kernel.db import load
from ferryman.kernel.pool import Database, Line
from tests.agents.house import TENANT
from tests.batches.yard import BROKEN_INBOX, REFUSE, Yard, task


@pytest.mark.contract("B5", "B6", "B7", "B9")
async def test_a_batch_runs_from_its_fork_to_its_parents_result(yard: Yard) -> None:
    caller = await yard.parent()
    batch = await yard.fork(task(instruction="a"), task(instruction="b"), task(instruction="c"), caller=caller)
    assert (await yard.dispatch()).taken == 3
    sent = await yard.tasks_of(batch)
    assert [(each.status, each.attempt_count, each.current_turn_epoch) for each in sent] == [("dispatched", 1, 1)] * 3

    one, two, three = await yard.children()
    await yard.finish(three, content="third")
    await yard.finish(one, content={"summary": "first"})
    assert await yard.told() == []
    await yard.finish(two, "failed", code="handler_failed", error="no")

    record = await yard.batch(batch)
    assert (record.status, record.finished_at is not None) == ("partial", True)
    expected = {
        "status": "partial",
        "results": [
            {"task_index": 0, "status": "success", "summary": "first", "output_box_id": str(one.output_box_id)},
            {
                "task_index": 1, "status": "failed", "summary": "no", "output_box_id": str(two.output_box_id),
                "error": "handler_failed",
            },
            {"task_index": 2, "status": "success", "summary": "third", "output_box_id": str(three.output_box_id)},
        ],
    }  # fmt: skip
    [told] = await yard.told()
    assert (told["status"], told["result"], told["error"]["code"]) == ("partial", expected, "batch_failed")
    [parent] = await yard.claim()
    assert (parent.id, parent.was) == (caller.turn, "suspended")
    phases = await yard.rows("select edge_phase from ferryman.execution_edges where correlation_id = $1", str(batch))
    assert {row["edge_phase"] for row in phases} == {"request", "response"}
    moves = "select from_state, to_state from ferryman.events where subject = $1 order by id"
    assert [tuple(row.values()) for row in await yard.rows(moves, batch)] == [(None, "running"), ("running", "partial")]
    assert [tuple(row.values()) for row in await yard.rows(moves, sent[1].id)] == [
        ("pending", "dispatched"), ("dispatched", "failed"),
    ]  # fmt: skip
    assert await yard.broken() == []


@pytest.mark.contract("B5", "B12", "K14")
async def test_a_dispatch_is_fair_across_tenants_and_batches(yard: Yard) -> None:
    flood = [await yard.fork(*[task() for _ in range(20)]) for _ in range(3)]
    other = await yard.answer_fork(task(), task(), caller=Caller(tenant="other"))
    small = await yard.fork(task())

    assert (await yard.dispatch(6)).taken == 6

    rows = await yard.rows("select batch_id from ferryman.pmo_batch_tasks where status = 'dispatched'")
    sent = [row["batch_id"] for row in rows]
    assert sent.count(other.id) == 2  # type: ignore[union-attr]
    assert [sent.count(batch) for batch in (*flood, small)] == [1, 1, 1, 1]
    total = 6
    while (done := await yard.dispatch(32)).taken:
        total += done.taken
    assert total == 63
    assert await yard.broken() == []


@pytest.mark.contract("B5")
async def test_a_dispatch_passes_over_a_batch_that_somebody_holds(yard: Yard) -> None:
    held, free = await yard.fork(task()), await yard.fork(task())
    async with yard.db.transaction() as tx:
        await hold(tx, [held])
        assert (await yard.dispatch()).taken == 1
    assert (await yard.statuses(held), await yard.statuses(free)) == (["pending"], ["dispatched"])
    assert (await yard.dispatch()).taken == 1


@pytest.mark.contract("B5")
async def test_a_dispatch_that_can_never_succeed_fails_its_task(yard: Yard) -> None:
    caller = await yard.parent()
    await yard.agent("bob")
    batch = await yard.fork(task(), task("bob", strategy="reuse"), caller=caller)
    await yard.write("delete from ferryman.agent_state_head where agent_id = 'bob'")

    await yard.dispatch()

    lost = (await yard.tasks_of(batch))[1]
    assert (lost.status, lost.retryable, lost.error_detail) == ("failed", False, "dispatch_rejected:agent_unknown")
    [child] = await yard.children()
    await yard.finish(child)
    assert (await yard.batch(batch)).status == "partial"
    assert len(await yard.told()) == 1


@pytest.mark.contract("B5", "B12")
async def test_batches_that_were_put_off_take_no_place_from_those_that_are_due(db: Database) -> None:
    yard = Yard(db, terms=Terms(scan_limit=2))
    put_off = [await yard.fork(task()) for _ in range(2)]
    first, second = await yard.fork(task()), await yard.fork(task())
    middle = await yard.fork(task())
    last = await yard.fork(task())
    await yard.write(
        "update ferryman.pmo_batch_tasks set next_retry_at = ferryman.clock() + interval '30 s' where batch_id = any($1)",
        [*put_off, middle],
    )
    assert [(await yard.dispatch()).taken for _ in range(3)] == [2, 1, 0]
    statuses = [(await yard.statuses(each))[0] for each in (*put_off, first, second, middle, last)]
    assert statuses == ["pending"] * 2 + ["dispatched"] * 2 + ["pending", "dispatched"]


def _read(plan: dict[str, Any]) -> int:
    """Count the tasks that a plan has read, whether they were what it looked for or not."""
    here = plan["Actual Loops"] * (plan["Actual Rows"] + plan.get("Rows Removed by Filter", 0))
    own = int(here) if plan.get("Relation Name") == "pmo_batch_tasks" else 0
    return own + sum(_read(each) for each in plan.get("Plans", ()))


@pytest.mark.contract("B5", "P1")
async def test_a_dispatch_does_not_read_what_was_put_off(yard: Yard, database_url: str) -> None:
    put_off, due = await yard.fork(task()), await yard.fork(task())
    await yard.write(
        "insert into ferryman.pmo_batch_tasks (id, tenant, batch_id, created_at, updated_at, ends_at, next_retry_at,"
        " task_index, agent_turn_id, context_box_id, agent_id, profile, payload_hash)"
        " select gen_random_uuid(), tenant, batch_id, created_at, updated_at, ends_at, next_retry_at, n, gen_random_uuid(),"
        " context_box_id, agent_id, profile, payload_hash"
        " from ferryman.pmo_batch_tasks, generate_series(1, 1000) as n where batch_id = $1", put_off,
    )  # fmt: skip
    await yard.write(
        "update ferryman.pmo_batch_tasks set next_retry_at = ferryman.clock() + interval '30 s' where batch_id = $1",
        put_off,
    )
    claim, line = load("ferryman.batches", "pmo_batch_tasks/claim"), Line(database_url)
    async with line.transaction() as tx:
        [row] = await tx.fetch(
            f"explain (analyze, timing off, format json) {claim.sql()}",
            *claim.bind(
                {"room": 128, "scan": 200, "heads": True, "busy_tenants": [], "busy_agents": [], "busy_batches": []}
            ),
        )
    await line.close()
    assert await yard.statuses(due) == ["dispatched"]
    assert _read(json.loads(row["QUERY PLAN"])[0]["Plan"]) < 20


@pytest.mark.contract("B5", "K18")
async def test_a_dispatch_that_goes_wrong_is_tried_five_times_again(yard: Yard) -> None:
    await yard.agent("bob")
    batch = await yard.fork(task(), task("bob", strategy="reuse"))
    await yard.write(BROKEN_INBOX)
    await yard.write(REFUSE)

    for attempt, delay in enumerate((2, 4, 8, 16, 30), 1):
        assert await yard.dispatch(careful=True)
        put_off = (await yard.tasks_of(batch))[1]
        assert (put_off.status, put_off.attempt_count) == ("pending", attempt)
        due = await yard.value(
            "select next_retry_at - updated_at from ferryman.pmo_batch_tasks where id = $1", put_off.id
        )
        assert timedelta(seconds=delay) <= due <= timedelta(seconds=delay * 1.1)
        if delay > 10:  # the first ones may be due again on a machine that stood still for a moment
            assert (await yard.dispatch(careful=True)).taken == 0
        await yard.travel(delay * 1.1 + 0.1)
    await yard.dispatch(careful=True)

    first, last = await yard.tasks_of(batch)
    assert (last.status, last.retryable, last.error_detail) == ("failed", False, "dispatch_retry_exhausted")
    assert (first.status, first.attempt_count) == ("dispatched", 1)


@pytest.mark.contract("B5")
async def test_a_child_keeps_its_turn_through_every_try(yard: Yard) -> None:
    batch = await yard.fork(task())
    turn = await yard.value("select agent_turn_id from ferryman.pmo_batch_tasks")
    await yard.dispatch()
    assert (await yard.tasks_of(batch))[0].current_agent_turn_id == turn
    assert await yard.value("select count(*) from ferryman.agent_inbox where id = $1", turn) == 1


@pytest.mark.contract("A20", "B5")
async def test_a_busy_agent_gets_its_task_in_line(yard: Yard) -> None:
    await yard.begin("bob")
    await yard.write("update ferryman.agents set when_busy = 'reject' where agent_id = 'bob'")
    batch = await yard.fork(task("bob", strategy="reuse"))
    await yard.dispatch()
    [sent] = await yard.tasks_of(batch)
    assert (sent.status, sent.current_turn_epoch) == ("dispatched", None)


@pytest.mark.contract("B6")
@pytest.mark.parametrize("status", list(TurnStatus))
async def test_each_end_of_a_child_is_that_of_its_task(yard: Yard, status: TurnStatus) -> None:
    batch, [child, _other] = await yard.running()
    await yard.finish(child, status.value, code=None if status is TurnStatus.SUCCESS else "why")
    first, second = await yard.tasks_of(batch)
    assert (first.status, second.status) == (status.value, "dispatched")
    assert first.error_detail == (None if status is TurnStatus.SUCCESS else "why")
    assert json.loads(first.metadata)["result_view"]["deliverable_card_id"]


def _ended(ref: str | None, turn: Any, **more: Any) -> EndedTurn:
    names = ("code", "error", "output_box_id", "deliverable_card_id", "tool_result_card_id")
    fields: dict[str, Any] = {**dict.fromkeys(names), **more}
    return EndedTurn(
        id=turn, tenant=TENANT, agent_id="x", status=TurnStatus.SUCCESS, callback="batch", callback_ref=ref, **fields
    )  # fmt: skip


@pytest.mark.contract("B6")
async def test_unknown_and_repeated_ends_change_nothing(yard: Yard) -> None:
    batch, [child, _other] = await yard.running()
    [mine, _] = await yard.tasks_of(batch)
    ref = rules.reference(batch, mine.id)
    before = await yard.tasks_of(batch)
    strangers = [
        _ended(ref, uuid4()),
        _ended(rules.reference(batch, uuid4()), child.id),
        _ended(None, child.id),
        _ended("nonsense", child.id),
    ]
    async with yard.db.transaction() as tx:
        await absorb(tx, strangers, yard.parties, yard.owner.terms, after=yard.after)
    assert await yard.tasks_of(batch) == before
    await yard.finish(child)
    done = await yard.tasks_of(batch)
    async with yard.db.transaction() as tx:
        await absorb(tx, [_ended(ref, child.id)], yard.parties, yard.owner.terms, after=yard.after)
    assert await yard.tasks_of(batch) == done


@pytest.mark.contract("B6")
async def test_a_child_without_a_deliverable_says_so(yard: Yard) -> None:
    batch, [child, other] = await yard.running(structured_output="tool_result")
    [mine, theirs] = await yard.tasks_of(batch)
    ends = [
        _ended(rules.reference(batch, mine.id), child.id, tool_result_card_id=uuid4()),
        _ended(rules.reference(batch, theirs.id), other.id, deliverable_card_id=uuid4()),
    ]
    async with yard.db.transaction() as tx:
        await absorb(tx, ends, yard.parties, yard.owner.terms, after=yard.after)
    first, second = [json.loads(each.metadata)["result_view"] for each in await yard.tasks_of(batch)]
    assert (first["error_code"], first["tool_result_error"]) == ("missing_deliverable_card_id", "tool_result_not_found")
    assert second["error_code"] == "deliverable_read_failed"


@pytest.mark.contract("B6")
@pytest.mark.parametrize("output", ["digest", "tool_result"])
async def test_what_a_tool_said_is_kept_where_it_was_asked_for(yard: Yard, output: str) -> None:
    batch, [child, _other] = await yard.running(structured_output=output)
    [mine, _] = await yard.tasks_of(batch)
    said = Card(
        tenant=TENANT, id=uuid4(), type="tool.result", role="tool", author="t", content={"status": "success", "result": 7}
    )  # fmt: skip
    async with yard.db.transaction() as tx:
        await cards.pack(tx, [said], [])
        end = _ended(rules.reference(batch, mine.id), child.id, tool_result_card_id=said.id)
        await absorb(tx, [end], yard.parties, yard.owner.terms, after=yard.after)
    view = json.loads((await yard.tasks_of(batch))[0].metadata)["result_view"]
    assert view.get("tool_result") == (said.content if output == "tool_result" else None)
    assert view["tool_result_card_id"] == str(said.id)


@pytest.mark.contract("B7", "B8")
async def test_fail_fast_ends_the_batch_at_once_and_stops_the_children(yard: Yard) -> None:
    caller = await yard.parent()
    batch, [one, two, three] = await yard.running(3, fail_fast=True, caller=caller)
    await yard.finish(one, "partial", code="max_steps")
    assert (await yard.batch(batch)).status == "running"

    await yard.finish(two, "failed", code="no")

    assert (await yard.batch(batch)).status == "failed"
    assert await yard.statuses(batch) == ["partial", "failed", "canceled"]
    assert [each["result"]["status"] for each in await yard.told()] == ["failed"]
    assert await yard.carry_out_stops() == 1
    ended = await yard.turn(three.id)
    assert (ended.turn_status, ended.error_code) == ("failed", "stopped")
    # What the handler of the stopped child still has to say changes nothing.
    assert await yard.finish(three) == set()
    assert await yard.statuses(batch) == ["partial", "failed", "canceled"]
    assert await yard.broken() == []


@pytest.mark.contract("B11", "B8")
async def test_a_batch_can_be_canceled_whole(yard: Yard) -> None:
    caller = await yard.parent()
    batch, [one, two] = await yard.running(caller=caller)
    await yard.finish(one)
    assert await yard.cancel_batch(batch) == 1
    assert await yard.cancel_batch(batch) == 0
    record = await yard.batch(batch)
    assert (record.status, record.reason) == ("failed", "canceled")
    assert await yard.statuses(batch) == ["success", "canceled"]
    await yard.carry_out_stops()
    assert (await yard.turn(two.id)).turn_status == "failed"
    assert len(await yard.told()) == 1
    assert await yard.broken() == []


@pytest.mark.contract("B9", "A12")
async def test_a_parent_that_is_gone_is_told_nothing(yard: Yard) -> None:
    caller = await yard.parent()
    batch, [one] = await yard.running(1, caller=caller)
    assert caller.turn is not None
    await yard.stop(caller.turn)
    await yard.carry_out_stops()
    await yard.finish(one)
    assert (await yard.batch(batch)).status == "success"
    assert await yard.claim() == []
    assert await yard.broken() == []


@pytest.mark.contract("B12")
async def test_a_batch_of_256_is_whole_and_in_order(db: Database) -> None:
    yard = Yard(db, terms=Terms(dispatch_concurrency=100))
    caller = await yard.parent()
    await yard.fork(*[task(instruction=str(n)) for n in range(256)], caller=caller)
    assert [(await yard.dispatch()).taken for _ in range(4)] == [100, 100, 56, 0]
    children = await yard.children()
    for start in (0, 64, 128, 192):
        await yard.settle(*[yard.ends_as(each, content=f"did {start}") for each in children[start : start + 64]])
    [told] = await yard.told()
    assert told["status"] == "success"
    assert [each["task_index"] for each in told["result"]["results"]] == list(range(256))
    assert await yard.broken() == []
