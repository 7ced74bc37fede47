"""Every fault of a batch has its end: each rule planted, moved, ticked."""

import json
from contextlib import suppress
from datetime import timedelta
from itertools import combinations
from uuid import UUID

import pytest

from ferryman.batches import rules
from ferryman.batches.model import Terms
from ferryman.batches.states import TERMINAL, BatchStatus
from ferryman.batches.watch import BATCH_INVARIANTS
from ferryman.kernel import events, faults, invariants
from ferryman.kernel.pool import Database
from tests.agents.house import OTHER
from tests.batches.yard import BROKEN_INBOX, REFUSE, Yard, caller_of, seconds, task


@pytest.mark.contract("W10", "B8", "B14")
async def test_a_batch_past_its_deadline_ends_and_its_children_really_stop(yard: Yard) -> None:
    caller = await yard.parent()
    busy = await yard.begin("bob")
    batch = await yard.fork(
        task(instruction="done"), task(instruction="runs"), task("bob", strategy="reuse"), caller=caller,
        deadline_seconds=20,
    )  # fmt: skip
    await yard.dispatch()
    done, runs = await yard.children()
    await yard.finish(done)
    assert (await yard.tick_batches("W10")).acted() == 0

    await yard.travel(21)
    assert (await yard.tick_batches("W10")).acted("W10") == 1

    record = await yard.batch(batch)
    assert (record.status, record.reason) == ("timeout", "deadline")
    assert await yard.statuses(batch) == ["success", "canceled", "canceled"]
    [told] = await yard.told()
    assert (told["status"], told["result"]["status"]) == ("timeout", "timeout")
    # The one that ran is stopped, the one in line was taken back, and what bob is doing for others goes on.
    assert await yard.carry_out_stops() == 1
    assert (await yard.turn(runs.id)).error_code == "stopped"
    line = (await yard.tasks_of(batch))[2].current_agent_turn_id
    assert line is not None
    queued = await yard.turn(line)
    assert (queued.message_status, queued.turn_status) == ("skipped", "canceled")
    assert (await yard.turn(busy.id)).turn_status is None
    assert (await yard.tick_batches("W10")).acted() == 0
    assert await yard.broken() == []


@pytest.mark.contract("B8", "W10")
async def test_a_child_that_went_on_at_another_epoch_is_stopped_too(yard: Yard) -> None:
    batch, [child] = await yard.running(1, deadline_seconds=20)
    await yard.settle(yard.waits(child, ("c1", 600.0)))
    await yard.report("c1")
    [again] = await yard.claim(profiles=("child",), owner=OTHER)
    assert again.epoch == child.epoch + 1
    await yard.travel(21)
    await yard.tick_batches("W10")
    await yard.carry_out_stops()
    assert (await yard.turn(child.id)).error_code == "stopped"
    assert (await yard.batch(batch)).status == "timeout"


@pytest.mark.contract("W11", "B5")
async def test_an_epoch_that_came_later_is_read_from_the_inbox(db: Database) -> None:
    yard = Yard(db, terms=Terms(look_after=seconds(30)))
    first = await yard.begin("bob")
    batch = await yard.fork(task("bob", strategy="reuse"))
    await yard.dispatch()
    await yard.settle(yard.success(first))
    assert (await yard.tick_batches("W11")).acted() == 0
    await yard.travel(31)
    assert (await yard.tick_batches("W11")).acted("W11") == 1
    [sent] = await yard.tasks_of(batch)
    assert (sent.status, sent.current_turn_epoch) == ("dispatched", 2)


@pytest.mark.contract("W11", "B5")
async def test_a_child_that_stays_silent_is_warned_of_and_never_sent_again(yard: Yard) -> None:
    await yard.begin("bob")
    batch = await yard.fork(task("bob", strategy="reuse"))
    await yard.dispatch()
    await yard.travel(30)
    assert (await yard.tick_batches("W11")).acted() == 0
    await yard.travel(31)
    assert (await yard.tick_batches("W11")).acted("W11") == 1
    assert (await yard.tick_batches("W11")).acted() == 0
    [sent] = await yard.tasks_of(batch)
    noted = json.loads(sent.metadata)
    assert (sent.status, sent.attempt_count) == ("dispatched", 1)
    assert noted["dispatch_warning_code"] == "ack_pending_window_exceeded"
    assert (noted["dispatch_warning_inbox_status"], noted["dispatch_wakeup_ack_status"]) == ("queued", "accepted")


async def _lose(yard: Yard, batch: UUID) -> None:
    """Plant a fault: a task that was sent, and of which there is no message."""
    turns = [each.current_agent_turn_id for each in await yard.tasks_of(batch)]
    await yard.write(
        "update ferryman.agent_state_head set status = 'idle', active_agent_turn_id = null, active_inbox_id = null,"
        " output_box_id = null, turn_deadline = null, dispatch_deadline = null, ready_at = null"
        " where active_agent_turn_id = any($1)", turns,
    )  # fmt: skip
    await yard.write("delete from ferryman.agent_inbox where id = any($1)", turns)
    await yard.write("update ferryman.pmo_batch_tasks set current_turn_epoch = null where batch_id = $1", batch)


