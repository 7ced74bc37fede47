"""A turn's key: the same request again is the same turn, and another one under it is a conflict that names the fields (K11)."""

import asyncio
import dataclasses
import json
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from ferryman import Ferryman, TurnHandle
from ferryman.agents import intake
from ferryman.agents.model import Accepted, Answer, Box, NewAgent, Order, Rejected
from ferryman.agents.store import cards, inbox
from ferryman.agents.work.profiles import Budget, Limits
from ferryman.kernel import errors, ids
from ferryman.kernel.db import many
from tests.agents.house import TENANT, House

ASKED = Order(
    tenant=TENANT, agent_id="ann", turn=ids.new_id(), instruction={"write": [1.0, "x"]}, payload={"a": 1},
    wall_time=timedelta(minutes=1),
)  # fmt: skip


async def ask(house: House, *orders: Order) -> list[Answer]:
    async with house.db.transaction() as tx:
        return await intake.enqueue(tx, orders, house.parties, after=house.after)


async def stored(house: House) -> Any:
    return await house.rows(
        "select (select count(*) from ferryman.agent_inbox) as messages, (select count(*) from ferryman.cards) as cards,"
        " (select count(*) from ferryman.boxes) as boxes"
    )


@pytest.mark.contract("K11", "A5")
async def test_a_turn_that_is_there_is_compared_with_the_request(house: House) -> None:
    for name in ("ann", "bob", "carl"):
        await house.agent(name)
    box, other = ids.new_id(), ids.new_id()
    async with house.db.transaction() as tx:
        await cards.box(tx, [Box(TENANT, box, ()), Box(TENANT, other, ())])
        await intake.cards.require(tx, theirs := ids.new_id(), ["title"], tenant=TENANT, turn=ids.new_id())
    by_box = Order(tenant=TENANT, agent_id="bob", turn=ids.new_id(), context_box=box)
    heir = Order(
        tenant=TENANT, agent_id="carl", turn=ids.new_id(), instruction="x", inherited=(theirs,), result_fields=()
    )
    await ask(house, ASKED, by_box, heir)
    before = await stored(house)
    cases: list[tuple[Order, tuple[str, ...]]] = [
        (ASKED, ()),
        (replace(ASKED, instruction={"write": [1, "x"]}), ()),  # the same number
        (replace(ASKED, author="somebody", traceparent="00-1"), ()),  # who asks, and how, is not what is asked for
        (replace(ASKED, agent_id="bob"), ("agent_id",)),
        (replace(ASKED, instruction={"write": [2, "x"]}), ("instruction",)),
        (replace(ASKED, payload=None, channel="side"), ("channel", "payload")),
        (replace(ASKED, message_type="ui_action"), ("message_type",)),
        (replace(ASKED, instruction=None, context_box=box), ("context_box",)),
        (replace(ASKED, wall_time=timedelta(seconds=61)), ("wall_time",)),
        (replace(ASKED, wall_time=None), ("wall_time",)),
        (replace(ASKED, wall_time=None, unsaid=frozenset({"wall_time"})), ()),
        (replace(ASKED, budget=ids.new_id()), ("budget",)),
        (replace(ASKED, budget=ids.new_id(), unsaid=frozenset({"budget"})), ()),
        (replace(ASKED, result_fields=("title",)), ("result_fields",)),
        (by_box, ()),
        (heir, ()),  # what another turn's result must have is not asked of this one
        (replace(by_box, context_box=other), ("context_box",)),
        (replace(by_box, context_box=None, instruction="x"), ("instruction",)),
    ]

    answers = await ask(house, *(order for order, _ in cases))

    for (order, differs), answer in zip(cases, answers, strict=True):
        if differs:
            assert isinstance(answer, Rejected)
            assert (answer.code, answer.fields) == ("turn_conflict", differs)
        else:
            assert answer == Accepted(order.turn, 1, created=False)
    assert await stored(house) == before


@pytest.mark.contract("K11", "K12")
async def test_the_key_of_another_tenants_turn_is_a_conflict_that_shows_nothing(house: House) -> None:
    await house.agent()
    async with house.db.transaction() as tx:
        await intake.create(tx, [NewAgent("other", "ann", "writer")])
    await ask(house, ASKED)

    [answer] = await ask(house, replace(ASKED, tenant="other"))

    assert isinstance(answer, Rejected)
    assert (answer.code, answer.fields) == ("turn_conflict", ())


@pytest.mark.contract("K11", "A3")
async def test_two_requests_under_one_key_that_come_together_are_one_turn_or_a_conflict(house: House) -> None:
    await house.agent()

    first, same, other = await ask(house, ASKED, ASKED, replace(ASKED, instruction="else"))

    assert (first, same) == (Accepted(ASKED.turn, 1), Accepted(ASKED.turn, 1, created=False))
    assert isinstance(other, Rejected)
    assert other.fields == ("instruction",)
    assert [row["messages"] for row in await stored(house)] == [1]


