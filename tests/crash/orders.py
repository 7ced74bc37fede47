"""Commands that the ships work on, and what must be true of them at the end."""

import asyncio
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from ferryman import Command, Context, Fact, Ferryman, Message, Result
from ferryman.app import wiring
from ferryman.kernel import invariants
from ferryman.kernel.pool import Database
from tests.crash import judge

LEGS = ("Leg.Load", "Leg.Cross", "Leg.Unload")
GATE_SECONDS = 0.01


def direct(app: Ferryman, write: Callable[..., None]) -> None:
    """Register a command with three capabilities, one of which has a follow-up."""

    @app.on_command("Voyage.Request", backoff=0.05)
    async def request(command: Command) -> list[Message]:
        return [Message(leg, {"gate": command.payload.get("gate")}, max_retries=20) for leg in LEGS]

    async def sail(ctx: Context, gate: str | None = None) -> dict[str, int]:
        told = {"task": str(ctx.id), "epoch": ctx.task.epoch, "attempt": ctx.attempt}
        write("start", **told)
        while gate is not None and not Path(gate).exists():  # noqa: ASYNC110 - opened by another process
            await asyncio.sleep(GATE_SECONDS)
        write("end", **told)
        return {"epoch": ctx.task.epoch}

    for leg in LEGS:
        app.capability(leg, backoff=0.05)(sail)

    @app.on_result("Leg.Load.Completed", backoff=0.05)
    async def loaded(result: Result) -> list[Message | Fact]:
        return [Fact("Voyage.Loaded"), Message("Leg.Check", {}, max_retries=20)]

    app.capability("Leg.Check", backoff=0.05)(sail)


async def send(url: str, count: int, *, deadline: float | None = None, **payload: Any) -> list[str]:
    """Send commands; return the ids that were acknowledged."""
    async with Ferryman(url, tasks={"max_retries": 20}) as app:
        sent = await asyncio.gather(
            *(app.commands.send("Voyage.Request", payload, deadline=deadline) for _ in range(count))
        )
        return [str(each.id) for each in sent]


async def all_ended(url: str) -> None:
    """Wait until no command is live, and no task."""
    await judge.nothing_of(
        url,
        "select id, status from ferryman.command_inbox where finished_at is null"
        " union all select id, state from ferryman.tasks where finished_at is null",
    )


async def done_once(url: str, acknowledged: Sequence[str]) -> None:
    """Assert that every command is completed, and that nothing of it was done, started or told twice."""
    commands = await judge.read(url, "select id::text, status, tasks, failed from ferryman.command_inbox")
    assert {row["id"]: tuple(row)[1:] for row in commands} == {id: ("COMPLETED", 4, 0) for id in acknowledged}
    started = await judge.read(
        url,
        "select triggered_by_command_id::text as command, array_agg(task_type) as types, "
        "array_agg(distinct status) as statuses from ferryman.async_tasks group by 1",
    )
    assert {row["command"]: (sorted(row["types"]), row["statuses"]) for row in started} == {
        id: (sorted([*LEGS, "Leg.Check"]), ["COMPLETED"]) for id in acknowledged
    }
    told = await judge.read(
        url,
        "select subject::text as command, array_agg(subject_name) as names from ferryman.events"
        " where kind = 'fact' group by 1",
    )
    facts = sorted(["Voyage.Requested", "Voyage.Loaded", "Leg.Checked", *(f"{leg}.Completed" for leg in LEGS)])
    assert {row["command"]: sorted(row["names"]) for row in told} == dict.fromkeys(acknowledged, facts)
    [tasks] = await judge.read(url, "select count(*) as n from ferryman.tasks")
    assert tasks["n"] == len(acknowledged) * (1 + 3 + 1 + 1)
    db = Database(url)
    await db.open()
    try:
        async with db.session() as tx:
            assert await invariants.check(tx, wiring.invariants()) == []
    finally:
        await db.close()