@pytest.mark.contract("W11", "B5", "B8")
@pytest.mark.parametrize(("fail_fast", "deadline"), [(True, 900), (False, 90)])
async def test_a_child_that_was_never_there_fails_when_somebody_waits(
    yard: Yard, fail_fast: bool, deadline: int
) -> None:
    batch = await yard.fork(task(), fail_fast=fail_fast, deadline_seconds=deadline)
    await yard.dispatch()
    await _lose(yard, batch)
    await yard.travel(61)
    await yard.tick_batches("W11")
    assert await yard.statuses(batch) == (["failed"] if fail_fast else ["dispatched"])
    await yard.travel(30)
    await yard.tick_batches("W11")
    [lost] = await yard.tasks_of(batch)
    assert (lost.status, lost.error_detail) == ("failed", "downstream_unavailable")
    assert (await yard.batch(batch)).status == "failed"


@pytest.mark.contract("B8")
async def test_the_deadline_tells_the_lost_from_the_stopped(yard: Yard) -> None:
    batch = await yard.fork(task(), task(), deadline_seconds=70)
    await yard.dispatch()
    await _lose(yard, batch)
    await yard.write(
        "update ferryman.pmo_batch_tasks set dispatched_at = dispatched_at + interval '60 s' where task_index = 1"
    )
    await yard.travel(71)
    await yard.tick_batches("W10")
    assert [(each.status, each.error_detail) for each in await yard.tasks_of(batch)] == [
        ("failed", "downstream_unavailable"), ("canceled", "deadline"),
    ]  # fmt: skip
    assert (await yard.batch(batch)).status == "timeout"


@pytest.mark.contract("W12", "B9", "K7")
async def test_a_parent_that_was_not_told_is_told_once(yard: Yard) -> None:
    caller = await yard.parent()
    batch, children = await yard.running(2, caller=caller)
    await yard.write(
        "update ferryman.pmo_batches set status = 'success', finished_at = ferryman.clock() where id = $1", batch
    )
    await yard.write(
        "update ferryman.pmo_batch_tasks set status = 'success', finished_at = ferryman.clock() where batch_id = $1",
        batch,
    )
    assert (await yard.tick_batches("W12")).acted("W12") == 1
    assert (await yard.tick_batches("W12")).acted() == 0
    [told] = await yard.told()
    assert (told["status"], len(told["result"]["results"])) == ("success", len(children))


@pytest.mark.contract("W12", "B6", "K7")
async def test_a_child_whose_end_was_not_heard_is_settled(yard: Yard) -> None:
    batch, [one, two] = await yard.running()
    await yard.write("update ferryman.agent_state_head set callback = null, callback_ref = null")
    await yard.finish(one, content={"summary": "unheard"})
    await yard.finish(two, "failed", code="no")
    assert await yard.statuses(batch) == ["dispatched", "dispatched"]
    assert (await yard.tick_batches("W12")).acted("W12") == 2
    result = await yard.result(batch)
    assert (result["status"], result["results"][0]["summary"]) == ("partial", "unheard")
    assert await yard.broken() == []


@pytest.mark.contract("B11")
async def test_a_batch_ends_with_its_parents_turn_down_the_tree(yard: Yard) -> None:
    caller = await yard.parent()
    assert caller.turn is not None
    top, [middle] = await yard.running(1, caller=caller)
    await yard.settle(yard.waits(middle, ("call-2", 600.0)))
    low = await yard.fork(task(), caller=caller_of(middle, "call-2"))
    await yard.dispatch()
    [leaf] = await yard.children()
    await yard.stop(caller.turn)
    await yard.carry_out_stops()
    for _ in range(2):
        await yard.tick_batches("B11")
        await yard.carry_out_stops()
    assert [(await yard.batch(each)).reason for each in (top, low)] == ["parent_ended"] * 2
    assert [(await yard.turn(each.id)).error_code for each in (middle, leaf)] == ["stopped"] * 2
    assert await yard.broken() == []


@pytest.mark.contract("B5", "W20")
async def test_what_nobody_rang_for_is_sent_by_the_watchdog(yard: Yard) -> None:
    batch = await yard.fork(task(), task())
    sent: list[str] = []

    with faults.armed({"batch.sent": lambda: sent.append("before the bell")}):
        await yard.tick_batches("B5")
        await yard.tick_batches("B5")

    assert await yard.statuses(batch) == ["dispatched", "dispatched"]
    # Whoever sends passes the point, or a crash test waits for it in vain where the watchdog was first.
    assert sent == ["before the bell"]


@pytest.mark.contract("B5", "W23", "K9")
async def test_one_bad_task_does_not_keep_the_others_from_being_sent(yard: Yard) -> None:
    await yard.agent("bob")
    batch = await yard.fork(task(), task("bob", strategy="reuse"), task())
    await yard.write(BROKEN_INBOX)
    await yard.write(REFUSE)
    await yard.tick_batches("B5")
    assert await yard.statuses(batch) == ["dispatched", "pending", "dispatched"]


