"""What cannot be taken in is refused with a code, and nothing is stored."""

from dataclasses import replace
from typing import Any

import pytest

from ferryman.agents import intake
from ferryman.agents.model import Box, NewAgent, Order, Report
from ferryman.agents.store import cards
from ferryman.kernel import errors, ids
from tests.agents.house import TENANT, House

BIG = "x" * (2 * 1024 * 1024)
deep: Any = []
for _ in range(200):
    deep = [deep]


async def stored(house: House) -> list[int]:
    tables = ("agents", "agent_state_head", "agent_inbox", "cards", "boxes", "execution_edges", "events")
    return [await house.value(f"select count(*) from ferryman.{table}") for table in tables]


@pytest.mark.contract("A15", "K13", "K20")
async def test_an_agent_that_could_not_be_addressed_is_refused(house: House) -> None:
    sound = NewAgent(TENANT, "ann", "writer")
    cases: list[tuple[str, dict[str, Any]]] = [
        *(("agent_id", {"agent_id": wrong}) for wrong in ("a.b", "a*", ">", "a b", "", "ä", "x" * 201, None)),
        ("worker_target", {"worker_target": "gpu.1"}),
        ("when_busy", {"when_busy": "panic"}),
        ("profile", {"profile": "no spaces"}),
    ]
    before = await stored(house)
    for field, wrong in cases:
        async with house.db.session() as tx:
            with pytest.raises(errors.FerrymanError) as refusal:
                await intake.create(tx, [sound, sound._replace(**wrong)])
        assert refusal.value.details["field"] == field, wrong
        assert refusal.value.code in ("AGENT_INVALID_REQUEST", "TASK_INVALID_REQUEST")
    assert await stored(house) == before


@pytest.mark.contract("A5", "A7", "K13", "R6")
async def test_an_order_that_cannot_be_taken_in_is_answered_with_a_code(house: House) -> None:
    await house.agent()
    sound = Order(tenant=TENANT, agent_id="ann", turn=ids.new_id(), instruction="x")
    cases: list[tuple[str, dict[str, Any]]] = [
        ("agent_unknown", {"agent_id": "nobody"}),
        ("protocol_violation", {"agent_id": "a.b"}),
        ("missing_channel", {"channel": None}),
        ("missing_channel", {"channel": "a.*"}),
        ("missing_required_fields", {"instruction": None}),
        ("missing_required_fields", {"context_box": ids.new_id()}),
        ("protocol_violation", {"message_type": "riddle"}),
        ("payload_invalid", {"instruction": BIG}),
        ("payload_invalid", {"instruction": deep}),
        ("payload_invalid", {"instruction": float("nan")}),
        ("payload_invalid", {"instruction": "\x00"}),
        ("payload_invalid", {"instruction": "\ud800"}),
        ("payload_invalid", {"instruction": 2**64}),
        ("payload_invalid", {"payload": {"x": object()}}),
    ]
    before = await stored(house)
    async with house.db.transaction() as tx:
        orders = [replace(sound, turn=ids.new_id(), **wrong) for _, wrong in cases]
        answers = await intake.enqueue(tx, orders, house.parties, after=house.after)
    told = [(each.status, each.code) for each in answers]
    assert told == [("rejected", code) for code, _ in cases]
    assert all(getattr(each, "reason", "").endswith(".") for each in answers)
    assert await stored(house) == before


@pytest.mark.contract("A8", "K12")
async def test_a_box_of_another_tenant_or_of_another_turn_is_refused(house: House) -> None:
    taken = await house.begin()
    await house.agent("bob")
    foreign = ids.new_id()
    async with house.db.transaction() as tx:
        await cards.box(tx, [Box("other", foreign, ())])
    mine = {"context_box": taken.context_box_id, "instruction": None}

    answers = [
        await house.answer("bob", instruction=None, context_box=foreign),
        await house.answer("bob", output_box=foreign),
        await house.answer("bob", output_box=ids.new_id()),
        await house.answer("bob", output_box=taken.output_box_id),
        await house.answer("bob", **mine),
    ]

    codes = ["box_unknown", "box_unknown", "box_unknown", "output_box_taken", None]
    assert [each.code for each in answers] == codes
    await house.settle(house.success(taken))
    assert (await house.answer("bob", output_box=taken.output_box_id)).status == "accepted"


