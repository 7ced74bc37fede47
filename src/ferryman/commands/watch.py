"""What is repaired: the watchdog's rules for commands (W14), acting through the orchestrator; and what must always be true."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from functools import partial

from ferryman.commands.orchestrator import Orchestrator
from ferryman.commands.rules import ends, names
from ferryman.commands.states import AsyncTaskStatus
from ferryman.commands.store import inbox, reads
from ferryman.kernel import errors
from ferryman.kernel.db import Row, Tx
from ferryman.kernel.doorbell import Doorbell
from ferryman.kernel.invariants import Invariant, declare
from ferryman.kernel.watchdog import Rule
from ferryman.tasks.intake import cancel
from ferryman.tasks.joins import Aftermath
from ferryman.tasks.ports import Owners

_HERE = "ferryman.commands"
LATE = "it had not ended at its deadline"

COMMAND_INVARIANTS: tuple[Invariant, ...] = (
    declare(
        _HERE,
        "commands_are_bounded",
        "Every live command and async task is listed with the rule that ends it, and when.",
    ),
    declare(_HERE, "open_is_true", "A live command counts what is owed to it.", deep=True),
    declare(_HERE, "ended_leaves_nothing", "No async task lives on when its command has ended.", deep=True),
    declare(_HERE, "command_and_log_agree", "A command's or async task's row and its last event agree.", deep=True),
    declare(_HERE, "command_ends_once", "A command or an async task ends once, and nothing follows.", deep=True),
    declare(
        _HERE, "async_tasks_have_one_tenant", "An async task, its command and its task have one tenant.", deep=True
    ),
    declare(_HERE, "completed_means_all", "A command is completed if and only if all its tasks are.", deep=True),
)


def rules(
    orchestrator: Orchestrator, owners: Owners, doorbell: Doorbell, *, interval: timedelta, unknown_after: timedelta
) -> list[Rule]:
    """Return the rules that end every command and async task whose time, worker or code is gone."""
    told = Aftermath()
    ring = partial(_ring, doorbell, told)

    async def end_commands(tx: Tx, late: Sequence[Row]) -> int:
        ended = await orchestrator.fail(
            tx, owners, [row["id"] for row in late],
            to=AsyncTaskStatus.FAILED, code=errors.CommandTimeout.code, reason=LATE, after=told, late=True,
        )  # fmt: skip
        return len(ended)

    async def end_tasks(tx: Tx, late: Sequence[Row]) -> int:
        done = [ends.failed(row["id"], errors.CommandTimeout.code, LATE) for row in late]
        return await orchestrator.close(tx, owners, done, after=told, late=True)

    async def settle_lost(tx: Tx, lost: Sequence[Row]) -> int:
        code = errors.AsyncTaskLost.code
        done = [
            ends.failed(row["id"], row["code"] or code, row["reason"] or "its task has ended or is gone")
            for row in lost
        ]
        return await orchestrator.close(tx, owners, done, after=told)

    async def end_unknown(tx: Tx, waiting: Sequence[Row]) -> int:
        return await _give_up(tx, owners, waiting, told)

    setting = "worker.watchdog_interval_seconds"
    return [
        Rule(
            name="W14", finds="a command past its deadline",
            does="ends it as failed / COMMAND_TIMEOUT, with its async tasks, and cancels what runs for them",
            setting=setting, every=interval, find=inbox.late, act=end_commands, only_bound=True, after=ring,
        ),
        Rule(
            name="W14-async", finds="an async task past its deadline",
            does="ends it as failed / COMMAND_TIMEOUT, and cancels the task that runs for it",
            setting=setting, every=interval, find=reads.late, act=end_tasks, only_bound=True, after=ring,
        ),
        Rule(
            name="W14-lost", finds="an async task whose task has ended or is gone",
            does="ends it as failed, with what its task said",
            setting=setting, every=interval, find=partial(reads.lost, patience=interval), act=settle_lost, after=ring,
        ),
        Rule(
            name="W14-unknown", finds="a command, a result or a capability that waits and that no living worker knows",
            does="cancels its task as COMMAND_UNKNOWN_TYPE or CAPABILITY_UNKNOWN; the normal path ends what waits for it",
            setting="commands.unknown_after_seconds", every=interval,
            find=partial(inbox.unknown, patience=unknown_after), act=end_unknown, after=ring,
        ),
    ]  # fmt: skip


def retention(*, kept: timedelta) -> list[Rule]:
    """Return the rules by which finished commands leave, and async tasks that have none."""

    async def forget(tx: Tx, past: Sequence[Row]) -> int:
        return await inbox.forget(tx, [row["id"] for row in past])

    async def forget_alone(tx: Tx, past: Sequence[Row]) -> int:
        return await inbox.forget_alone(tx, [row["id"] for row in past])

    rule = partial(Rule, setting="worker.watchdog_interval_seconds", every=timedelta(minutes=1))
    return [
        rule(
            name="C12", finds="a command that ended longer ago than commands are kept",
            does="deletes it, with its async tasks", find=partial(inbox.old, kept=kept), act=forget,
        ),
        rule(
            name="C12-alone", finds="an async task without a command that ended longer ago than commands are kept",
            does="deletes it", find=partial(inbox.old_alone, kept=kept), act=forget_alone,
        ),
    ]  # fmt: skip


async def _give_up(tx: Tx, owners: Owners, waiting: Sequence[Row], told: Aftermath) -> int:
    """Cancel what nobody knows; a route that nobody knows leads nowhere any more."""
    routes = [row["name"].removeprefix(names.RESULT) for row in waiting if row["name"].startswith(names.RESULT)]
    if routes:
        await inbox.forget_routes(tx, sorted(set(routes)))
    # All at once, in the one order of commands: name by name they would be locked in another.
    await owners.lock(tx, [(row["callback"], row["callback_ref"]) for row in waiting])
    acted = 0
    for name in sorted({row["name"] for row in waiting}):
        some = [row for row in waiting if row["name"] == name]
        owed = [(row["callback"], row["callback_ref"]) for row in some]
        code, reason = _unknown(name, some[0]["queue"])
        rows = await cancel.end(
            tx, owners, [row["id"] for row in some], code=code, reason=reason, owed=owed, after=told
        )
        acted += len(rows)
    return acted


def _unknown(name: str, queue: str) -> tuple[str, str]:
    kind, _, type = name.partition(":")
    if f"{kind}:" == names.CAPABILITY:
        return errors.CapabilityUnknown.code, f"no living worker has the capability {type} in the queue {queue}"
    return errors.CommandUnknownType.code, f"no living worker has @app.on_{kind}({type!r}) in the queue {queue}"


def _ring(doorbell: Doorbell, told: Aftermath, found: Sequence[Row]) -> None:
    """Ring for what can run now, for what was cancelled, and for whoever waits for these ends."""
    cancelled, told.cancelled, lanes, told.lanes = told.cancelled, [], told.lanes, []
    if lanes:
        doorbell.ring("ready", lanes)
    if cancelled:
        doorbell.ring("cancel", [str(id) for id in cancelled])
    doorbell.ring("done", [str(row["id"]) for row in found] + [str(id) for id in cancelled])
