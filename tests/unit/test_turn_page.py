"""What a turn's page offers and counts."""

from datetime import UTC, datetime
from typing import Any
from uuid import UUID

import pytest

from ferryman.agents.model import BudgetRecord, EdgeRecord, WaitRecord
from ferryman.dashboard.pages import turns

pytestmark = pytest.mark.contract("S5")

NOW = datetime(2026, 1, 1, tzinfo=UTC)
TURN, CHILD = UUID(int=1), UUID(int=2)


def wait(**more: Any) -> WaitRecord:
    given = {
        "tool_call_id": "c",
        "tool_name": "ask",
        "nth": 1,
        "wait_status": "waiting",
        "created_at": NOW,
        "deadline_at": NOW,
    }
    rest: dict[str, Any] = dict.fromkeys(("received_at", "applied_at", "step_id", "task_id", "status"))
    return WaitRecord(**rest | given | more)


@pytest.mark.contract("A10")
@pytest.mark.parametrize(
    ("more", "may"),
    [
        ({}, True),
        ({"wait_status": "received"}, False),
        ({"task_id": UUID(int=9)}, False),
        ({"tool_name": "fork_join"}, False),
        ({"tool_name": "agent:bob"}, False),
    ],
)
def test_only_a_call_that_somebody_outside_is_to_answer_has_a_form(more: dict[str, Any], may: bool) -> None:
    assert turns.answerable(wait(**more)) is may


def edge(primitive: str, source: UUID | None, target: UUID | None) -> EdgeRecord:
    return EdgeRecord(primitive, "request", "x", NOW, 0, "ann", source, "bob", target, "running")


@pytest.mark.contract("A6")
def test_a_child_is_named_once_and_whoever_asked_is_no_child() -> None:
    edges = [
        edge("enqueue", None, TURN), edge("enqueue", TURN, CHILD), edge("cancel", TURN, CHILD), edge("join", TURN, None),
    ]  # fmt: skip
    assert [each.target_turn_id for each in turns.children(edges, TURN)] == [CHILD]


@pytest.mark.contract("A21")
def test_a_budget_has_a_bar_where_it_has_a_limit() -> None:
    assert turns.budget(None) == []
    told = turns.budget(BudgetRecord(TURN, 100, 25, None, 3, None, 0, 20, 0, 0))
    assert [(part["name"], part["spent"], part["held"], part["limit"]) for part in told] == [
        ("Tokens", 25, 20, 100), ("Tool calls", 3, 0, None), ("Cost", 0, 0, None),
    ]  # fmt: skip
    assert [part["bar"] is not None for part in told] == [True, False, False]
    assert "25 spent, 20 reserved of 100" in told[0]["bar"]
