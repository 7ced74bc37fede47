"""The watchdog's rules for agents: a fault is planted, the clock is moved, the rules look once, and the turn has its end.

Where the source had a hole, the test fails on the source's way: a retry that pushes the timeout away, a deadline that the
first of several tools clears, a missing card that hangs a turn, a poison message without a cap, a skip without an end.
"""

import asyncio
import json
from collections.abc import Awaitable, Callable
from dataclasses import replace
from datetime import timedelta
from typing import Any
from uuid import UUID

import pytest

from ferryman.agents import intake, watch
from ferryman.agents.intake.report import TOOL, reference
from ferryman.agents.model import Release, Terms
from ferryman.kernel import ids, watchdog
from ferryman.kernel.doorbell import NoDoorbell
from ferryman.kernel.pool import Database, Line
from ferryman.kernel.watchdog import Rule, Watchdog
from ferryman.tasks.model import Draft, NewTask
from tests.agents.house import OTHER, OWNER, TENANT, House

DAY, SECOND = timedelta(days=1), timedelta(seconds=1)


async def deliverable(house: House, turn: UUID) -> dict[str, object]:
    record = await house.turn(turn)
    assert record.output_box_id is not None
    async with house.db.session() as tx:
        cards = await intake.read.cards(tx, record.output_box_id, tenant=TENANT)
    [card] = [card for card in cards if card.type == "task.deliverable"]
    assert card.id == record.deliverable_card_id
    content: dict[str, object] = json.loads(card.content)
    return content


@pytest.mark.contract("W5")
async def test_a_dispatch_that_nobody_picks_up_is_put_into_the_inbox_again(house: House) -> None:
    await house.agent()
    turn = await house.enqueue()
    since = (await house.head())["since_at"]
    # The message was lost: without it nobody can take the turn in hand.
    await house.write("delete from ferryman.agent_inbox")
    await house.travel(11)
    assert await house.claim() == []

    assert (await house.tick("W5")).acted("W5") == 1
    assert (await house.tick("W5")).acted("W5") == 0  # once a period

    head = await house.head()
    assert (head["status"], head["since_at"], head["turn_epoch"], head["dispatch_retries"]) == (
        "dispatched",
        since,
        1,
        1,
    )
    assert await house.value("select correlation_id from ferryman.agent_inbox") == f"{turn}#1"
    [taken] = await house.claim()
    assert taken.id == turn


@pytest.mark.contract("W5", "W6")
async def test_a_message_that_was_put_in_twice_starts_the_turn_once(house: House) -> None:
    await house.agent()
    turn = await house.enqueue()
    await house.travel(11)
    await house.tick("W5")

    assert [taken.id for taken in await house.claim(room=10)] == [turn]
    assert await house.claim(owner=OTHER) == []
    assert (await house.head())["status"] == "running"
    await house.stop(turn)
    await house.carry_out_stops()
    assert await house.ends(turn) == [("failed", "stopped")]
    assert await house.value("select count(*) from ferryman.agent_inbox where archived_at is null") == 0
    assert await house.broken() == []


@pytest.mark.contract("W6", "K8", "A2", "R5")
async def test_no_retry_postpones_the_end_of_a_dispatch(house: House) -> None:
    await house.agent()
    turn = await house.enqueue()
    following = await house.enqueue()
    retried = 0
    for _ in range(7):
        retried += (await house.tick("W5", "W6")).acted("W5")
        await house.travel(5)
    await house.tick("W6")

    assert retried == 2
    assert await house.ends(turn) == [("timeout", "dispatch_timeout")]
    assert ("agent.state", "dispatched", "idle", "dispatch_timeout") in await house.events(turn)
    assert (await deliverable(house, turn))["kind"] == "fallback_deliverable"
    head = await house.head()
    assert (head["status"], head["active_agent_turn_id"], head["turn_epoch"]) == ("dispatched", following, 3)
    forced = await house.rows("select kind, name, status from ferryman.agent_steps")
    assert [tuple(row.values()) for row in forced] == [("termination", "dispatch_timeout", "failed")]
    assert (
        await house.value(
            "select count(*) from ferryman.agent_inbox where agent_turn_id = $1 and archived_at is null", turn
        )
        == 0
    )
    assert await house.broken() == []


