"""The decisions: what may be asked for, how a batch ends, what a child's end comes to, what the parent is told."""

import json
from datetime import timedelta
from itertools import combinations_with_replacement
from types import SimpleNamespace
from typing import Any
from uuid import UUID, uuid4

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ferryman.agents.model import Accepted, Busy, Failed, Rejected
from ferryman.batches import rules
from ferryman.batches.model import Asked, Terms
from ferryman.batches.states import BATCH, BATCH_TASK, FAILURES, TERMINAL, BatchStatus, TaskStatus
from ferryman.kernel import errors

BOX = UUID(int=7)
TASK = {"target_strategy": "new", "target_ref": "search", "instruction": "find papers"}


@pytest.mark.contract("B1")
def test_a_request_is_read_with_its_defaults() -> None:
    fork = rules.read({"tasks": [TASK]}, Terms())

    assert fork.tasks == (Asked(strategy="new", ref="search", instruction="find papers"),)
    assert (fork.fail_fast, fork.deadline) == (False, timedelta(seconds=900))


@pytest.mark.contract("B1")
def test_every_field_is_read() -> None:
    task = {"target_strategy": " Clone ", "target_ref": " bob ", "instruction": " go ", "context_box_id": str(BOX)}
    fork = rules.read({"tasks": [task], "fail_fast": True, "deadline_seconds": 0.5}, Terms())

    assert fork.tasks == (Asked(strategy="clone", ref="bob", instruction="go", context_box=BOX),)
    assert (fork.fail_fast, fork.deadline) == (True, timedelta(seconds=0.5))
    for empty in ("", "  ", None):
        assert rules.read({"tasks": [{**TASK, "context_box_id": empty}]}, Terms()).tasks[0].context_box is None


@pytest.mark.contract("B1", "B14")
def test_the_example_of_the_source_is_read_as_it_stands() -> None:
    text = """{
      "tasks": [
        {"target_strategy": "new", "target_ref": "Associate_Search", "instruction": "检索近三个月 RAG 评测论文"},
        {"target_strategy": "reuse", "target_ref": "agent_search_2", "instruction": "整理可复现实验参数"}
      ],
      "fail_fast": true,
      "deadline_seconds": 300
    }"""
    fork = rules.read(json.loads(text), Terms())

    assert fork.tasks == (
        Asked(strategy="new", ref="Associate_Search", instruction="检索近三个月 RAG 评测论文"),
        Asked(strategy="reuse", ref="agent_search_2", instruction="整理可复现实验参数"),
    )
    assert (fork.fail_fast, fork.deadline) == (True, timedelta(seconds=300))
    # Less than a microsecond is still some time.
    assert rules.read({"tasks": [TASK], "deadline_seconds": 1e-9}, Terms()).deadline > timedelta(0)


WRONG: list[tuple[dict[str, Any], str]] = [
    ({}, "tasks"),
    ({"tasks": []}, "tasks"),
    ({"tasks": "all"}, "tasks"),
    ({"tasks": {"0": TASK}}, "tasks"),
    ({"tasks": [TASK] * 257}, "tasks"),
    ({"tasks": ["find papers"]}, "tasks[0]"),
    ({"tasks": [TASK, {**TASK, "target_strategy": "fresh"}]}, "tasks[1].target_strategy"),
    ({"tasks": [{**TASK, "target_strategy": None}]}, "tasks[0].target_strategy"),
    ({"tasks": [{**TASK, "target_ref": " "}]}, "tasks[0].target_ref"),
    ({"tasks": [{**TASK, "target_ref": 7}]}, "tasks[0].target_ref"),
    ({"tasks": [{**TASK, "instruction": ""}]}, "tasks[0].instruction"),
    ({"tasks": [{**TASK, "instruction": "a\x00b"}]}, "tasks[0].instruction"),
    ({"tasks": [{**TASK, "instruction": "\ud800"}]}, "tasks[0].instruction"),
    ({"tasks": [{"target_strategy": "new", "target_ref": "search"}]}, "tasks[0].instruction"),
    ({"tasks": [{**TASK, "context_box_id": "box"}]}, "tasks[0].context_box_id"),
    ({"tasks": [{**TASK, "context_box_id": 7}]}, "tasks[0].context_box_id"),
    ({"tasks": [{**TASK, "colour": "red"}]}, "tasks[0].colour"),
    ({"tasks": [TASK], "colour": "red"}, "colour"),
    ({"tasks": [TASK], "fail_fast": "yes"}, "fail_fast"),
    ({"tasks": [TASK], "deadline_seconds": 0}, "deadline_seconds"),
    ({"tasks": [TASK], "deadline_seconds": -1}, "deadline_seconds"),
    ({"tasks": [TASK], "deadline_seconds": True}, "deadline_seconds"),
    ({"tasks": [TASK], "deadline_seconds": "10"}, "deadline_seconds"),
    ({"tasks": [TASK], "deadline_seconds": float("nan")}, "deadline_seconds"),
    ({"tasks": [TASK], "deadline_seconds": float("inf")}, "deadline_seconds"),
    ({"tasks": [TASK], "deadline_seconds": 10**400}, "deadline_seconds"),
    ({"tasks": [TASK], "deadline_seconds": timedelta(0)}, "deadline_seconds"),
    ({"tasks": [TASK], "deadline_seconds": [1]}, "deadline_seconds"),
    ({"tasks": [TASK], "fail_fast": 1}, "fail_fast"),
    ({"tasks": None}, "tasks"),
    ({"tasks": [None]}, "tasks[0]"),
    ({"tasks": [[TASK]]}, "tasks[0]"),
    ({"tasks": [{**TASK, "target_strategy": ["new"]}]}, "tasks[0].target_strategy"),
    ({"tasks": [{**TASK, "instruction": {"do": "it"}}]}, "tasks[0].instruction"),
    ({"tasks": [{**TASK, "instruction": "x" * 100_001}]}, "tasks[0].instruction"),
    ({"tasks": [{**TASK, "context_box_id": [str(BOX)]}]}, "tasks[0].context_box_id"),
    ({"tasks": [{**TASK, 7: "x"}]}, "tasks[0].7"),
]


