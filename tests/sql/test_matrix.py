"""Every statement that moves a task, against every state a task can be in; and the guard of the database against all pairs."""

from typing import Any
from uuid import UUID, uuid4

import pytest

from ferryman.kernel import errors
from ferryman.kernel.pool import Session
from ferryman.tasks.states import PENDING, READY, RUNNING, SUCCEEDED, TASK, TaskState
from ferryman.testing import plant, state_of
from tests.sql.moves import ACTS, EPOCH, OTHER, OWNER, SOUND, TEMPTING, Act, renew

STATES = list(TaskState)
# A ready row that waits for its time is let in by the sweep that promotes, and stays ready: that is no move (test_guards).
LET_IN = ("promote", READY)
LEGAL = [pytest.param(act, state, id=f"{act.name}-{state}") for act in ACTS for state in STATES if act.applies(state)]
ILLEGAL = [
    pytest.param(act, state, id=f"{act.name}-{state}")
    for act in ACTS
    for state in STATES
    if not act.applies(state) and (act.name, state) != LET_IN
]
FENCED = [act for act in ACTS if act.fenced]

DROP_CHECKS = """
do $$ declare rule record; begin
    for rule in select conname from pg_constraint where conrelid = 'ferryman.tasks'::regclass and contype = 'c' loop
        execute format('alter table ferryman.tasks drop constraint %I', rule.conname);
    end loop;
end $$
"""


@pytest.fixture
async def unchecked(given: Session) -> Session:
    """A transaction in which a row may look claimed, due and leased at once, whatever its state."""
    await given.execute(DROP_CHECKS)
    return given


async def row_of(tx: Session, id: UUID) -> dict[str, Any]:
    [row] = await tx.fetch("select to_jsonb(task) - 'updated_at' as row from ferryman.tasks as task where id = $1", id)
    return dict(row)  # type: ignore[call-overload, no-any-return]  # a record has keys


async def events_of(tx: Session, id: UUID) -> list[tuple[Any, ...]]:
    rows = await tx.fetch(
        "select from_state, to_state, attempt, reason_code, reason_message, tenant, kind, subject_name"
        " from ferryman.events where subject = $1 order by id",
        id,
    )
    return [tuple(row) for row in rows]  # type: ignore[arg-type]  # a record is a sequence


@pytest.mark.contract("T2", "T13", "K3", "K4", "K6")
@pytest.mark.parametrize(("act", "state"), LEGAL)
async def test_a_declared_move_happens_and_is_told_once(given: Session, act: Act, state: TaskState) -> None:
    columns = SOUND[state] | dict(act.more)
    task = await plant(given, TASK, state, task_id="mail_1", **columns)

    assert await act.act(given, task)

    attempt = columns.get("attempt", 1)
    assert await state_of(given, task) == act.to
    assert await events_of(given, task) == [(state, act.to, attempt, act.code, act.reason, "default", "task", "mail_1")]


@pytest.mark.contract("T2", "K3")
@pytest.mark.parametrize(("act", "state"), ILLEGAL)
async def test_an_undeclared_move_touches_nothing_and_is_not_told(
    unchecked: Session, act: Act, state: TaskState
) -> None:
    task = await plant(unchecked, TASK, state, **TEMPTING | dict(act.more))
    before = await row_of(unchecked, task)

    assert not await act.act(unchecked, task)

    assert await row_of(unchecked, task) == before
    assert await events_of(unchecked, task) == []


@pytest.mark.contract("K4", "T7")
@pytest.mark.parametrize(
    "held", [{"epoch": EPOCH + 1}, {"epoch": EPOCH - 1}, {"lease_owner": OTHER}], ids=lambda held: next(iter(held))
)
@pytest.mark.parametrize("act", [act for act in FENCED if act.name != "reclaim"], ids=lambda act: act.name)
async def test_a_stale_holder_moves_nothing(given: Session, act: Act, held: dict[str, Any]) -> None:
    task = await plant(given, TASK, RUNNING, **SOUND[RUNNING] | held)
    before = await row_of(given, task)

    assert not await act.act(given, task)

    assert await row_of(given, task) == before
    assert await events_of(given, task) == []


@pytest.mark.contract("K5")
async def test_an_owner_hands_back_its_own_tasks_only(given: Session) -> None:
    [reclaim] = [act for act in ACTS if act.name == "reclaim"]
    task = await plant(given, TASK, RUNNING, **SOUND[RUNNING] | {"lease_owner": OTHER})

    assert not await reclaim.act(given, task)

    assert await state_of(given, task) == RUNNING
    assert await events_of(given, task) == []