@pytest.mark.contract("W7", "A2", "W20")
async def test_a_dead_workers_turn_is_taken_over_when_its_lease_ends(house: House) -> None:
    taken = await house.begin()
    await house.travel(15)
    assert (await house.tick("W7")).acted() == 0
    await house.travel(16)

    assert (await house.tick("W7")).acted() == 1
    assert await house.settle(house.success(taken)) == set()  # fenced from this moment on

    [successor] = await house.claim(owner=OTHER)
    assert (successor.id, successor.was, successor.epoch) == (taken.id, "running", taken.epoch + 1)
    await house.settle(house.success(successor, owner=OTHER), owner=OTHER)
    assert await house.ends(taken.id) == [("success", None)]
    assert await house.broken() == []


@pytest.mark.contract("W7", "K5")
async def test_a_dead_workers_turn_is_taken_over_although_the_clock_was_set_back(house: House) -> None:
    taken = await house.begin()
    await house.travel(-3600)

    async with house.db.session() as ground:
        found = [await watchdog.tick(ground, [watch.set_back(every=SECOND, lease=30 * SECOND)]) for _ in range(2)]
    await house.travel(31)

    assert [each.outcomes[0].found for each in found] == [1, 0]
    assert (await house.tick("W7")).acted() == 1
    [successor] = await house.claim(owner=OTHER)
    assert (successor.id, successor.epoch) == (taken.id, taken.epoch + 1)


@pytest.mark.contract("W7")
async def test_a_turn_that_nobody_takes_over_is_reaped_and_one_that_is_renewed_is_not(house: House) -> None:
    dead, alive = await house.begin("dead"), await house.begin("alive")
    from ferryman.agents.store import heads

    for _ in range(12):
        await house.travel(25)
        async with house.db.session() as tx:
            renewed = await heads.renew(
                tx, [alive.id], [alive.epoch], owner=OWNER, lease=timedelta(seconds=30), margin=timedelta(seconds=5)
            )
        assert renewed == {alive.id: True}
        await house.tick("W7")
    await house.travel(1)
    await house.tick("W7")

    assert await house.ends(dead.id) == [("failed", "timeout_reaped_by_watchdog")]
    assert (await deliverable(house, dead.id))["status"] == "failed"
    assert (await house.head("dead"))["turn_epoch"] == dead.epoch + 2  # released, then reaped
    assert (await house.head("alive"))["status"] == "running"
    assert await house.settle(house.success(alive)) == {alive.id}
    assert await house.broken() == []


@pytest.mark.contract("W7", "W1", "K9")
async def test_a_turn_that_kills_every_worker_is_poison(house: House) -> None:
    taken = await house.begin()
    for brought_back in range(5):
        await house.travel(31)
        await house.tick("W7")
        [again] = await house.claim()
        assert again.epoch == taken.epoch + brought_back + 1
    await house.travel(31)
    await house.tick("W7")

    assert await house.claim() == []
    assert await house.ends(taken.id) == [("failed", "poison_message")]
    assert (await house.turn(taken.id)).message_status == "error"
    assert await house.broken() == []


@pytest.mark.contract("A12", "K9")
async def test_a_result_that_kills_every_worker_ends_the_turn_as_exhausted(house: House) -> None:
    taken = await house.suspend("c1")
    await house.report("c1")
    for _ in range(5):
        assert len(await house.claim()) == 1
        await house.travel(31)
        await house.tick("W7")

    assert await house.claim() == []
    assert await house.ends(taken.id) == [("failed", "resume_exhausted")]
    assert await house.value("select status from ferryman.turn_resume_ledger") == "dropped"
    assert await house.broken() == []


