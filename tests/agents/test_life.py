"""The life of a turn: asked for, dispatched, taken in hand, suspended, resumed, ended; with one end and one deliverable."""

import json
from datetime import timedelta
from uuid import uuid4

import pytest

from ferryman.agents import intake, rules
from ferryman.agents.ends import Parties
from ferryman.agents.intake.delegate import DelegateEnds
from ferryman.agents.model import Accepted, Busy, Edge, Order, Rejected, Source
from ferryman.agents.ports import TurnOwners
from ferryman.agents.rules import reference
from ferryman.agents.states import TurnStatus
from ferryman.agents.store import heads, inbox
from ferryman.kernel import ids
from ferryman.kernel.pool import Database
from tests.agents.house import OTHER, OWNER, TENANT, House


@pytest.mark.contract("A1", "A3", "A13", "A15")
async def test_a_turn_runs_from_its_message_to_its_deliverable(house: House) -> None:
    taken = await house.begin(instruction={"topic": "ferries"})

    assert await house.settle(house.success(taken, {"summary": "a report"})) == {taken.id}

    assert await house.events(taken.id) == [
        ("agent.state", "idle", "dispatched", None),
        ("agent.state", "dispatched", "running", None),
        ("agent.state", "running", "idle", None),
        ("agent.task", None, "success", None),
    ]
    record = await house.turn(taken.id)
    assert (record.message_status, record.turn_status, record.head_status) == ("consumed", "success", None)
    async with house.db.session() as tx:
        [instruction] = await intake.read.cards(tx, taken.context_box_id, tenant=TENANT)
        [deliverable] = await intake.read.cards(tx, taken.output_box_id, tenant=TENANT)
    assert (instruction.type, json.loads(instruction.content)) == ("task.instruction", {"topic": "ferries"})
    assert (deliverable.id, deliverable.type) == (record.deliverable_card_id, "task.deliverable")
    told = await house.value("select data from ferryman.events where kind = 'agent.task'")
    assert json.loads(told) == {
        "channel": "default",
        "output_box_id": str(taken.output_box_id),
        "deliverable_card_id": str(deliverable.id),
    }
    assert await house.broken() == []


@pytest.mark.contract("A3", "A5", "A2")
async def test_an_agent_does_one_turn_at_a_time_oldest_first(house: House) -> None:
    await house.agent()
    turns = [await house.enqueue(instruction=n) for n in range(3)]
    done = []
    for epoch in (1, 2, 3):
        [taken] = await house.claim()
        assert taken.epoch == epoch
        assert await house.claim() == []
        done.append(taken.id)
        await house.settle(house.success(taken))
    assert done == turns
    assert await house.claim() == []
    assert await house.broken() == []


@pytest.mark.contract("A4", "K11", "A6")
async def test_a_repeated_order_is_one_turn(house: House) -> None:
    await house.agent()
    await house.agent("bob")
    turn = ids.new_id()

    first, second = [await house.answer(turn=turn) for _ in range(2)]
    stranger = await house.answer("bob", turn=turn)

    assert first == Accepted(turn, epoch=1)
    assert second == Accepted(turn, epoch=1, created=False)
    assert isinstance(stranger, Rejected)
    assert stranger.code == "turn_conflict"
    assert await house.value("select count(*) from ferryman.agent_inbox") == 1
    assert await house.value("select count(*) from ferryman.boxes") == 2
    assert await house.value("select count(*) from ferryman.execution_edges") == 1