@pytest.mark.contract("A12", "K13", "R6")
async def test_a_report_that_cannot_be_taken_in_is_answered_with_a_code(house: House) -> None:
    taken = await house.suspend("c1")
    sound = Report(
        tenant=TENANT, tool_call_id="c1", id=ids.new_id(), card_id=ids.new_id(), content={"status": "success"}
    )
    cases: list[tuple[str, dict[str, Any]]] = [
        ("call_unknown", {"tool_call_id": "nobody-waits"}),
        ("stale_epoch", {"turn_epoch": taken.epoch - 1}),
        ("stale_epoch", {"turn_epoch": taken.epoch + 1}),
        ("inline_result", {"inline": {"x": 1}}),
        ("payload_invalid", {"content": {"status": "success", "result": BIG}}),
        ("payload_invalid", {"content": {"status": "success", "result": float("inf")}}),
        ("invalid_status", {"content": {"status": "splendid"}}),
        ("invalid_status", {"content": {}}),
        ("invalid_after_execution", {"content": {"status": "success", "after_execution": "explode"}}),
        ("protocol_violation", {"message_type": "stop"}),
        ("protocol_violation", {"tool_call_id": ""}),
        ("protocol_violation", {"tool_call_id": "x" * 201}),
    ]
    before = await stored(house)
    async with house.db.transaction() as tx:
        reports = [replace(sound, id=ids.new_id(), card_id=ids.new_id(), **wrong) for _, wrong in cases]
        answers = await intake.report(tx, reports, house.parties, after=house.after)
    assert [(each.status, each.code) for each in answers] == [("rejected", code) for code, _ in cases]
    assert await stored(house) == before
    assert (await house.head())["waiting_tool_count"] == 1


@pytest.mark.contract("W6", "A3")
async def test_a_turn_of_a_profile_that_nobody_knows_has_its_end(house: House) -> None:
    await house.agent(profile="forgotten")
    turn = await house.enqueue()
    assert await house.claim() == []
    await house.travel(31)
    await house.tick()
    assert await house.ends(turn) == [("timeout", "dispatch_timeout")]


@pytest.mark.contract("A21", "K9")
async def test_a_budget_is_never_overdrawn_and_the_end_of_a_turn_frees_what_it_reserved(house: House) -> None:
    from ferryman.agents.model import Amount
    from ferryman.agents.store import budgets

    budget = ids.new_id()
    async with house.db.transaction() as tx:
        await budgets.create(tx, tenant=TENANT, id=budget, tokens=100, tool_calls=None, cost=1.0)
    first = await house.begin("ann", budget=budget)
    second = await house.begin("bob", budget=budget)

    async def reserve(turn: Any, name: str, tokens: int, cost: float = 0.0) -> bool:
        async with house.db.transaction() as tx:
            await budgets.lock(tx, tenant=TENANT, id=budget)
            amount = Amount(tokens=tokens, cost=cost)
            return await budgets.reserve(tx, amount, tenant=TENANT, id=budget, turn=turn.id, name=name)

    assert first.budget_id == budget
    assert await reserve(first, "think", 60)
    assert await reserve(first, "think", 60)  # a repeat takes nothing more
    assert not await reserve(second, "think", 41)
    assert not await reserve(second, "think", 1, cost=1.5)
    async with house.db.transaction() as tx:
        spent: dict[str, Any] = {"tenant": TENANT, "id": budget, "turn": first.id, "name": "think"}
        assert await budgets.spend(tx, Amount(tokens=30), **spent)
        assert not await budgets.spend(tx, Amount(tokens=30), **spent)
    assert await reserve(second, "think", 70)
    assert not await reserve(first, "again", 1)
    await house.settle(house.success(second))
    assert await reserve(first, "again", 70)