@pytest.mark.contract("W2", "A11", "R5")
async def test_every_call_has_a_clock_of_its_own(house: House) -> None:
    """The source clears the turn's deadline after the first of several tools."""
    taken = await house.suspend(("slow", 60), ("slower", 90), ("quick", 30))
    await house.report("quick")
    bound = "select extract(epoch from resume_deadline - since_at)::int from ferryman.agent_state_head"
    assert await house.value(bound) == 60
    await house.travel(61)
    assert (await house.tick("W2")).acted() == 1
    assert await house.value(bound) == 90
    assert (await house.head())["waiting_tool_count"] == 1
    assert await house.claim() == []
    await house.travel(30)
    assert (await house.tick("W2")).acted() == 1

    [again] = await house.claim()
    async with house.db.session() as tx:
        calls = await intake.read.calls(tx, taken.id, tenant=TENANT)
    told = {call.tool_call_id: (call.wait_status, json.loads(call.result or "")) for call in calls}
    assert told["quick"][0] == "applied"
    for late in ("slow", "slower"):
        status, content = told[late]
        assert (status, content["status"], content["error"]["code"]) == ("expired", "timeout", "tool_timeout")
    assert await house.ends(taken.id) == []  # W22: the end is the turn's own
    await house.settle(house.success(again))
    assert await house.broken() == []


@pytest.mark.contract("W2", "R5")
async def test_a_call_without_its_card_times_out_too(house: House) -> None:
    """The source skips it and the turn hangs for ever."""
    await house.suspend("c1")
    await house.write("delete from ferryman.cards where type = 'tool.call'")
    await house.travel(31)
    assert (await house.tick("W2")).acted() == 1
    assert len(await house.claim()) == 1


@pytest.mark.contract("W2", "A12")
async def test_a_result_and_a_timeout_meet_and_one_counts(house: House) -> None:
    await house.suspend("c1")
    await house.travel(31)
    await house.report("c1")
    assert (await house.tick("W2")).acted() == 0
    assert await house.value("select wait_status from ferryman.turn_waiting_tools") == "received"


@pytest.mark.contract("W2", "A16", "K6")
@pytest.mark.parametrize("end", ["timeout", "stop"])
async def test_a_tools_task_that_nobody_waits_for_any_more_is_cancelled(house: House, end: str) -> None:
    taken = await house.begin()
    ref = reference(TENANT, "ann", "c1")
    row = NewTask(
        ids.new_id(), TENANT, "default", "tool", "{}", 0, 300_000, 3, None, None, None, None, None, None, TOOL, ref, None, None
    )  # fmt: skip
    await house.settle(house.waits(taken, "c1", task=Draft(row, frozenset())))
    if end == "stop":
        await house.stop(taken.id)
        await house.carry_out_stops()
    else:
        await house.travel(31)
        await house.tick("W2")

    assert await house.value("select state from ferryman.tasks") == "cancelled"
    # Its own end is owed to the turn, which has had its answer: no second one.
    assert await house.value("select count(*) from ferryman.turn_resume_ledger") == (0 if end == "stop" else 1)
    assert await house.broken() == []


@pytest.mark.contract("W16", "K21")
async def test_what_no_rule_has_ended_in_time_is_listed_as_overdue(house: House) -> None:
    await house.begin("running")
    await house.suspend("c1", agent_id="suspended")
    await house.agent("dispatched")
    await house.enqueue("dispatched")
    await house.travel(29)
    assert await house.rows("select * from ferryman.overdue_agents") == []

    await house.travel(400)

    listed = await house.rows("select domain, rule from ferryman.overdue_agents")
    assert {tuple(row.values()) for row in listed} == {
        ("agent", "W6"),
        ("agent", "W7"),
        ("agent", "W2"),
        ("wait", "W2"),
    }


@pytest.mark.contract("W3")
async def test_a_result_in_dead_hands_is_put_back(house: House) -> None:
    await house.suspend("c1")
    await house.report("c1")
    await house.claim()
    await house.travel(11)
    assert (await house.tick("W3")).acted() == 0  # its turn is held by a living worker
    await house.write("update ferryman.agent_state_head set leased_until = ferryman.clock() - interval '1 s'")
    assert (await house.tick("W3")).acted() == 1
    assert await house.value("select status from ferryman.turn_resume_ledger") == "pending"
    await house.tick("W7")
    [again] = await house.claim(owner=OTHER)
    assert await house.settle(house.success(again, owner=OTHER), owner=OTHER) == {again.id}
    assert await house.value("select status from ferryman.turn_resume_ledger") == "applied"


