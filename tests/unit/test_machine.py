"""A lifecycle declared once, and everything derived from it (K3, K21, W21)."""

from enum import StrEnum
from typing import Any

import pytest

from ferryman.kernel import errors, machine
from ferryman.kernel.machine import Bound, Machine, move


class Life(StrEnum):
    PENDING = "pending"
    READY = "ready"
    RUNNING = "running"
    SUCCEEDED = "succeeded"
    FAILED = "failed"
    CANCELLED = "cancelled"


class Other(StrEnum):
    GONE = "gone"


PENDING, READY, RUNNING, SUCCEEDED, FAILED, CANCELLED = Life

DECLARED: dict[str, Any] = {
    "name": "TASK",
    "table": "tasks",
    "states": Life,
    "initial": {PENDING, READY},
    "moves": [
        move("promote", out_of=[PENDING], to=READY),
        move("claim", out_of=[READY], to=RUNNING),
        move("complete", out_of=[RUNNING], to=SUCCEEDED, fenced=True),
        move("fail", out_of=[RUNNING], to=FAILED, fenced=True),
        move("retry", out_of=[RUNNING], to=READY, fenced=True),
        move("reap", out_of=[RUNNING], to=READY, repair=True),
        move("cancel", out_of=[PENDING, READY, RUNNING], to=CANCELLED),
    ],
    "present": {"leased_until": {RUNNING}, "finished_at": [FAILED, SUCCEEDED, CANCELLED]},
    "ends_by": {
        PENDING: Bound(rule="W17", column="ends_at"),
        READY: Bound(rule="W17", column="ends_at"),
        RUNNING: Bound(rule="W13", column="leased_until"),
    },
}
TASK: Machine[Life] = Machine(**DECLARED)

LEGAL = {
    (PENDING, READY),
    (PENDING, CANCELLED),
    (READY, RUNNING),
    (READY, CANCELLED),
    (RUNNING, READY),
    (RUNNING, SUCCEEDED),
    (RUNNING, FAILED),
    (RUNNING, CANCELLED),
}


def declare(**changes: Any) -> Machine[Life]:
    return Machine(**{**DECLARED, **changes})


def with_move(*more: Any) -> list[Any]:
    return [*DECLARED["moves"], *more]


@pytest.mark.contract("K3")
def test_terminal_states_are_those_nothing_leaves() -> None:
    assert TASK.terminal == {SUCCEEDED, FAILED, CANCELLED}
    assert TASK.live == {PENDING, READY, RUNNING}


@pytest.mark.contract("K3")
@pytest.mark.parametrize("to", Life)
@pytest.mark.parametrize("from_", Life)
def test_exactly_the_declared_moves_are_legal(from_: Life, to: Life) -> None:
    if (from_, to) in LEGAL:
        TASK.check(from_, to)
        return
    with pytest.raises(errors.InvalidTransition) as refused:
        TASK.check(from_, to, id=7)
    assert refused.value.code == "TASK_INVALID_TRANSITION"
    assert refused.value.details == {"from": from_, "to": to, "id": "7"}


@pytest.mark.contract("K3")
@pytest.mark.parametrize("state", Life)
def test_a_row_is_born_in_an_initial_state_only(state: Life) -> None:
    if state in (PENDING, READY):
        TASK.check(None, state)
        return
    with pytest.raises(errors.InvalidTransition, match=f"Cannot begin it as {state}"):
        TASK.check(None, state)


def test_the_code_is_the_machines_own() -> None:
    with pytest.raises(errors.InvalidTransition) as refused:
        declare(code="BATCH_INVALID_TRANSITION").check(FAILED, READY)

    assert refused.value.code == "BATCH_INVALID_TRANSITION"


def test_a_move_is_allowed_from_its_own_states() -> None:
    assert [state for state in Life if TASK.allows("cancel", state)] == [PENDING, READY, RUNNING]
    assert [state for state in Life if TASK.allows("complete", state)] == [RUNNING]
    with pytest.raises(ValueError, match="no move is named 'finish'"):
        TASK.allows("finish", RUNNING)


def test_pairs_are_sorted_and_each_once() -> None:
    assert TASK.pairs() == sorted(LEGAL)


@pytest.mark.contract("W21")
def test_every_live_state_has_its_bound_in_order_of_declaration() -> None:
    assert list(TASK.bounds()) == [PENDING, READY, RUNNING]
    assert TASK.bounds()[RUNNING] == Bound(rule="W13", column="leased_until")


def test_one_name_may_leave_different_states_for_different_ends() -> None:
    moves = with_move(move("give_up", out_of=[PENDING], to=CANCELLED))
    made = declare(moves=[*moves, move("give_up", out_of=[RUNNING], to=FAILED)])

    assert made.allows("give_up", PENDING)
    assert made.allows("give_up", RUNNING)
    assert not made.allows("give_up", READY)


def test_a_resting_state_needs_no_bound_and_is_not_terminal() -> None:
    class Head(StrEnum):
        IDLE = "idle"
        BUSY = "busy"

    made = Machine(
        name="HEAD",
        table="heads",
        column="status",
        states=Head,
        initial={Head.IDLE},
        resting={Head.IDLE},
        moves=[
            move("lease", out_of=[Head.IDLE], to=Head.BUSY),
            move("finish", out_of=[Head.BUSY], to=Head.IDLE),
        ],
        ends_by={Head.BUSY: Bound("W7", "leased_until")},
    )

    assert made.terminal == set()
    assert made.live == {Head.BUSY}
    assert "[*] --> idle" in made.mermaid()