@pytest.mark.contract("K11", "A20")
@pytest.mark.parametrize("policy", ["reject", "interrupt", "merge"])
async def test_a_repeat_is_no_second_message_to_a_busy_agent(house: House, policy: str) -> None:
    await house.agent(when_busy=policy)
    await ask(house, ASKED)
    [taken] = await house.claim()

    again, twice = await ask(house, ASKED, ASKED)

    assert again == twice == Accepted(taken.id, taken.epoch, created=False)
    assert await house.carry_out_stops() == 0
    assert (await house.head())["status"] == "running"


@pytest.mark.contract("K11", "A20")
async def test_what_was_merged_into_a_turn_is_no_part_of_its_request(house: House) -> None:
    await house.agent(when_busy="merge")
    await house.enqueue()
    waiting = await house.enqueue(instruction="first")
    merged = await house.enqueue(instruction="second")

    for turn, said, fits in (
        (waiting, "first", True),
        (waiting, "second", False),
        (merged, "second", True),
        (merged, "first", False),
    ):
        [answer] = await ask(house, Order(tenant=TENANT, agent_id="ann", turn=turn, instruction=said))
        assert isinstance(answer, Accepted) is fits


@pytest.mark.contract("K11", "A18", "A21", "A14")
async def test_a_turn_under_one_key_has_one_budget_one_wall_time_and_one_list_of_fields(database_url: str) -> None:
    app = Ferryman(database_url)

    @app.agent
    async def writer(turn: Any) -> None: ...

    @app.agent(budget=Budget(tokens=9), limits=Limits(wall_time=timedelta(seconds=30)))
    async def thrifty(turn: Any) -> None: ...

    asked: dict[str, Any] = {
        "wall_time": 60, "budget": Budget(tokens=100, cost=0.5), "result_fields": ["title"], "turn": ids.new_id(),
    }  # fmt: skip
    bare: dict[str, Any] = {"turn": ids.new_id()}
    cases: list[tuple[str, dict[str, Any], list[str]]] = [
        ("ann", asked, []),
        ("ann", {**asked, "wall_time": timedelta(minutes=1)}, []),
        ("ann", {**asked, "wall_time": 61}, ["wall_time"]),
        ("ann", {**asked, "budget": Budget(tokens=100, cost=0.6)}, ["budget"]),
        ("ann", {**asked, "budget": Budget(tokens=100, cost=0.5, tool_calls=1)}, ["budget"]),
        ("ann", {**asked, "result_fields": ["title", "text"]}, ["result_fields"]),
        ("ann", {"turn": asked["turn"]}, ["wall_time", "budget", "result_fields"]),
        ("bob", bare, []),
        ("bob", {**bare, "budget": Budget(tokens=9), "wall_time": 30}, []),
        ("bob", {**bare, "budget": Budget(tokens=8)}, ["budget"]),
        ("bob", {**bare, "wall_time": 31}, ["wall_time"]),
    ]  # fmt: skip
    async with app:
        await app.agents.ensure("ann", "writer")
        await app.agents.ensure("bob", "thrifty")
        for who in ("ann", "bob"):
            await app.agents.send(who, "before")
        # The first goes alone. The others share a trip, those that make a turn with those that meet it.
        _, *told = await asyncio.gather(
            app.agents.send("ann", "now"),
            *(app.agents.send(who, "go", **more) for who, more, _ in cases),
            return_exceptions=True,
        )
        app._open.profiles.profiles["thrifty"] = dataclasses.replace(
            app._open.profiles.profiles["thrifty"],
            budget=Budget(tokens=1),
            limits=Limits(wall_time=timedelta(seconds=1)),
        )  # what stands in a profile now is not what the turn was asked for with
        assert (await app.agents.send("bob", "go", **bare)).idempotent_hit
    for (who, more, differs), each in zip(cases, told, strict=True):
        if differs:
            assert isinstance(each, errors.TurnDuplicate), (who, more)
            assert each.details["conflict_fields"] == differs
        else:
            assert isinstance(each, TurnHandle), each


@pytest.mark.contract("K11", "A14")
async def test_at_the_door_a_refusal_has_its_own_error(database_url: str) -> None:
    app = Ferryman(database_url)

    @app.agent
    async def writer(turn: Any) -> None: ...

    async with app:
        await app.agents.ensure("ann", "writer")
        sent = await app.agents.send("ann", "go", result_fields=["title"])
        again = await app.agents.send("ann", "go", turn=sent.id, result_fields=["title"])
        assert (again.id, again.idempotent_hit) == (sent.id, True)
        asked = {"place": 1, "tenant": "default", "turn": str(sent.id), "instruction": "go"}
        async with app.database.session() as tx:
            met = await many(tx, inbox._MET, orders=json.dumps([asked]))
        assert [row["place"] for row in met] == [1]  # by its instruction alone, though it was given another card
        with pytest.raises(errors.TurnDuplicate) as differs:
            await app.agents.send("ann", "come", turn=sent.id, result_fields=["title"])
        with pytest.raises(errors.AgentNotFound) as unknown:
            await app.agents.send("nobody", "go")
        with pytest.raises(errors.AgentInvalidRequest) as unfit:
            await app.agents.send("ann", "go", channel="a.b")
    assert differs.value.details["conflict_fields"] == ["instruction"]
    assert "nobody" in unknown.value.message
    assert unfit.value.details["code"] == "missing_channel"