@pytest.mark.contract("W4", "K7")
async def test_a_turn_whose_results_are_all_there_is_resumed_from_what_is_stored(house: House) -> None:
    await house.suspend("c1", "c2")
    await house.report("c1")
    await house.report("c2")
    await house.write("update ferryman.agent_state_head set ready_at = null, waiting_tool_count = 1")
    await house.write("delete from ferryman.turn_resume_ledger")
    assert await house.claim() == []

    assert (await house.tick("W4")).acted() == 1
    assert (await house.tick("W4")).acted() == 0

    assert [taken.was for taken in await house.claim()] == ["suspended"]
    assert await house.value("select count(*) from ferryman.turn_resume_ledger where status = 'processing'") == 2
    assert await house.broken() == []


@pytest.mark.contract("W1", "K9", "W22", "R5")
async def test_a_message_in_dead_hands_comes_back_five_times_and_is_then_poison(house: House) -> None:
    """The source brings it back for ever."""
    taken = await house.begin()
    # Nobody knows of the turn but its message: the head has lost it.
    await house.write("update ferryman.agent_state_head set leased_until = ferryman.clock() + interval '10 s'")
    for n in range(5):
        await house.travel(301)
        assert (await house.tick("W1")).acted() == 1, n
        [row] = await house.rows("select status, processed_at, archived_at, requeue_count from ferryman.agent_inbox")
        assert tuple(row.values()) == ("pending", None, None, n + 1)
        assert await house.ends(taken.id) == []
        await house.write(
            "update ferryman.agent_inbox set status = 'processing', pending_at = null, processed_at = ferryman.clock()"
        )
    await house.travel(301)
    assert (await house.tick("W1")).acted() == 1

    assert await house.ends(taken.id) == [("failed", "poison_message")]
    assert (await house.turn(taken.id)).message_status == "error"
    assert (await house.head())["status"] == "idle"
    assert await house.broken() == []


@pytest.mark.contract("W1")
async def test_a_message_of_a_turn_that_lives_is_left_alone(house: House) -> None:
    waiting = await house.suspend(("c1", 3000))
    await house.travel(301)
    assert (await house.tick("W1")).acted() == 0
    await house.report("c1")
    [again] = await house.claim()
    await house.write(
        "update ferryman.agent_inbox set processed_at = ferryman.clock() - interval '1 h', look_at = '-infinity'"
        " where status = 'processing'"
    )
    assert (await house.tick("W1")).acted() == 0
    assert await house.settle(house.success(again)) == {waiting.id}


@pytest.mark.contract("W8", "W23", "R5")
async def test_a_message_without_a_channel_is_skipped_and_its_turn_has_an_end(house: House) -> None:
    """The source marks it and tells nobody."""
    await house.agent()
    turn = await house.enqueue()
    await house.write("update ferryman.agent_inbox set channel_id = null")
    await house.write(
        "update ferryman.agent_state_head set status = 'idle', active_agent_turn_id = null, active_inbox_id = null,"
        " output_box_id = null, turn_deadline = null, dispatch_deadline = null, ready_at = null"
    )
    await house.travel(6)
    before = await house.rows("select * from ferryman.agent_inbox")
    assert (await house.tick("W8")).acted() == 1  # rings
    assert await house.rows("select * from ferryman.agent_inbox") == before
    assert (await house.tick("W8-lost")).outcomes[0].found == 0
    await house.travel(300)

    await house.tick("W8-lost")

    [row] = await house.rows("select status, watchdog_error, watchdog_at is not null from ferryman.agent_inbox")
    assert tuple(row.values()) == ("skipped", "missing_channel", True)
    assert await house.ends(turn) == [("failed", "missing_channel")]
    assert (await deliverable(house, turn))["kind"] == "fallback_deliverable"
    assert await house.broken() == []