@pytest.mark.contract("B1")
@pytest.mark.parametrize(("asked", "field"), WRONG, ids=[f"{field}-{n}" for n, (_, field) in enumerate(WRONG)])
def test_what_is_wrong_is_named(asked: dict[str, Any], field: str) -> None:
    with pytest.raises(errors.BatchRefused) as caught:
        rules.read(asked, Terms())
    assert (caught.value.details["code"], caught.value.details["field"]) == ("bad_request", field)
    assert caught.value.message.startswith(f"{field}: ")


@pytest.mark.contract("B1")
@pytest.mark.parametrize("name", sorted(rules.RETIRED))
def test_a_retired_field_is_refused_by_its_name(name: str) -> None:
    for asked in ({"tasks": [TASK], name: 1}, {"tasks": [{**TASK, name: 1}]}):
        with pytest.raises(errors.BatchRefused, match=f"{name}: is not supported any more"):
            rules.read(asked, Terms())


@pytest.mark.contract("B15")
def test_the_moves_are_those_of_the_contract() -> None:
    assert {(str(a), str(b)) for a, b in BATCH.legal} == {
        ("running", end) for end in ("success", "failed", "timeout", "partial")
    }
    ends = {(live, end) for live in ("pending", "dispatched") for end in ("failed", "canceled", "timeout")}
    more = {("pending", "dispatched"), ("dispatched", "pending"), ("dispatched", "success"), ("dispatched", "partial")}
    assert {(str(a), str(b)) for a, b in BATCH_TASK.legal} == ends | more


MIXES = [mix for size in range(1, len(TaskStatus) + 1) for mix in combinations_with_replacement(list(TaskStatus), size)]


@pytest.mark.contract("B7", "B13")
def test_every_mix_of_tasks_has_its_verdict() -> None:
    for mix in MIXES:
        met = set(mix)
        slow = rules.verdict(mix, fail_fast=False)
        assert (slow is None) == bool(met - TERMINAL)
        fast = rules.verdict(mix, fail_fast=True)
        assert fast == (BatchStatus.FAILED if met & FAILURES else slow)
        if slow is not None:
            assert slow == _by_the_contract(met)


def _by_the_contract(met: set[TaskStatus]) -> BatchStatus:
    if met == {TaskStatus.SUCCESS}:
        return BatchStatus.SUCCESS
    if TaskStatus.SUCCESS in met:
        return BatchStatus.PARTIAL
    if TaskStatus.FAILED in met:
        return BatchStatus.FAILED
    if TaskStatus.TIMEOUT in met:
        return BatchStatus.TIMEOUT
    return BatchStatus.PARTIAL if TaskStatus.PARTIAL in met else BatchStatus.FAILED


@pytest.mark.contract("B13")
@given(st.lists(st.sampled_from(TaskStatus), min_size=1, max_size=300), st.booleans(), st.randoms())
def test_the_verdict_does_not_hang_on_order_or_number(tasks: list[TaskStatus], fail_fast: bool, chance: Any) -> None:
    said = rules.verdict(tasks, fail_fast=fail_fast)
    chance.shuffle(tasks)
    assert said == rules.verdict(tasks * 2, fail_fast=fail_fast)
    assert said is None or said is not BatchStatus.RUNNING