BOUNDS = DECLARED["ends_by"]


@pytest.mark.contract("W21")
@pytest.mark.parametrize(
    ("changes", "complaint"),
    [
        ({"ends_by": {PENDING: BOUNDS[PENDING]}}, "nothing bounds live state ready"),
        (
            {"ends_by": {**BOUNDS, FAILED: Bound("W1", "ends_at")}},
            "state failed is not live but has a bound",
        ),
        (
            {"ends_by": {**BOUNDS, READY: Bound("W13", "leased_until")}},
            "column leased_until bounds state ready but is null there",
        ),
        ({"initial": {READY}}, "nothing reaches state pending"),
        ({"initial": set()}, "no state is initial"),
        ({"initial": {Other.GONE}}, "unknown state <Other.GONE: 'gone'> in initial"),
        ({"resting": {"idle"}}, "unknown state 'idle' in resting"),
        ({"ends_by": {**BOUNDS, Other.GONE: BOUNDS[READY]}}, "unknown state .* in ends_by"),
        ({"present": {"a": {Other.GONE}}}, "unknown state .* in present a"),
        ({"present": {"a": set()}}, "column a is present in no state"),
        (
            {"moves": with_move(move("lose", out_of=[RUNNING], to=Other.GONE))},
            "unknown state .* in move lose",
        ),
        (
            {"moves": with_move(move("again", out_of=[READY], to=READY))},
            "move again goes from ready to the same state",
        ),
        (
            {"moves": with_move(move("complete", out_of=[RUNNING], to=FAILED))},
            "move complete is declared twice out of running",
        ),
        (
            {"moves": with_move(move("complete", out_of=[RUNNING], to=SUCCEEDED))},
            "move complete is declared twice out of running",
        ),
        ({"moves": with_move(move("lost", out_of=[], to=FAILED))}, "move lost starts nowhere"),
        ({"moves": with_move(move("a b", out_of=[READY], to=FAILED))}, "'a b' is not a plain"),
        ({"table": "tasks; drop"}, "is not a plain lower-case word"),
        ({"column": "State"}, "'State' is not a plain lower-case word"),
        ({"code": "task invalid'"}, "is not a code"),
        ({"table": "t" * 60}, "PostgreSQL would cut the name"),
    ],
)
def test_a_declaration_that_cannot_be_right_does_not_import(changes: dict[str, Any], complaint: str) -> None:
    with pytest.raises(ValueError, match=f"machine TASK: .*{complaint}"):
        declare(**changes)


@pytest.mark.contract("W21")
def test_states_that_only_lead_to_each_other_are_refused() -> None:
    class Loop(StrEnum):
        A = "a"
        B = "b"

    with pytest.raises(ValueError, match="no way leads from state a to an end"):
        Machine(
            name="LOOP",
            table="loops",
            states=Loop,
            initial={Loop.A},
            moves=[
                move("go", out_of=[Loop.A], to=Loop.B),
                move("back", out_of=[Loop.B], to=Loop.A),
            ],
            ends_by={Loop.A: Bound("W1", "ends_at"), Loop.B: Bound("W1", "ends_at")},
        )


@pytest.mark.contract("K3")
def test_the_constraints_tie_states_to_their_columns() -> None:
    assert TASK.constraints() == {
        "tasks_state_known": ("state in ('pending', 'ready', 'running', 'succeeded', 'failed', 'cancelled')"),
        "tasks_leased_until_present": "(state in ('running')) = (leased_until is not null)",
        "tasks_finished_at_present": ("(state in ('succeeded', 'failed', 'cancelled')) = (finished_at is not null)"),
    }


@pytest.mark.contract("K3")
def test_the_guard_lists_the_legal_pairs_in_its_when_clause() -> None:
    sql = TASK.guard_sql("depot")

    assert sql.endswith(
        """\
create trigger tasks_state_moves
before update of state on depot.tasks
for each row
when (((old.state, new.state) in (('pending', 'cancelled'), ('pending', 'ready'), \
('ready', 'cancelled'), ('ready', 'running'), ('running', 'cancelled'), ('running', 'failed'), \
('running', 'ready'), ('running', 'succeeded'))) is not true)
execute function depot.refuse_move('TASK_INVALID_TRANSITION', 'state', 'id');

create trigger tasks_state_births
before insert on depot.tasks
for each row
when ((new.state in ('pending', 'ready')) is not true)
execute function depot.refuse_move('TASK_INVALID_TRANSITION', 'state', 'id');
"""
    )
    for name, expression in TASK.constraints().items():
        assert f"alter table depot.tasks add constraint {name}\n    check ({expression});" in sql


def test_the_refusing_function_is_in_the_schema_asked_for() -> None:
    assert "create function depot.refuse_move()" in machine.refuse_sql("depot")
    assert "errcode = 'FM001'" in machine.refuse_sql()


def test_the_diagram_shows_every_move_and_marks_repairs() -> None:
    assert (
        TASK.mermaid()
        == """\
stateDiagram-v2
    [*] --> pending
    [*] --> ready
    pending --> ready: promote
    pending --> cancelled: cancel
    ready --> running: claim
    ready --> cancelled: cancel
    running --> ready: retry, reap (repair)
    running --> succeeded: complete
    running --> failed: fail
    running --> cancelled: cancel
    succeeded --> [*]
    failed --> [*]
    cancelled --> [*]
"""
    )