@pytest.mark.contract("W8", "W20", "W23")
async def test_a_crowd_that_waits_is_rung_for_once_a_period_and_hides_nobody_behind_it(house: House) -> None:
    """Ringing changes nothing: what was rung for is found again, and a full set of it is no reason to look again at once."""
    await _crowd(house, lost=0)
    await house.travel(306)
    now, rounds = [1000.0], []
    async with house.db.session() as ground:
        dog = Watchdog(ground, _of_messages(house, limit=2), clock=lambda: now[0])
        for _ in range(3):
            looks: list[int] = []
            while len(looks) < 20 and dog.due <= now[0]:
                looks += [outcome.found for outcome in (await dog.tick()).outcomes if outcome.rule == "W8"]
            rounds.append(looks)
            now[0] += 60

    # However many have been rung for, a look reads no more than its set.
    assert rounds == [[2, 2, 1]] * 3


@pytest.mark.contract("W8", "W23")
async def test_messages_without_a_channel_that_take_too_long_to_end_together_are_ended_in_smaller_sets(
    house: House,
) -> None:
    """Also while a crowd behind them is rung for, in whole sets."""
    lost = await _crowd(house, lost=4)
    await house.travel(306)
    await house.write("create function public.slow() returns trigger language plpgsql as"
                      " $$ begin perform pg_sleep(0.3); return new; end $$")  # fmt: skip
    await house.write("create trigger slow before update on ferryman.agent_inbox for each row"
                      " when (new.status = 'skipped') execute function public.slow()")  # fmt: skip
    now = [1000.0]
    line = Line(house.db.url)
    try:
        dog = Watchdog(line, _of_messages(house, limit=4, budget=SECOND), clock=lambda: now[0])
        for _ in range(4):
            for _look in range(4):
                if dog.due <= now[0]:
                    await dog.tick()
            now[0] += 60
    finally:
        await line.close()

    assert [await house.ends(turn) for turn in lost] == [[("failed", "missing_channel")]] * 4


@pytest.mark.contract("W8", "W23")
async def test_a_message_without_a_channel_that_cannot_be_ended_is_tried_less_and_less_often(house: House) -> None:
    """Also while a crowd is rung for: a look that reached the end of it has not seen all."""
    [bad] = await _crowd(house, lost=1)
    await house.write("alter table ferryman.agent_inbox add constraint bad check (status <> 'skipped') not valid")
    await house.travel(306)
    now, tries = [1000.0], 0
    async with house.db.session() as ground:
        dog = Watchdog(ground, _of_messages(house, limit=2), clock=lambda: now[0])
        for _ in range(12):
            while dog.due <= now[0]:
                tries += (await dog.tick()).spoiled()
            now[0] += 6

    assert 2 <= tries <= 5
    assert await house.ends(bad) == []


async def _crowd(house: House, *, lost: int) -> list[UUID]:
    """Let five messages wait beside some that have no channel, which came first."""
    turns = []
    for name in ("ann", "bob", "cid", "dan", "eve", "fay", "gus", "hal", "ian")[: 5 + lost]:
        await house.agent(name)
        turns.append(await house.enqueue(name))
    await house.write("update ferryman.agent_inbox set channel_id = null where id = any($1)", turns[:lost])
    await house.write(
        "update ferryman.agent_state_head set active_channel_id = null where active_agent_turn_id = any($1)",
        turns[:lost],
    )
    return turns[:lost]


def _of_messages(house: House, **terms: Any) -> list[Rule]:
    rules = watch.rules(house.parties, NoDoorbell(), sweep=SECOND)
    return [replace(rule, **terms) for rule in rules if rule.name.startswith("W8")]


@pytest.mark.contract("W9")
async def test_an_idle_agent_with_turns_that_wait_gets_the_next(house: House) -> None:
    running = await house.begin()
    waiting = await house.enqueue()
    await house.settle(house.success(running))
    await house.write(
        "update ferryman.agent_state_head set status = 'idle', active_agent_turn_id = null, active_inbox_id = null,"
        " output_box_id = null, turn_deadline = null, dispatch_deadline = null, ready_at = null"
    )
    await house.write("update ferryman.agent_inbox set status = 'queued', pending_at = null where id = $1", waiting)

    assert (await house.tick("W9")).acted() == 1

    assert [taken.id for taken in await house.claim()] == [waiting]