@pytest.mark.contract("B6")
@pytest.mark.parametrize(
    ("deliverable", "summary"),
    [
        ({"summary": " short ", "text": "long"}, "short"),
        ({"fields": [{"name": "a", "value": 1}, {"name": "summary", "value": "s"}]}, "s"),
        ({"fields": [{"name": n, "value": n * 2} for n in "abcdefg"]}, "a: aa; b: bb; c: cc; d: dd; e: ee"),
        ({"fields": [{"name": "a", "value": ""}, {"name": "b", "value": [1]}, {"name": "c", "value": None}]}, "b: [1]"),
        ({"result_fields": {"title": "t"}}, "title: t"),
        ([{"name": "title", "value": "t"}], "title: t"),
        ({"title": "t", "nothing": None}, "title: t"),
        ({"summary": "", "title": "t"}, "title: t"),
        (" text ", "text"),
        ([1, 2], "[1, 2]"),
        (7, "7"),
        (None, None),
        ({}, "{}"),
        ("x" * 10_000, "x" * 4000),
    ],
)
def test_a_deliverable_has_its_summary(deliverable: Any, summary: str | None) -> None:
    assert rules.view_of(deliverable).summary == summary


def _row(index: int, status: str, *, view: Any = None, error: str | None = None, box: UUID | None = None) -> Any:
    metadata = json.dumps({"task_index": index, "result_view": view})
    return SimpleNamespace(task_index=index, status=status, output_box_id=box, error_detail=error, metadata=metadata)


@pytest.mark.contract("B9")
def test_the_parent_gets_one_result_for_each_task_in_order() -> None:
    rows = [
        _row(2, "failed", error="stopped", view={"digest": "so far"}),
        _row(0, "success", view={"digest": "done", "error_code": "odd"}, box=BOX),
        _row(3, "partial", view={"tool_result_error": "tool_result_not_found"}),
        _row(1, "canceled"),
    ]
    told = rules.result("partial", rows, limit=10_000)

    assert told == {
        "status": "partial",
        "results": [
            {"task_index": 0, "status": "success", "summary": "done", "output_box_id": str(BOX)},
            {"task_index": 1, "status": "canceled"},
            {"task_index": 2, "status": "failed", "summary": "so far", "error": "stopped"},
            {"task_index": 3, "status": "partial", "error": "tool_result_not_found"},
        ],
    }
    batch = uuid4()
    card = rules.content(batch, told)
    assert (card["status"], card["result"], card["error"]["code"]) == ("partial", told, "batch_failed")
    assert card["error"]["detail"] == {"batch_id": str(batch), "status": "partial"}
    assert "error" not in rules.content(batch, {"status": "success", "results": []})


@pytest.mark.contract("B9")
@given(st.lists(st.text(max_size=4000).filter(lambda text: "\x00" not in text), min_size=1, max_size=40))
def test_what_the_parent_is_told_fits_a_card(summaries: list[str]) -> None:
    summaries = [each.encode("utf-8", "ignore").decode() for each in summaries]
    rows = [_row(index, "success", view={"digest": each}) for index, each in enumerate(summaries)]
    told = rules.result("success", rows, limit=8000)
    assert len(json.dumps(told, ensure_ascii=False).encode()) <= 8000
    assert [each["task_index"] for each in told["results"]] == list(range(len(rows)))


@pytest.mark.contract("B5")
def test_a_dispatch_is_tried_again_after_two_to_thirty_seconds() -> None:
    delays = [rules.DISPATCH.delay(attempt, random=lambda: 0.0).total_seconds() for attempt in range(1, 7)]
    assert delays == [2, 4, 8, 16, 30, 30]
    most = [rules.DISPATCH.delay(attempt, random=lambda: 1.0).total_seconds() for attempt in range(1, 6)]
    assert all(low < high <= low * 1.1 + 0.001 for low, high in zip(delays, most, strict=False))


@pytest.mark.contract("B5")
def test_every_answer_to_a_dispatch_is_final_or_not() -> None:
    turn = uuid4()
    assert rules.dispatch_error(Accepted(turn)) is None
    assert rules.dispatch_error(Busy()) is None
    assert rules.dispatch_error(Failed("internal_error", "")) is None
    assert rules.dispatch_error(Failed("storage_error", "")) == "dispatch_error:storage_error"
    assert rules.dispatch_error(Rejected("agent_unknown", "")) == "dispatch_rejected:agent_unknown"
    assert rules.dispatch_error(Rejected("", "")) == "dispatch_rejected"


@pytest.mark.contract("B3")
def test_inherited_cards_keep_their_order_and_come_once() -> None:
    a, b, c, own = (uuid4() for _ in range(4))
    assert rules.packed([[b, a], [a, c, b]], own) == [b, a, c, own]


def test_a_reference_is_read_back() -> None:
    batch, task = uuid4(), uuid4()
    assert rules.referred(rules.reference(batch, task)) == (batch, task)
    assert [rules.referred(each) for each in (None, "", "a/b", f"{batch}")] == [None] * 4