@pytest.mark.contract("A11", "A12", "A2")
async def test_a_turn_waits_for_every_call_and_goes_on_when_the_last_is_answered(house: House) -> None:
    taken = await house.suspend(("c1", 30), ("c2", 60))
    assert await house.claim() == []
    head = await house.head()
    assert (head["status"], head["waiting_tool_count"]) == ("suspended", 2)
    soonest = head["resume_deadline"]

    assert (await house.report("c1")).effect  # type: ignore[union-attr]
    head = await house.head()
    assert (head["waiting_tool_count"], head["resume_deadline"] - soonest) == (1, timedelta(seconds=30))
    assert await house.claim() == []
    await house.report("c2", content={"status": "failed", "error": {"code": "no", "message": "no"}})

    [again] = await house.claim(owner=OTHER)
    assert (again.id, again.was, again.epoch) == (taken.id, "suspended", taken.epoch + 1)
    async with house.db.session() as tx:
        calls = await intake.read.calls(tx, taken.id, tenant=TENANT)
        cards = await intake.read.cards(tx, taken.output_box_id, tenant=TENANT)
    assert [(call.tool_call_id, call.wait_status, json.loads(call.result or "")["status"]) for call in calls] == [
        ("c1", "applied", "success"),
        ("c2", "applied", "failed"),
    ]
    assert [card.type for card in cards] == ["tool.call", "tool.call", "tool.result", "tool.result"]
    statuses = "select status, attempt_count from ferryman.turn_resume_ledger"
    assert {tuple(row.values()) for row in await house.rows(statuses)} == {("processing", 1)}
    assert await house.settle(house.success(again, owner=OTHER), owner=OTHER) == {taken.id}
    assert {tuple(row.values()) for row in await house.rows(statuses)} == {("applied", 1)}
    assert await house.broken() == []


@pytest.mark.contract("A12")
async def test_the_earliest_result_counts_and_later_ones_are_consumed(house: House) -> None:
    taken = await house.suspend("c1", "c2")

    first = await house.report("c1", content={"status": "success", "result": "first"})
    second = await house.report("c1", content={"status": "success", "result": "second"})
    late = await house.report("c1", message_type="timeout", content=rules.timed_out("search"))

    assert isinstance(first, Accepted)
    assert first.effect
    assert isinstance(second, Accepted)
    assert not second.effect
    assert not second.created
    assert isinstance(late, Accepted)
    assert not late.effect
    assert late.created
    async with house.db.session() as tx:
        [call, _] = await intake.read.calls(tx, taken.id, tenant=TENANT)
    assert json.loads(call.result or "") == {"status": "success", "result": "first"}
    assert (await house.head())["waiting_tool_count"] == 1
    live = "select count(*) from ferryman.agent_inbox where archived_at is null and message_type <> 'turn'"
    assert await house.value(live) == 0


@pytest.mark.contract("A12", "K4")
async def test_a_result_for_a_turn_that_is_over_changes_nothing(house: House) -> None:
    taken = await house.suspend("c1")
    await house.stop(taken.id)
    await house.carry_out_stops()
    before = await house.head()

    answer = await house.report("c1")

    assert isinstance(answer, Accepted)
    assert not answer.effect
    assert await house.head() == before
    assert await house.value("select wait_status from ferryman.turn_waiting_tools") == "dropped"
    assert await house.broken() == []


@pytest.mark.contract("A5", "A13")
async def test_a_queued_turn_can_be_taken_back_and_has_its_end(house: House) -> None:
    running = await house.begin()
    waiting = await house.enqueue()

    assert isinstance(await house.cancel(waiting), Accepted)
    refused = [await house.cancel(running.id), await house.cancel(waiting), await house.cancel(uuid4())]

    assert [each.code for each in refused] == ["not_queued"] * 3
    assert await house.ends(waiting) == [("canceled", "canceled")]
    record = await house.turn(waiting)
    assert (record.message_status, record.turn_status) == ("skipped", "canceled")
    assert record.deliverable_card_id is not None
    assert await house.settle(house.success(running)) == {running.id}
    assert await house.claim() == []
    assert await house.broken() == []