@pytest.mark.contract("A18", "W7")
@pytest.mark.parametrize("status", ["running", "suspended"])
async def test_a_turn_ends_at_its_wall_time_whatever_it_does(house: House, status: str) -> None:
    await house.agent()
    turn = await house.enqueue(wall_time=timedelta(seconds=100))
    [taken] = await house.claim()
    assert 70 < taken.seconds_left <= 100
    if status == "suspended":
        await house.settle(house.waits(taken, ("c1", 3000)))
    await house.travel(106)

    await house.tick()

    assert await house.ends(turn) == [("partial", "wall_time_exceeded")]
    assert (await deliverable(house, turn))["partial"] is True
    assert await house.broken() == []


@pytest.mark.contract("A18", "W7", "K21")
@pytest.mark.parametrize("begins", ["begun", "resumed", "taken over"])
async def test_a_turn_whose_worker_dies_at_once_ends_at_its_wall_time_and_not_with_a_whole_lease(
    house: House, begins: str
) -> None:
    await house.agent()
    turn = await house.enqueue(wall_time=timedelta(seconds=10))
    if begins != "begun":
        [first] = await house.claim()
        gives_up = Release(id=turn, epoch=first.epoch, tenant=TENANT, agent_id="ann", owner=OWNER)
        assert await house.settle(house.waits(first) if begins == "resumed" else gives_up) == {turn}
    [_taken] = await house.claim()
    await house.travel(10 + 5 + 1)

    await house.tick("W7")

    assert await house.ends(turn) == [("partial", "wall_time_exceeded")]
    assert await house.broken() == []


@pytest.mark.contract("A3", "K21")
async def test_a_turn_that_waits_in_line_for_too_long_ends(house: House) -> None:
    await house.begin()
    waiting = await house.enqueue()
    await house.write(
        "update ferryman.agent_state_head set turn_deadline = turn_deadline + interval '3 days',"
        " leased_until = leased_until + interval '2 days'"
    )
    await house.travel(DAY + timedelta(minutes=1))

    assert (await house.tick("A3")).acted() == 1

    assert await house.ends(waiting) == [("timeout", "queue_timeout")]


@pytest.mark.contract("A16", "W23")
async def test_a_stop_that_no_worker_heard_of_is_carried_out(house: House) -> None:
    taken = await house.begin()
    await house.stop(taken.id)

    assert (await house.tick("A16")).acted() == 1
    assert (await house.tick("A16")).acted() == 0

    assert await house.ends(taken.id) == [("failed", "stopped")]


Plant = Callable[[House], Awaitable[object]]


async def _late_dispatch(house: House) -> None:
    await house.agent()
    await house.enqueue()


async def _late_call(house: House) -> None:
    await house.suspend("c1")


async def _asked_stop(house: House) -> None:
    await house.stop((await house.begin()).id)


async def _result_in_dead_hands(house: House) -> None:
    await house.suspend("c1")
    await house.report("c1")
    await house.claim()


async def _forgotten_resume(house: House) -> None:
    await house.suspend(("c1", 60), ("c2", 60))
    await house.report("c1")
    await house.report("c2")
    await house.write("update ferryman.agent_state_head set ready_at = null, waiting_tool_count = 1")
    await house.write("delete from ferryman.turn_resume_ledger")


AT_REST = (
    "update ferryman.agent_state_head set status = 'idle', active_agent_turn_id = null, active_inbox_id = null,"
    " output_box_id = null, turn_deadline = null, dispatch_deadline = null, ready_at = null"
)


async def _without_channel(house: House) -> None:
    await _late_dispatch(house)
    await house.write("update ferryman.agent_inbox set channel_id = null")
    await house.write(AT_REST)


async def _not_dispatched(house: House) -> None:
    await _late_dispatch(house)
    await house.write("update ferryman.agent_inbox set status = 'queued', pending_at = null")
    await house.write(AT_REST)


