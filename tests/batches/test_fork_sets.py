"""Forks that come together: one set of statements, and each is made or refused by itself."""

import json
from dataclasses import replace
from typing import Any
from uuid import uuid4

import pytest

from ferryman.agents import intake
from ferryman.agents.rules import suspension_of
from ferryman.batches.intake.fork import TEXT_OF_ONE, parts
from ferryman.batches.model import Caller, Forked, Refused
from ferryman.batches.work.forks import Forks
from tests.agents.house import OWNER, TENANT, call_of
from tests.batches.test_fork import Policy
from tests.batches.yard import PROFILES, Yard, task


@pytest.mark.contract("B4", "B2", "K9")
async def test_a_fork_that_is_refused_does_not_take_the_others_with_it(yard: Yard) -> None:
    caller = await yard.parent()
    before = await yard.counts()
    some = [
        yard.wanted(task(instruction="a"), task(instruction="b")),
        yard.wanted(task(), task("nobody")),
        yard.wanted(task(), caller=caller, policy=Policy()),
        yard.wanted(task(context_box_id=str(uuid4()))),
        yard.wanted(task(instruction="c"), caller=Caller(tenant="other"), fail_fast=True, deadline_seconds=1.000001),
    ]
    answers = await yard.answer_forks(*some)

    assert [type(each) for each in answers] == [Forked, Refused, Refused, Refused, Forked]
    codes = [(each.code, each.field) for each in answers if isinstance(each, Refused)]
    assert codes == [
        ("bad_request", "tasks[1].target_ref"), ("delegation_refused", "tasks[0].target_ref"),
        ("bad_request", "tasks[0].context_box_id"),
    ]  # fmt: skip
    made = [now - then for now, then in zip(await yard.counts(), before, strict=True)]
    assert made[:6] == [2, 3, 6, 6, 3, 2]  # batches, tasks, boxes, cards, agents, edges
    assert [json.loads(each.metadata)["task_args"]["instruction"] for each in await yard.tasks_of(some[0].id)] == [
        "a",
        "b",
    ]
    [theirs] = await yard.rows(
        "select tenant, fail_fast, deadline_at - created_at as lasts from ferryman.pmo_batches where id = $1",
        some[4].id,
    )
    assert (theirs["tenant"], theirs["fail_fast"], theirs["lasts"].total_seconds()) == ("other", True, 1.000001)
    boxes = "select box.tenant from ferryman.pmo_batch_tasks as task join ferryman.boxes as box on box.id = task.context_box_id"
    assert sorted(row["tenant"] for row in await yard.rows(boxes)) == sorted([TENANT, TENANT, "other"])
    assert await yard.broken() == []


@pytest.mark.contract("B4", "K11")
async def test_of_those_who_want_one_id_in_one_set_the_first_has_it(yard: Yard) -> None:
    id = uuid4()
    some = [yard.wanted(task(), id=id), yard.wanted(task(), id=id), yard.wanted(task(instruction="else"), id=id)]
    stranger = yard.wanted(task(), id=id, caller=Caller(tenant="other"))
    answers = await yard.answer_forks(*some, stranger)

    assert answers[:2] == [Forked(id), Forked(id, created=False)]
    refused = [each for each in answers[2:] if isinstance(each, Refused)]
    assert [(each.code, each.field) for each in refused] == [("conflict", "tasks[0]"), ("conflict", "id")]
    assert len(await yard.tasks_of(id)) == 1
    assert await yard.answer_forks(*some[:1]) == [Forked(id, created=False)]
    assert await yard.broken() == []