@pytest.mark.contract("A16", "A2")
@pytest.mark.parametrize("status", ["dispatched", "running", "suspended"])
async def test_a_stop_ends_the_turn_at_once_and_the_next_begins(house: House, status: str) -> None:
    await house.agent()
    turn = await house.enqueue()
    following = await house.enqueue()
    taken = (await house.claim())[0] if status != "dispatched" else None
    if status == "suspended":
        assert taken is not None
        await house.settle(house.waits(taken, "c1"))
    epoch = (await house.head())["turn_epoch"]

    await house.stop(turn, epoch=epoch)
    assert await house.carry_out_stops() == 1

    assert await house.ends(turn) == [("failed", "stopped")]
    head = await house.head()
    assert (head["status"], head["active_agent_turn_id"]) == ("dispatched", following)
    assert head["turn_epoch"] == epoch + 2  # one for the stop, one for the next turn
    if taken is not None:
        assert await house.settle(house.success(taken)) == set()
    assert await house.broken() == []


@pytest.mark.contract("A16")
async def test_a_stop_for_an_old_epoch_is_consumed_without_effect(house: House) -> None:
    taken = await house.suspend("c1")
    await house.report("c1")
    await house.claim()

    await house.stop(taken.id, epoch=taken.epoch)
    assert await house.carry_out_stops() == 1

    assert (await house.head())["status"] == "running"
    statuses = await house.rows("select status from ferryman.agent_inbox where message_type = 'stop'")
    assert [row["status"] for row in statuses] == ["consumed"]
    # Without an epoch the turn itself is meant, however often it was resumed.
    await house.stop(taken.id)
    await house.carry_out_stops()
    assert await house.ends(taken.id) == [("failed", "stopped")]


@pytest.mark.contract("A16", "A5", "R5")
async def test_a_parent_stops_a_child_that_is_deeper_than_itself(house: House) -> None:
    """The source refuses such a stop because the depths differ, and nobody looks at the answer."""
    await house.agent()
    parent = Source(agent_id="boss", turn=ids.new_id(), depth=3)
    child = await house.enqueue(source=parent)
    await house.claim()

    answer = await house.stop(child, source=parent)

    assert answer.status == "accepted"
    assert await house.carry_out_stops() == 1
    assert await house.ends(child) == [("failed", "stopped")]


@pytest.mark.contract("A16", "B11", "A13")
async def test_a_turn_that_was_asked_for_and_waits_in_line_does_not_outlive_who_asked(db: Database) -> None:
    house = House(db, owners=TurnOwners({"delegate": DelegateEnds(Parties())}))
    boss = await house.suspend("d", agent_id="boss")
    busy = await house.begin()
    asked = Source(agent_id="boss", turn=boss.id, depth=1)
    ref = reference(TENANT, "boss", "d")
    child = await house.enqueue(source=asked, callback="delegate", callback_ref=ref)
    await house.stop(boss.id, "boss")

    assert [await house.carry_out_stops() for _ in range(3)] == [1, 1, 0]

    assert await house.ends(child) == [("canceled", "stopped")]
    assert (await house.turn(child)).error == "The turn was stopped before it began: its turn has ended."
    await house.settle(house.success(busy))
    assert ((await house.head())["status"], await house.claim()) == ("idle", [])
    assert await house.broken() == []


@pytest.mark.contract("A16")
async def test_a_stop_that_names_an_epoch_does_not_take_back_a_turn_in_line(house: House) -> None:
    await house.begin()
    waiting = await house.enqueue()
    await house.stop(waiting, epoch=1)

    assert await house.carry_out_stops() == 1
    assert await house.ends(waiting) == []


@pytest.mark.contract("A7")
async def test_turns_ask_for_turns_only_so_deep(house: House) -> None:
    await house.agent()

    deep = await house.answer(source=Source(agent_id="ann", turn=ids.new_id(), depth=18))
    deeper = await house.answer(source=Source(agent_id="ann", turn=ids.new_id(), depth=19))

    assert isinstance(deep, Accepted)
    assert isinstance(deeper, Rejected)
    assert deeper.code == "recursion_depth_exceeded"
    assert [
        tuple(row.values()) for row in await house.rows("select recursion_depth from ferryman.execution_edges")
    ] == [(19,)]


