"""What the database itself refuses, and what only the orchestrator writes (C4, C8, C9, K3, K21)."""

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from ferryman.commands.states import ASYNC_TASK, COMMAND, AsyncTaskStatus, CommandStatus
from ferryman.kernel import errors, ids
from ferryman.kernel.pool import Database, Session
from tests.commands.plants import plant_async, plant_command

SOURCES = Path(__file__).resolve().parents[2] / "src" / "ferryman"
WRITES = re.compile(r"(insert\s+into|update|delete\s+from)\s+ferryman\.async_tasks\b", re.IGNORECASE)


@pytest.mark.contract("C8", "K3")
async def test_the_database_refuses_every_move_that_is_not_declared(tx: Session) -> None:
    """From whatever program it comes: each pair of states, of both machines."""
    for machine, plant in ((COMMAND, plant_command), (ASYNC_TASK, plant_async)):
        ends = {state: _columns(machine.table, state) for state in machine.states}
        for out_of in machine.states:
            for to in machine.states:
                id = await plant(tx, out_of)
                sets = ", ".join(f"{name} = {value}" for name, value in ends[to].items())
                move = f"update ferryman.{machine.table} set status = '{to}', {sets} where id = $1"
                if (out_of, to) in machine.legal:
                    await tx.fetch(move, id)
                    continue
                with pytest.raises(errors.InvalidTransition) as refused:
                    async with tx.transaction():
                        await tx.fetch(move, id)
                assert refused.value.code == machine.code


def _columns(table: str, state: str) -> dict[str, str]:
    if table == "command_inbox":
        ended = state in ("COMPLETED", "FAILED")
        return {
            "finished_at": "now()" if ended else "null", "open": "0" if ended else "1",
            "error_message": "'no'" if state == "FAILED" else "null",
        }  # fmt: skip
    return {
        "started_at": "now()", "completed_at": "now()" if state in ("COMPLETED", "FAILED", "CANCELLED") else "null",
        "result_data": "'{}'", "error_data": "'{}'",
    }  # fmt: skip


@pytest.mark.contract("C8", "K3")
@pytest.mark.parametrize(
    ("table", "states"), [("command_inbox", list(CommandStatus)), ("async_tasks", list(AsyncTaskStatus))]
)
async def test_a_row_is_born_in_an_initial_state_only(tx: Session, table: str, states: list[str]) -> None:
    machine: Any = COMMAND if table == "command_inbox" else ASYNC_TASK
    plant: Any = plant_command if table == "command_inbox" else plant_async
    for state in states:
        if state in machine.initial:
            await plant(tx, state, guarded=True)
            continue
        with pytest.raises(errors.InvalidTransition):
            async with tx.transaction():
                await plant(tx, state, guarded=True)


CHECKS: Mapping[str, tuple[str, dict[str, Any]]] = {
    "check_progress_range": ("RUNNING", {"progress": 100.01}),
    "check_progress_range ": ("RUNNING", {"progress": -0.01}),
    "check_retry_count_valid": ("RUNNING", {"retry_count": 4}),
    "check_retry_count_valid ": ("RUNNING", {"retry_count": -1}),
    "check_max_retries_non_negative": ("RUNNING", {"max_retries": -1, "retry_count": -2}),
    "check_running_has_started": ("RUNNING", {"started_at": None}),
    "check_completed_has_timestamp": ("FAILED", {"completed_at": None}),
    "check_completed_has_result": ("COMPLETED", {"result_data": None}),
    "check_failed_has_error": ("FAILED", {"error_data": None}),
    "async_tasks_status_known": ("DONE", {}),
}


@pytest.mark.contract("C8")
@pytest.mark.parametrize("check", CHECKS)
async def test_the_constraints_of_the_source_hold(tx: Session, check: str) -> None:
    state, wrong = CHECKS[check]

    with pytest.raises(Exception, match="violates check constraint"):
        async with tx.transaction():
            await plant_async(tx, state, **wrong)

    [row] = await tx.fetch(
        "select count(*) as n from pg_constraint where conrelid = 'ferryman.async_tasks'::regclass and conname = $1",
        check.strip(),
    )
    assert row["n"] == 1