@pytest.mark.contract("K5", "T14")
@pytest.mark.parametrize("state", STATES)
async def test_a_lease_is_renewed_only_while_the_task_is_held(unchecked: Session, state: TaskState) -> None:
    task = await plant(unchecked, TASK, state, **TEMPTING)
    before = await row_of(unchecked, task)

    renewed = await renew(unchecked, task)

    assert renewed == ({task: True} if state is RUNNING else {})
    assert (await row_of(unchecked, task) != before) is (state is RUNNING)
    assert await state_of(unchecked, task) == state
    assert await events_of(unchecked, task) == []


@pytest.mark.contract("K4", "K5")
@pytest.mark.parametrize(
    "held", [{"epoch": EPOCH + 1}, {"epoch": EPOCH - 1}, {"lease_owner": OTHER}], ids=lambda held: next(iter(held))
)
async def test_a_stale_holder_renews_nothing(unchecked: Session, held: dict[str, Any]) -> None:
    task = await plant(unchecked, TASK, RUNNING, **SOUND[RUNNING] | held)
    before = await row_of(unchecked, task)

    assert await renew(unchecked, task) == {}

    assert await row_of(unchecked, task) == before


# The guard of the database, whoever writes.


async def refused(tx: Session, sql: str, *args: Any) -> errors.InvalidTransition | None:
    try:
        async with tx.transaction():
            await tx.fetch(sql, *args)
    except errors.InvalidTransition as refusal:
        return refusal
    return None


@pytest.mark.contract("K3", "T2", "K20")
@pytest.mark.parametrize("out_of", STATES)
@pytest.mark.parametrize("to", STATES)
async def test_the_database_refuses_exactly_the_undeclared_moves(
    unchecked: Session, out_of: TaskState, to: TaskState
) -> None:
    task = await plant(unchecked, TASK, out_of)

    refusal = await refused(unchecked, "update ferryman.tasks set state = $2 where id = $1", task, to.value)

    if (out_of, to) in TASK.legal:
        assert refusal is None
    else:
        assert refusal is not None
        assert refusal.code == "TASK_INVALID_TRANSITION"
        assert refusal.details == {"from": out_of, "to": to, "id": str(task), "table": "tasks"}


@pytest.mark.contract("K3", "T1")
@pytest.mark.parametrize("state", STATES)
async def test_the_database_refuses_a_birth_in_any_but_an_initial_state(unchecked: Session, state: TaskState) -> None:
    task = uuid4()

    refusal = await refused(
        unchecked,
        "insert into ferryman.tasks (id, state, name, payload, due_at, ends_at, created_at, updated_at, timeout_ms,"
        " max_retries) select $1, $2, 'mail', '{}', now, now, now, now, 1, 1 from ferryman.clock() as now",
        task,
        state.value,
    )

    if state in TASK.initial:
        assert refusal is None
    else:
        assert refusal is not None
        assert refusal.details == {"from": None, "to": state, "id": str(task), "table": "tasks"}


@pytest.mark.contract("K3")
@pytest.mark.parametrize("state", ["", "READY", "done", None])
async def test_the_database_refuses_a_state_that_is_not_declared(unchecked: Session, state: str | None) -> None:
    task = await plant(unchecked, TASK, READY)

    refusal = await refused(unchecked, "update ferryman.tasks set state = $2 where id = $1", task, state)

    assert refusal is not None
    assert refusal.details["to"] == state


@pytest.mark.contract("K3")
async def test_a_write_that_leaves_the_state_alone_is_not_guarded(given: Session) -> None:
    task = await plant(given, TASK, SUCCEEDED)

    assert await refused(given, "update ferryman.tasks set priority = 1 where id = $1", task) is None


@pytest.mark.contract("K3", "T1")
def test_the_declaration_is_the_one_of_the_source() -> None:
    assert [state.value for state in TaskState] == ["pending", "ready", "running", "succeeded", "failed", "cancelled"]
    assert {(a.value, b.value) for a, b in TASK.legal} == {
        ("pending", "ready"), ("ready", "running"), ("running", "succeeded"), ("running", "failed"), ("running", "ready"),
        ("pending", "cancelled"), ("ready", "cancelled"), ("running", "cancelled"),
    }  # fmt: skip
    assert TASK.terminal == {TaskState.SUCCEEDED, TaskState.FAILED, TaskState.CANCELLED}
    assert set(TASK.initial) == {PENDING, READY}
    assert OWNER != OTHER