@pytest.mark.contract("B3", "B2", "K12")
async def test_what_one_may_see_another_of_its_set_may_not(yard: Yard) -> None:
    ann, bob = await yard.parent("ann"), await yard.parent("bob", "call-2")
    done = await yard.begin("carl")
    await yard.settle(yard.success(done, {"summary": "known"}))
    hers: dict[str, Any] = {"context_box_id": str(ann.context_box)}
    written: dict[str, Any] = {"context_box_id": str(done.output_box_id)}
    answers = await yard.answer_forks(
        yard.wanted(task(**hers), caller=ann),
        yard.wanted(task(**hers), caller=bob),
        yard.wanted(task(**hers)),
        yard.wanted(task(**hers), caller=Caller(tenant="other")),
        # A clone reads what its origin wrote; that does not show the box to who asks for it by name.
        yard.wanted(task("carl", strategy="clone"), caller=ann),
        yard.wanted(task("carl", strategy="clone"), task(**written), caller=bob),
        yard.wanted(task("carl", strategy="clone"), caller=Caller(tenant="other")),
    )
    told = [each.field if isinstance(each, Refused) else None for each in answers]
    box = "tasks[{}].context_box_id".format
    assert told == [None, box(0), None, box(0), None, box(1), "tasks[0].target_ref"]
    made = answers[4]
    assert isinstance(made, Forked)
    async with yard.db.session() as tx:
        cards = await intake.read.cards(tx, (await yard.tasks_of(made.id))[0].context_box_id, tenant=TENANT)
    assert cards[0].type == "task.deliverable"


@pytest.mark.contract("B2")
async def test_a_clone_begins_with_what_there_is_of_its_origins_output(yard: Yard) -> None:
    clone = task("bob", strategy="clone")
    first = await yard.begin("bob")
    nothing = await yard.answer_fork(clone)  # it has begun to work, and has written nothing
    await yard.settle(yard.success(first, "known"))
    await yard.begin("bob")
    known = await yard.answer_fork(clone)  # nor has its second turn, but the first had
    await yard.write("delete from ferryman.boxes where id = $1", first.output_box_id)
    forgotten = await yard.answer_fork(clone)

    for answer in (nothing, forgotten):
        assert isinstance(answer, Refused)
        assert (answer.code, answer.field) == ("bad_request", "tasks[0].target_ref")
        assert "has no output" in answer.reason
    assert isinstance(known, Forked)
    async with yard.db.session() as tx:
        cards = await intake.read.cards(tx, (await yard.tasks_of(known.id))[0].context_box_id, tenant=TENANT)
    assert [card.type for card in cards] == ["task.deliverable", "task.instruction", "meta.parent_pointer"]


@pytest.mark.contract("B4", "B2", "A11")
async def test_turns_that_suspend_together_fork_together_and_each_has_its_own_answer(yard: Yard) -> None:
    forks = Forks(yard.owner.terms, PROFILES)
    outcomes = []
    for name, asked, policy in (
        ("ann", [task(), task()], Policy("child")),
        ("bob", [task()], Policy()),
        ("carl", [task("carl", strategy="reuse")], Policy("writer")),
        ("dora", [task()], Policy("child")),
    ):
        taken = await yard.begin(name)
        start, wait = forks(taken, f"call-{name}", {"tasks": asked}, policy=policy, step=None)
        call = replace(call_of(f"call-{name}"), start=start, timeout=wait)
        outcomes.append(suspension_of(taken, [call], owner=OWNER))

    assert len(await yard.settle(*outcomes)) == 4

    rows = await yard.rows("select parent_agent_id, task_count from ferryman.pmo_batches order by parent_agent_id")
    assert [tuple(row.values()) for row in rows] == [("ann", 2), ("dora", 1)]
    told = [
        [each["error"]["code"] for each in await yard.told(f"call-{name}")] for name in ("ann", "bob", "carl", "dora")
    ]
    assert told == [[], ["delegation_refused"], ["bad_request"], []]
    # A parent never gives up before its batch does.
    waits = await yard.rows(
        "select call.deadline_at > batch.deadline_at as later from ferryman.pmo_batches as batch"
        " join ferryman.turn_waiting_tools as call on call.tool_call_id = batch.parent_tool_call_id"
    )
    assert [row["later"] for row in waits] == [True, True]
    assert await yard.broken() == []


@pytest.mark.contract("B12")
def test_a_set_is_divided_where_it_would_be_too_much_for_one_statement() -> None:
    yard = Yard(None)  # type: ignore[arg-type]  # nothing is stored
    sizes = (256, 256, 256, 256, 1, 1)
    wanted = [yard.wanted(*[task() for _ in range(size)]) for size in sizes]
    wanted.append(yard.wanted(task(instruction="x" * TEXT_OF_ONE * 30)))
    wanted += [yard.wanted(*[task(instruction="x" * 100_000) for _ in range(20)]) for _ in range(2)]

    divided = parts(wanted)

    assert [each for some in divided for each in some] == wanted
    assert [len(some) for some in divided] == [3, 4, 1, 1]
    assert parts([]) == []