@pytest.mark.contract("C8", "K21")
async def test_a_command_without_anything_open_has_ended_and_the_other_way_round(tx: Session) -> None:
    for wrong in (0, -1):
        with pytest.raises(Exception, match="command_inbox_open_lives"):
            async with tx.transaction():
                await plant_command(tx, CommandStatus.PROCESSING, open=wrong)
    for table in ("command_inbox", "async_tasks"):
        [row] = await tx.fetch(
            "select attnotnull from pg_attribute where attrelid = $1::text::regclass and attname = 'deadline_at'",
            f"ferryman.{table}",
        )
        assert row["attnotnull"]


@pytest.mark.contract("C4")
def test_only_the_orchestrators_statements_write_async_tasks() -> None:
    writers = {
        str(file.relative_to(SOURCES))
        for file in [*SOURCES.rglob("*.sql"), *SOURCES.rglob("*.py")]
        if WRITES.search(file.read_text(encoding="utf-8")) and "migrations" not in file.parts
    }

    # The second list is what store/async_tasks.py loads, which the import contract gives to the orchestrator alone.
    loaded = re.findall(r'load\(_HERE, "([a-z_/]+)"\)', (SOURCES / "commands/store/async_tasks.py").read_text())
    # Retention deletes what has ended, with its command or alone.
    forgets = {"commands/sql/command_inbox/forget.sql", "commands/sql/async_tasks/forget.sql"}
    assert writers - forgets <= {f"commands/sql/{name}.sql" for name in loaded}
    assert {"commands/sql/async_tasks/settle.sql", "commands/sql/command_inbox/process.sql"} <= writers


@pytest.mark.contract("C9")
async def test_the_statistics_count_and_time_each_type_and_status(tx: Session) -> None:
    for seconds in (1, 2, 3, 10):
        await plant_async(
            tx, "COMPLETED", task_type="A", started_at="2030-01-01T00:00:00Z", completed_at=f"2030-01-01T00:00:{seconds:02}Z"
        )  # fmt: skip
    await plant_async(tx, "RUNNING", task_type="A")

    completed, running = await tx.fetch(
        "select * from ferryman.async_task_statistics where task_type = 'A' order by status"
    )

    assert (completed["count"], completed["mean_seconds"], completed["p50_seconds"]) == (4, 4.0, 2.5)
    assert (round(completed["p95_seconds"], 2), completed["max_seconds"]) == (8.95, 10.0)
    assert completed["latest_completed_at"].second == 10
    assert completed["latest_created_at"] is not None
    assert (running["count"], running["mean_seconds"], running["latest_completed_at"]) == (1, None, None)


HOT = {
    "command_inbox/lock": "command_inbox_pkey",
    "command_inbox/try_lock": "command_inbox_pkey",
    "async_tasks/try_lock": "async_tasks_pkey",
    "command_inbox/process": "command_inbox_pkey",
    "async_tasks/settle": "async_tasks_pkey",
    "async_tasks/match": "async_tasks_command",
    "async_tasks/mirror": "async_tasks_pkey",
    "command_inbox/fail": "async_tasks_command",
    "async_tasks/late": "async_tasks_ending",
    "command_inbox/late": "command_inbox_ending",
}


@pytest.mark.parametrize("name", HOT)
async def test_hot_statements_find_rows_by_their_keys(db: Database, name: str) -> None:
    """A plan made while the tables were empty must do for full ones."""
    from ferryman.kernel import db as kernel

    statement = kernel.load("ferryman.commands", name)
    async with db.transaction() as tx:
        await tx.fetch("set local plan_cache_mode = force_generic_plan")
        await tx.execute(f"prepare hot as {statement.sql()}")
        nulls = ", ".join(["null"] * len(statement.names))
        plan = "\n".join(row[0] for row in await tx.fetch(f"explain execute hot({nulls})"))

    assert HOT[name] in plan
    assert not re.search(r"Seq Scan on (command_inbox|async_tasks)", plan), plan


async def test_ids_of_commands_grow_with_time() -> None:
    assert ids.new_id() < ids.new_id()
