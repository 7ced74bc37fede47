"""Each invariant of commands notices what it is there for: a violation is planted past every guard (K23)."""

import pytest

from ferryman.commands.watch import COMMAND_INVARIANTS
from ferryman.kernel import ids, invariants
from ferryman.kernel.pool import Session
from tests.commands.plants import plant_async, plant_command


async def broken(tx: Session) -> list[str]:
    return [each.name for each in await invariants.check(tx, COMMAND_INVARIANTS)]


async def tell(tx: Session, subject: object, kind: str, *states: str) -> None:
    for state in states:
        await tx.fetch(
            "insert into ferryman.events (at, subject, tenant, kind, to_state) values (now(), $1, 'default', $2, $3)",
            subject, kind, state,
        )  # fmt: skip


@pytest.mark.contract("K23")
async def test_each_invariant_is_broken_by_what_it_forbids_and_by_nothing_else(tx: Session) -> None:
    sound = await plant_command(tx, "PROCESSING", tasks=1)
    await plant_async(tx, "RUNNING", triggered_by_command_id=sound)
    assert await broken(tx) == []

    seen: list[str] = []

    async def forbidden(name: str) -> None:
        found = await broken(tx)
        seen.append(name)
        await tx.fetch("delete from ferryman.async_tasks where triggered_by_command_id is distinct from $1", sound)
        await tx.fetch("delete from ferryman.command_inbox where id <> $1", sound)
        assert found == [name]

    # There is no moment in which W14 would find either of them late.
    command = await plant_command(tx, "PROCESSING", tasks=1, deadline_at="infinity")
    await plant_async(tx, "RUNNING", triggered_by_command_id=command)
    await forbidden("commands_are_bounded")

    await plant_async(tx, "RUNNING", deadline_at="infinity")
    await forbidden("commands_are_bounded")

    command = await plant_command(tx, "PROCESSING", open=3)
    await plant_async(tx, "RUNNING", triggered_by_command_id=command)
    await forbidden("open_is_true")

    command = await plant_command(tx, "FAILED")
    await plant_async(tx, "RUNNING", triggered_by_command_id=command)
    await forbidden("ended_leaves_nothing")

    command = await plant_command(tx, "COMPLETED")
    await plant_async(tx, "FAILED", triggered_by_command_id=command)
    await forbidden("completed_means_all")

    command = await plant_command(tx, "FAILED")
    await plant_async(tx, "FAILED", triggered_by_command_id=command, tenant="other")
    await forbidden("async_tasks_have_one_tenant")

    command = await plant_command(tx, "FAILED")
    await tell(tx, command, "command", "RECEIVED", "PROCESSING")
    await forbidden("command_and_log_agree")

    await tell(tx, ids.new_id(), "async_task", "RUNNING", "FAILED", "COMPLETED")
    await forbidden("command_ends_once")

    assert {*seen} == {each.name for each in COMMAND_INVARIANTS}