@pytest.mark.contract("W21", "K21", "B14")
async def test_every_live_batch_and_task_has_its_bound(yard: Yard) -> None:
    batch = await yard.fork(task(), deadline_seconds=30)
    rows = await yard.rows("select domain, rule from ferryman.bounds where domain like 'batch%' order by domain")
    assert [tuple(row.values()) for row in rows] == [("batch", "W10"), ("batch_task", "W10")]
    await yard.travel(300)
    await yard.write("update ferryman.watchdog set grace_until = '-infinity'")
    late = await yard.rows("select id, rule from ferryman.overdue where domain = 'batch'")
    assert [tuple(row.values()) for row in late] == [(batch, "W10")]
    await yard.tick_batches("W10")
    assert await yard.rows("select id from ferryman.overdue where domain = 'batch'") == []


PLANTED = {
    "closed_as_its_tasks_say": "with ended as (update ferryman.pmo_batch_tasks set finished_at = now(),"
    " status = case task_index when 0 then 'success' else 'failed' end)"
    " update ferryman.pmo_batches set status = 'success', finished_at = now()",
    "closed_has_no_open_tasks": "update ferryman.pmo_batches set status = 'success', finished_at = now()",
    "running_has_an_open_task": "update ferryman.pmo_batch_tasks set status = 'success', finished_at = now()",
    "tasks_are_whole": "update ferryman.pmo_batches set task_count = 3",
    "closed_is_told": "update ferryman.pmo_batches set parent_told_at = now()",
    "tasks_follow_their_turns": "update ferryman.agent_inbox set turn_status = 'success' where message_type = 'turn'",
    "batches_have_one_end": "insert into ferryman.events (at, subject, tenant, kind, from_state, to_state, subject_name)"
    " select now(), id, tenant, 'batch', 'running', 'success', 'x' from ferryman.pmo_batches",
}


@pytest.mark.contract("K23")
async def test_each_invariant_finds_what_it_is_for(yard: Yard) -> None:
    assert set(PLANTED) == {each.name for each in BATCH_INVARIANTS}
    await yard.fork(task(), task())
    await yard.dispatch()
    assert await yard.broken() == []
    for name, fault in PLANTED.items():
        with suppress(Undo):
            async with yard.db.transaction() as tx:
                await tx.fetch("select set_config('session_replication_role', 'replica', true)")
                await tx.fetch(fault)
                assert name in {each.name for each in await invariants.check(tx, BATCH_INVARIANTS)}
                raise Undo
    assert await yard.broken() == []


@pytest.mark.contract("K23", "B7")
async def test_the_verdict_of_a_rule_is_that_of_the_invariant(yard: Yard) -> None:
    """Every mix of ends, with and without fail_fast: the one is written in Python, the other in SQL."""
    batch = await yard.fork(*[task() for _ in TERMINAL])
    ends = sorted(TERMINAL)
    [verdict] = [[each] for each in BATCH_INVARIANTS if each.name == "closed_as_its_tasks_say"]
    asked = 0
    for fail_fast in (False, True):
        for mix in (mix for size in range(1, len(ends) + 1) for mix in combinations(ends, size)):
            found = rules.verdict(mix, fail_fast=fail_fast)
            for status in sorted(set(BatchStatus) - {BatchStatus.RUNNING}):
                with suppress(Undo):
                    async with yard.db.transaction() as tx:
                        await tx.fetch("select set_config('session_replication_role', 'replica', true)")
                        said = [mix[n % len(mix)] for n in range(len(ends))]
                        await tx.fetch(
                            "update ferryman.pmo_batch_tasks set status = ($2::text[])[task_index + 1], finished_at = now()"
                            " where batch_id = $1",
                            batch,
                            said,
                        )
                        await tx.fetch(
                            "update ferryman.pmo_batches set status = $2, fail_fast = $3, finished_at = now() where id = $1",
                            batch,
                            status,
                            fail_fast,
                        )
                        broken = await invariants.check(tx, verdict)
                        asked += 1
                        assert bool(broken) == (status != found), (mix, fail_fast, status)
                        raise Undo
    assert asked == 2 * 31 * 4


@pytest.mark.contract("K23", "K10", "T20")
async def test_a_batch_that_has_outlived_the_log_breaks_nothing(yard: Yard) -> None:
    """Ended batches may be kept for longer than the days of the log; while the log knows of one, it knows its end."""
    batch, [child] = await yard.running(1)
    await yard.finish(child)
    with suppress(Undo):
        async with yard.db.transaction() as tx:
            await tx.fetch("select set_config('session_replication_role', 'replica', true)")
            await tx.fetch("delete from ferryman.events where kind = 'batch' and from_state = 'running'")
            [broken] = await invariants.check(tx, BATCH_INVARIANTS)
            assert (broken.name, [row["id"] for row in broken.rows]) == ("batches_have_one_end", [str(batch)])
            raise Undo
    async with yard.db.transaction() as tx:
        await events.drop_partitions(tx, older_than=timedelta(days=-1))  # today's day, too

    assert await yard.events(batch) == []
    assert await yard.broken() == []


class Undo(Exception):
    """Takes a planted fault back."""