@pytest.mark.contract("A20")
async def test_a_busy_agent_does_as_its_policy_says(house: House) -> None:
    for policy in ("enqueue", "reject", "interrupt", "merge"):
        await house.agent(policy, when_busy=policy)
        await house.enqueue(policy)
    running = {taken.agent_id: taken for taken in await house.claim()}

    answers = {policy: await house.answer(policy, instruction="second") for policy in running}

    assert answers["reject"] == Busy()
    assert all(isinstance(answers[policy], Accepted) for policy in ("enqueue", "interrupt", "merge"))
    assert (await house.turn(answers["enqueue"].id)).message_status == "queued"  # type: ignore[union-attr]
    await house.carry_out_stops()
    assert await house.ends(running["interrupt"].id) == [("failed", "stopped")]
    assert (await house.head("interrupt"))["active_agent_turn_id"] == answers["interrupt"].id  # type: ignore[union-attr]
    # A batch's dispatch always enqueues.
    assert isinstance(await house.answer("reject", always_enqueue=True), Accepted)
    assert await house.broken() == []


@pytest.mark.contract("A20", "A13")
async def test_a_merged_message_goes_along_with_the_turn_that_waits_and_ends_with_it(house: House) -> None:
    await house.agent(when_busy="merge")
    first = await house.enqueue(instruction="first")
    second = await house.enqueue(instruction="second")
    third = await house.enqueue(instruction="third")
    await house.settle(house.success((await house.claim())[0]))

    [taken] = await house.claim()
    async with house.db.session() as tx:
        told = [json.loads(card.content) for card in await intake.read.cards(tx, taken.context_box_id, tenant=TENANT)]
    assert (taken.id, told) == (second, ["second", "third"])
    assert await house.ends(third) == []
    await house.settle(house.success(taken))

    assert [await house.ends(turn) for turn in (first, second, third)] == [[("success", None)]] * 3
    assert (await house.turn(third)).deliverable_card_id == (await house.turn(second)).deliverable_card_id
    assert await house.claim() == []
    assert await house.broken() == []


@pytest.mark.contract("A16")
async def test_stops_are_found_once_each_and_oldest_first_and_nothing_else_is(house: House) -> None:
    taken = {name: await house.begin(name) for name in ("ann", "bob", "cas", "dan")}
    await house.agent("eve")
    await house.enqueue("eve")  # pending, as a stop is
    names = {(await house.stop(taken[name].id, name)).id: name for name in taken}  # type: ignore[union-attr]
    when = "update ferryman.agent_inbox set look_at = ferryman.clock() + $1::interval where id = $2"
    minutes = {"ann": -1, "bob": -2, "cas": 60, "dan": 0}
    for id, name in names.items():
        await house.write(when, timedelta(minutes=minutes[name]), id)
    await house.write(
        "update ferryman.agent_inbox set status = 'processing', pending_at = null, processed_at = ferryman.clock()"
        " where message_type = 'stop' and agent_id = 'dan'"
    )
    await house.write(
        "update ferryman.agent_inbox set look_at = ferryman.clock() - interval '1 h' where agent_id = 'eve'"
    )

    async with house.db.session() as tx:
        found = await inbox.stops(tx, 10)

    assert [(names[row["id"]], row["agent_turn_id"]) for row in found] == [
        ("bob", taken["bob"].id), ("ann", taken["ann"].id),
    ]  # fmt: skip


@pytest.mark.contract("A20", "A13")
async def test_a_turn_that_somebody_waits_for_is_not_merged_into_anothers(house: House) -> None:
    await house.agent(when_busy="merge")
    await house.enqueue()
    leader, follower = await house.enqueue(), await house.enqueue()
    asked = await house.enqueue(callback="delegate", callback_ref="default/boss/call-1")

    assert [(await house.turn(turn)).merged_into for turn in (follower, asked)] == [leader, None]


@pytest.mark.contract("A20", "A5")
async def test_what_was_merged_into_a_canceled_turn_is_canceled_with_it(house: House) -> None:
    await house.agent(when_busy="merge")
    await house.enqueue()
    leader, follower = await house.enqueue(), await house.enqueue()

    await house.cancel(leader)

    assert [await house.ends(turn) for turn in (leader, follower)] == [[("canceled", "canceled")]] * 2
    assert await house.broken() == []


