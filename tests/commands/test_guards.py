"""Every statement of commands against every state, fence and tenant: what it must not touch, it does not (K3, K4, K12)."""

from datetime import timedelta

import pytest

from ferryman.commands.model import End
from ferryman.commands.rules import ends
from ferryman.commands.states import ASYNC_TASK, COMMAND, AsyncTaskStatus, CommandStatus
from ferryman.commands.store import async_tasks, inbox, reads
from ferryman.commands.store.async_tasks import Step, Word
from ferryman.kernel import ids
from ferryman.kernel.pool import Session
from ferryman.tasks.states import RUNNING, TASK
from ferryman.testing import plant
from tests.commands.plants import plant_async, plant_command

PAST = "2020-01-01T00:00:00Z"


async def statuses(tx: Session, table: str) -> list[str]:
    return [row["status"] for row in await tx.fetch(f"select status from ferryman.{table} order by id")]


@pytest.mark.contract("K3", "C7")
async def test_only_what_lives_is_settled_and_the_rules_word_holds_only_past_the_deadline(tx: Session) -> None:
    for status in AsyncTaskStatus:
        for late in (False, True):
            on_time = await plant_async(tx, status)
            past = await plant_async(tx, status, deadline_at=PAST)
            done: list[End] = [ends.failed(id, "NO", "no") for id in (on_time, past)]

            rows = await async_tasks.settle(tx, done, [ids.new_id(), ids.new_id()], late=late)

            expected = set() if status in ASYNC_TASK.terminal else {past} if late else {on_time, past}
            assert {row["id"] for row in rows} == expected


@pytest.mark.contract("K3", "C7")
async def test_only_commands_that_live_are_worked_on_or_ended(tx: Session) -> None:
    for status in CommandStatus:
        command = await plant_command(tx, status)
        before = await tx.fetch("select * from ferryman.command_inbox where id = $1", command)

        rows = await async_tasks.process(tx, [Step(command, 1, 0, 0, 1, "NO", "no")], [], [])

        after = await tx.fetch("select * from ferryman.command_inbox where id = $1", command)
        assert bool(rows) == (status in COMMAND.live)
        assert (before == after) == (status in COMMAND.terminal)
    for status in CommandStatus:
        command, late = await plant_command(tx, status), await plant_command(tx, status, deadline_at=PAST)
        by_rule = await async_tasks.fail(tx, [command, late], to="FAILED", code="NO", reason="no", late=True)
        by_hand = await async_tasks.fail(tx, [command], to="FAILED", code="NO", reason="no")
        live = status in COMMAND.live
        assert [[row["id"] for row in rows] for rows in (by_rule, by_hand)] == (
            [[late], [command]] if live else [[], []]
        )


@pytest.mark.contract("K3")
async def test_a_command_is_finished_only_if_it_has_begun_and_asked_for_nothing(tx: Session) -> None:
    bare = await plant_command(tx, CommandStatus.PROCESSING)
    others = [
        await plant_command(tx, CommandStatus.PROCESSING, tasks=1),
        await plant_command(tx, CommandStatus.RECEIVED),
        await plant_command(tx, CommandStatus.FAILED),
    ]

    assert await async_tasks.finish(tx, [bare, *others]) == [bare]


@pytest.mark.contract("K4", "C6")
async def test_only_the_current_claim_of_the_right_task_is_mirrored(tx: Session) -> None:
    task = await plant(tx, TASK, RUNNING, epoch=7, attempt=2)
    other = await plant(tx, TASK, RUNNING, epoch=7)
    ended = await plant_async(tx, "FAILED", task=task)
    waiting, running = await plant_async(tx, "PENDING", task=task), await plant_async(tx, "RUNNING", task=task)

    stale = await async_tasks.mirror(
        tx, [Word(task, 6, running, 50), Word(other, 7, running, 50), Word(task, 7, ended, 50)]
    )
    heard = await async_tasks.mirror(tx, [Word(task, 7, waiting, 10), Word(task, 7, running, None)])
    await tx.fetch(
        "update ferryman.tasks set state = 'cancelled', finished_at = now(), leased_until = null, lease_owner = null"
        " where id = $1",
        task,
    )
    gone = await async_tasks.mirror(tx, [Word(task, 7, running, 99)])

    rows = await tx.fetch("select status, progress, retry_count from ferryman.async_tasks order by id")
    assert (stale, heard, gone) == (0, 2, 0)
    assert [(row["status"], float(row["progress"]), row["retry_count"]) for row in rows] == [
        ("FAILED", 0, 0), ("RUNNING", 10, 1), ("RUNNING", 0, 1),
    ]  # fmt: skip


@pytest.mark.contract("K12", "C5")
async def test_a_result_and_a_progress_find_what_lives_of_their_own_command_and_tenant(tx: Session) -> None:
    command, another = await plant_command(tx, "PROCESSING"), await plant_command(tx, "PROCESSING")
    await plant_async(tx, "COMPLETED", triggered_by_command_id=command, task_type="A")
    await plant_async(tx, "RUNNING", triggered_by_command_id=another, task_type="A")
    await plant_async(tx, "RUNNING", triggered_by_command_id=command, task_type="AB")
    meant = await plant_async(tx, "PENDING", triggered_by_command_id=command, task_type="A.B")

    found = await async_tasks.match(tx, command, tenant="default", type="A")
    theirs = await async_tasks.match(tx, command, tenant="other", type="A")
    inside = await plant_async(tx, "RUNNING", task=ids.new_id())

    assert (found, theirs) == (meant, None)
    assert await async_tasks.progress(tx, meant, tenant="default", percent=5)
    for id, tenant in ((meant, "other"), (inside, "default")):
        assert not await async_tasks.progress(tx, id, tenant=tenant, percent=5)
    assert await reads.get(tx, meant, tenant="other") is None
    assert await inbox.get(tx, command, tenant="other") is None


@pytest.mark.contract("C12")
async def test_only_what_has_ended_long_ago_is_forgotten(tx: Session) -> None:
    day = timedelta(days=1)
    await tx.fetch("update ferryman.clock_shift set shift = interval '10 years'")
    old = await plant_command(tx, "FAILED", finished_at=PAST)
    await plant_command(tx, "PROCESSING")
    await plant_command(tx, "COMPLETED", finished_at="2099-01-01T00:00:00Z")

    assert [row["id"] for row in await inbox.old(tx, 10, kept=day)] == [old]
    everything = [row["id"] for row in await tx.fetch("select id from ferryman.command_inbox")]
    assert await inbox.forget(tx, everything) == 2
    assert await statuses(tx, "command_inbox") == ["PROCESSING"]