@pytest.mark.contract("W23", "K23")
@pytest.mark.parametrize(
    ("plant", "rule", "after"),
    [
        (_late_dispatch, "W5", 11), (_late_dispatch, "W6", 31), (_late_call, "W2", 31), (House.begin, "W7", 31),
        (House.begin, "W7", 301), (_asked_stop, "A16", 1), (House.begin, "W1", 301), (_result_in_dead_hands, "W3", 31),
        (_forgotten_resume, "W4", 1), (_without_channel, "W8-lost", 306), (_not_dispatched, "W9", 1),
    ],
    ids=["W5", "W6", "W2", "W7-release", "W7-reap", "A16", "W1", "W3", "W4", "W8-lost", "W9"],
)  # fmt: skip
async def test_two_watchdogs_act_once(house: House, plant: Plant, rule: str, after: float) -> None:
    await plant(house)
    await house.travel(after)

    reports = await asyncio.gather(*(house.tick(rule) for _ in range(3)))

    assert sum(report.acted() for report in reports) == 1
    turns = [row["id"] for row in await house.rows("select id from ferryman.agent_inbox")]
    assert max([len(await house.ends(turn)) for turn in turns]) <= 1


@pytest.mark.contract("W23")
async def test_one_bad_row_does_not_stop_a_rule(house: House) -> None:
    turns = {}
    for name in ("ann", "bob", "eve"):
        await house.agent(name)
        turns[name] = await house.enqueue(name)
    # Its owner is unknown here: the end cannot be settled.
    await house.write(
        "alter table ferryman.agent_state_head add constraint bad check (agent_id <> 'bob' or status <> 'idle') not valid"
    )
    await house.travel(31)

    report = await house.tick("W6")

    assert (report.acted(), report.spoiled()) == (2, 1)
    assert await house.ends(turns["ann"]) == await house.ends(turns["eve"]) == [("timeout", "dispatch_timeout")]
    assert await house.ends(turns["bob"]) == []


@pytest.mark.contract("W21", "K21", "W16")
async def test_everything_live_is_listed_with_its_rule_and_ends_within_it(house: House) -> None:
    """All workers have died in every state at once; one watchdog and nobody else brings everything to its end."""
    await house.begin("running")
    await house.suspend(("c1", 50), ("c2", 70), agent_id="suspended")
    resumed = await house.suspend("c3", agent_id="resumed")
    await house.report("c3")
    await house.claim()
    await house.suspend("c4", agent_id="answered")
    await house.report("c4")
    await house.agent("dispatched")
    await house.enqueue("dispatched")
    for name in ("dispatched", "running"):
        await house.enqueue(name)
    turns = [row["id"] for row in await house.rows("select id from ferryman.agent_inbox where message_type = 'turn'")]
    live = await house.rows("select domain, id, state, rule, ends_by, terminal_by from ferryman.bounds_agents")
    assert {row["id"] for row in live} >= set(turns)
    assert all(row["rule"] and row["ends_by"] and row["terminal_by"] for row in live)
    latest = max(row["terminal_by"] for row in live if row["domain"] == "agent")
    now = await house.value("select ferryman.clock()")

    while await house.value("select ferryman.clock()") < latest + timedelta(minutes=2):
        await house.travel(timedelta(minutes=4))
        await house.tick()
        assert await house.rows("select * from ferryman.overdue_agents") == []

    assert latest - now < timedelta(hours=2)
    assert {len(await house.ends(turn)) for turn in turns} == {1}
    assert {(await house.turn(turn)).terminal for turn in turns} == {True}
    assert await house.rows("select * from ferryman.bounds_agents") == []
    assert resumed.id in turns
    assert await house.broken() == []


@pytest.mark.contract("W6", "W7")
def test_a_rule_that_is_the_only_end_of_a_state_cannot_be_switched_off(db: Database) -> None:
    from ferryman.agents import watch
    from ferryman.kernel.doorbell import NoDoorbell

    rules = watch.rules(replace(House(db).parties, terms=Terms()), NoDoorbell(), sweep=timedelta(seconds=1))
    off = {rule.setting: 0.0 for rule in rules}
    left = {rule.name for rule in watchdog.active(rules, off)}
    assert left == {"W2", "W7", "W6", "A18", "A3", "A16"}