@pytest.mark.contract("A4")
async def test_a_users_action_does_not_wait_in_line(house: House) -> None:
    await house.agent()
    first = await house.answer(message_type="ui_action")
    assert isinstance(first, Accepted)
    assert first.epoch == 1
    assert await house.answer(message_type="ui_action") == Busy()
    [taken] = await house.claim()
    await house.settle(house.success(taken))
    assert await house.ends(first.id) == [("success", None)]


@pytest.mark.contract("A5", "A6")
async def test_a_join_is_answered_at_the_depth_it_was_asked_at(house: House) -> None:
    def edge(phase: str, depth: int) -> Edge:
        return Edge(tenant=TENANT, correlation="batch_1", primitive="join", phase=phase, id=ids.new_id(), depth=depth)  # type: ignore[arg-type]

    async with house.db.transaction() as tx:
        early = await intake.join(tx, [edge("response", 1)])
        asked = await intake.join(tx, [edge("request", 1)])
        wrong = await intake.join(tx, [edge("response", 2)])
        right = await intake.join(tx, [edge("response", 1), edge("request", 1)])
    assert [each.code for each in (*early, *wrong)] == ["protocol_violation"] * 2
    assert [getattr(each, "created", None) for each in (*asked, *right)] == [True, True, False]


@pytest.mark.contract("A5")
async def test_a_wakeup_dispatches_what_waits(house: House) -> None:
    await house.agent()
    turn = await house.enqueue()
    await house.write("update ferryman.agent_inbox set status = 'queued', pending_at = null")
    await house.write(
        "update ferryman.agent_state_head set status = 'idle', active_agent_turn_id = null, active_inbox_id = null,"
        " output_box_id = null, turn_deadline = null, dispatch_deadline = null, ready_at = null"
    )
    async with house.db.transaction() as tx:
        answers = await intake.wakeup(
            tx, [(TENANT, "ann"), (TENANT, "nobody")], house.parties, dispatch_next=True, after=house.after
        )
    assert [each.status for each in answers] == ["accepted", "rejected"]
    assert (await house.head())["active_agent_turn_id"] == turn


@pytest.mark.contract("A4")
async def test_a_message_that_lacks_what_a_turn_needs_is_put_aside_and_the_next_is_served(house: House) -> None:
    running = await house.begin()
    broken = [await house.enqueue() for _ in range(3)]
    sound = await house.enqueue()
    await house.write("update ferryman.agent_inbox set channel_id = null where id = $1", broken[0])
    await house.write("update ferryman.agent_inbox set context_box_id = null where id = $1", broken[1])
    await house.write("update ferryman.agent_inbox set message_type = 'riddle' where id = $1", broken[2])

    await house.settle(house.success(running))

    assert (await house.head())["active_agent_turn_id"] == sound
    for turn in broken:
        assert (await house.turn(turn)).message_status == "error"
    assert [await house.ends(turn) for turn in broken[:2]] == [[("failed", "missing_required_fields")]] * 2


@pytest.mark.contract("A8")
async def test_the_database_refuses_to_change_a_card(house: House) -> None:
    await house.begin()
    async with house.db.session() as tx:
        with pytest.raises(Exception, match="CARD_IMMUTABLE"):
            await tx.fetch("update ferryman.cards set content = '1'")


@pytest.mark.contract("A1", "K4", "R2")
async def test_a_stale_holder_writes_nothing(house: House) -> None:
    taken = await house.begin()
    async with house.db.transaction() as tx:
        assert await heads.release(tx, [taken.id], [taken.epoch], owner=OWNER) == ({taken.id}, set())
    [successor] = await house.claim(owner=OTHER)
    before = await house.head()

    assert (successor.id, successor.was, successor.epoch) == (taken.id, "running", taken.epoch + 1)
    assert await house.settle(house.success(taken)) == set()
    assert await house.settle(house.waits(taken, "c1")) == set()
    async with house.db.session() as tx:
        from ferryman.agents.model import Card, Step
        from ferryman.agents.store import cards, steps

        note = Card(
            tenant=TENANT,
            id=ids.new_id(),
            type="agent.thought",
            role="assistant",
            author="ann",
            content="x",
            turn=taken.id,
        )
        assert await cards.append(tx, [(note, taken.epoch)]) == set()
        step = Step(turn=taken.id, epoch=taken.epoch, owner=OWNER, id=ids.new_id(), kind="step", name="think")
        assert await steps.remember(tx, [step]) == set()
        renewed = await heads.renew(
            tx, [taken.id], [taken.epoch], owner=OWNER, lease=timedelta(seconds=30), margin=timedelta(seconds=5)
        )
        assert renewed == {}
    assert await house.head() == before
    assert await house.value("select count(*) from ferryman.agent_steps") == 0
    assert await house.settle(house.success(successor, owner=OTHER), owner=OTHER) == {taken.id}
    assert await house.broken() == []


@pytest.mark.contract("A13")
async def test_a_turn_that_leaves_nothing_gets_a_fallback_marked_as_such(house: House) -> None:
    taken = await house.begin()
    end = rules.end_of(taken, TurnStatus.FAILED, owner=OWNER, code="handler_failed", error="ValueError: no")

    await house.settle(end)

    async with house.db.session() as tx:
        [card] = await intake.read.cards(tx, taken.output_box_id, tenant=TENANT)
    content = json.loads(card.content)
    assert (content["kind"], content["status"], json.loads(card.metadata or "")) == (
        "fallback_deliverable", "failed", {"fallback": True},
    )  # fmt: skip
    assert await house.ends(taken.id) == [("failed", "handler_failed")]


@pytest.mark.contract("K12", "A12")
async def test_no_tenant_answers_anothers_call_or_reads_its_turn(house: House) -> None:
    taken = await house.suspend("c1")
    async with house.db.transaction() as tx:
        from ferryman.agents.model import Report

        foreign = Report(
            tenant="other", tool_call_id="c1", id=ids.new_id(), card_id=ids.new_id(), content={"status": "success"}
        )
        [answer] = await intake.report(tx, [foreign], house.parties, after=house.after)
        assert await intake.read.turns(tx, [taken.id], tenant="other") == []
        order = Order(tenant="other", agent_id="ann", turn=ids.new_id(), instruction="x")
        [asked] = await intake.enqueue(tx, [order], house.parties, after=house.after)
    assert (answer.code, asked.code) == ("call_unknown", "agent_unknown")
    assert (await house.head())["waiting_tool_count"] == 1


@pytest.mark.contract("A17", "A15")
async def test_the_steps_of_a_turn_are_remembered_once_with_what_they_cost(house: House) -> None:
    from ferryman.agents.model import Step
    from ferryman.agents.store import steps

    taken = await house.begin()
    first = Step(
        turn=taken.id, epoch=taken.epoch, owner=OWNER, id=ids.new_id(), kind="llm", name="think", result={"said": "hm"},
        seconds=2.0, input_tokens=10, output_tokens=20, cost=0.5, tool_call_ids=("c1",),
    )  # fmt: skip
    async with house.db.transaction() as tx:
        assert await steps.remember(tx, [first]) == {taken.id}
        assert await steps.remember(tx, [first]) == {taken.id}
        [step] = await intake.read.steps(tx, taken.id, tenant=TENANT)

    assert (step.name, step.status, json.loads(step.result or "")) == ("think", "completed", {"said": "hm"})
    assert (step.input_tokens, step.output_tokens, float(step.cost), step.tool_call_ids) == (10, 20, 0.5, ["c1"])
    assert step.ended_at is not None
    assert step.ended_at - step.started_at == timedelta(seconds=2)
    assert [each[0] for each in await house.events(taken.id)].count("agent.step") == 1
