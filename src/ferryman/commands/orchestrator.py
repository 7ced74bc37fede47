"""The orchestrator: the only writer of async tasks, and of the commands that wait for them (C2, C4, C5, C7).

A command is worked on in steps. A step is the user's mapping, of the command itself or of a result, run as a task: it may
raise, block or return nonsense, and has a lease, a timeout and retries like any other work. What it returns is a plan, and
the plan is written in the transaction that settles its task: facts, async tasks, the tasks of their capabilities, and the
command's own move. The end of a capability's task ends its async task in the same way, counts it down in its command, and at
zero ends that. So there is no moment in which one of them is done and another is not, whoever dies, and each is written for
the whole set that is settled.

The order of locks is commands, then async tasks without one, then tasks; each by id.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from datetime import timedelta
from typing import Any
from uuid import UUID

from ferryman.commands.model import Asked, Completion, End, Fact, Plan
from ferryman.commands.rules import ends, names, plan
from ferryman.commands.states import AsyncTaskStatus
from ferryman.commands.store import async_tasks
from ferryman.commands.store.async_tasks import Start, Step
from ferryman.kernel import errors, faults, ids, payload, telemetry
from ferryman.kernel.db import Row, Tx
from ferryman.tasks.intake import cancel, create
from ferryman.tasks.joins import Aftermath
from ferryman.tasks.model import Draft, Ended, NewTask
from ferryman.tasks.ports import Owners
from ferryman.tasks.rules.request import NOTHING, Defaults
from ferryman.tasks.states import CANCELLED, SUCCEEDED
from ferryman.tasks.work.lanes import named

ANSWERED = "its result came from outside"
FIRST_STEP_CANCELLED = "its mapping was cancelled"

Word = async_tasks.Word
mirror = async_tasks.mirror
progress = async_tasks.progress


class Orchestrator:
    """Settles the ends of steps and of capabilities; `options` tells how tasks of a name are run."""

    def __init__(self, options: Callable[[str], Defaults], *, ends_after: timedelta) -> None:
        """Create tasks that wait no longer than their command may."""
        self._options = options
        self._ends_after = ends_after

    async def lock(self, tx: Tx, refs: Sequence[str]) -> None:
        """Lock the commands, and the async tasks that have none."""
        await self._lock(tx, [names.owed(ref) for ref in refs])

    async def _lock(self, tx: Tx, owed: Sequence[names.Owed]) -> None:
        await async_tasks.lock(tx, *_locked(owed))

    async def try_lock(self, tx: Tx, refs: Sequence[str]) -> Collection[str]:
        """Lock those of them that nobody else holds."""
        owed = {ref: names.owed(ref) for ref in refs}
        busy = await async_tasks.try_lock(tx, *_locked(owed.values()))
        return [ref for ref, to in owed.items() if (to.command or to.async_task) not in busy]

    async def settle(self, tx: Tx, ended: Sequence[Ended]) -> Sequence[str]:
        """Write what the ends of steps and of capabilities owe; answer with the lanes that have something to claim."""
        owed = [(names.owed(each.callback_ref or ""), each) for each in ended]
        steps = [(to.command, each) for to, each in owed if to.command is not None and to.async_task is None]
        done = [ends.of(each, to.async_task) for to, each in owed if to.async_task is not None]
        lanes: set[str] = set()
        if steps:
            lanes |= await self._process(tx, steps)
        if done:
            lanes |= (await self._close(tx, done))[1]
        return sorted(lanes)

    # Steps

    async def _process(self, tx: Tx, ended: Sequence[tuple[UUID, Ended]]) -> set[str]:
        plans = [(command, each, _planned(each)) for command, each in ended]
        starts = [
            (_start(command, asked, planned.session_id), planned, each.tenant)
            for command, each, planned in plans
            for asked in planned.messages
        ]
        facts: list[tuple[UUID, Fact]] = [(command, fact) for command, _, planned in plans for fact in planned.facts]
        rows = await async_tasks.process(tx, _summed(plans), [start for start, _, _ in starts], facts)
        faults.point("command.processed")
        born = {row["id"]: row for row in rows if row["kind"] == "async_task"}
        _count(row for row in rows if row["kind"] == "command")
        # Nothing was asked for, and nothing went wrong: there is no end that would end the command.
        bare = [
            command
            for command, each, planned in plans
            if each.name.startswith(names.COMMAND) and not planned.messages and planned.code is None
        ]
        if bare:
            telemetry.ended("command", "COMPLETED", None, len(await async_tasks.finish(tx, bare)))
        tasks = [
            _capability(start, planned, born[start.id], tenant=tenant)
            for start, planned, tenant in starts
            if start.task is not None and start.id in born
        ]
        return await self._create(tx, tasks)

    async def _create(self, tx: Tx, tasks: Sequence[NewTask]) -> set[str]:
        if not tasks:
            return set()
        await create.create(tx, [Draft(task, NOTHING) for task in tasks], ends_after=self._ends_after)
        telemetry.created("task", tasks[0].queue, len(tasks))
        return {named(task.queue, task.tenant) for task in tasks if task.scheduled_at is None}

    # Ends

    async def _close(self, tx: Tx, done: Sequence[End], *, late: bool = False) -> tuple[list[Row], set[str]]:
        follow_ups = [ids.new_id() for _ in done]
        rows = await async_tasks.settle(tx, done, follow_ups, late=late)
        faults.point("async_task.settled")
        _count(rows)
        moved = [row for row in rows if row["kind"] == "async_task"]
        tasks = [self._follow_up(row) for row in moved if row["follows"]]
        return moved, await self._create(tx, tasks)

    def _follow_up(self, row: Row) -> NewTask:
        given = {
            "async_task_id": str(row["id"]), "command_id": str(row["command"]), "type": row["type"],
            "task_type": row["task_type"], "session_id": row["session_id"],
            "input": payload.decode(row["input"] or "{}"), "result": payload.decode(row["result"]),
        }  # fmt: skip
        name = names.RESULT + row["type"]
        return step(
            row["follow_up"], row["command"], name, payload.encode(given), self._options(name), tenant=row["tenant"]
        )

    async def complete(self, tx: Tx, owners: Owners, end: End, *, tenant: str, after: Aftermath) -> Completion:
        """End one async task by a word from outside; the task that ran for it is cancelled."""
        known = (await async_tasks.parents(tx, [end.id], tenant=tenant)).get(end.id)
        if known is None:
            return Completion(None, changed=False, code=errors.AsyncTaskNotFound.code)
        await self._lock(tx, [names.Owed(known["command"], end.id)])
        return await self._answer(tx, owners, end, after)

    async def match(
        self,
        tx: Tx,
        owners: Owners,
        command: UUID,
        prefix: str,
        make: Callable[[UUID], End],
        *,
        tenant: str,
        after: Aftermath,
    ) -> Completion:
        """End the newest live async task of a command whose type begins with this one (C5)."""
        await self._lock(tx, [names.Owed(command, None)])
        found = await async_tasks.match(tx, command, tenant=tenant, type=prefix)
        if found is None:
            return Completion(None, changed=False, code=errors.AsyncTaskNotFound.code)
        return await self._answer(tx, owners, make(found), after)

    async def _answer(self, tx: Tx, owners: Owners, end: End, after: Aftermath) -> Completion:
        moved, lanes = await self._close(tx, [end])
        after.lanes += lanes
        if not moved:
            return Completion(end.id, changed=False, code=errors.AsyncTaskEnded.code)
        await self._stop(tx, owners, [row["task"] for row in moved], reason=end.reason or ANSWERED, after=after)
        return Completion(end.id, changed=True)

    async def close(self, tx: Tx, owners: Owners, done: Sequence[End], *, after: Aftermath, late: bool = False) -> int:
        """End async tasks that a rule found, with the tasks that ran for them."""
        known = await async_tasks.parents(tx, [each.id for each in done])
        await self._lock(tx, [names.Owed(row["command"], id) for id, row in known.items()])
        moved, lanes = await self._close(tx, done, late=late)
        after.lanes += lanes
        await self._stop(tx, owners, [row["task"] for row in moved], reason="its async task has ended", after=after)
        return len(moved)

    async def fail(
        self,
        tx: Tx,
        owners: Owners,
        commands: Sequence[UUID],
        *,
        to: AsyncTaskStatus,
        code: str,
        reason: str,
        after: Aftermath,
        late: bool = False,
    ) -> list[UUID]:
        """End commands as a whole, with all that they started; answer with those that were still live."""
        await self._lock(tx, [names.Owed(command, None) for command in commands])
        rows = await async_tasks.fail(tx, commands, to=to.value, code=code, reason=reason, late=late)
        await self._stop(tx, owners, [row["task"] for row in rows], reason=reason, after=after)
        ended = [row["id"] for row in rows if row["kind"] == "command"]
        telemetry.ended("command", "FAILED", code, len(ended))
        return ended

    async def _stop(
        self, tx: Tx, owners: Owners, tasks: Sequence[UUID | None], *, reason: str, after: Aftermath
    ) -> None:
        running = sorted({task for task in tasks if task is not None})
        if running:
            rows = await cancel.end(tx, owners, running, reason=reason, after=after)
            after.cancelled += [row["id"] for row in rows]

    async def start(self, tx: Tx, asked: Asked, *, tenant: str, deadline: float, after: Aftermath) -> UUID:
        """Start an async task that has no command."""
        given = Start(ids.new_id(), None, None if asked.outside else ids.new_id(), asked, payload.encode(asked.input))
        row = await async_tasks.start(tx, given, tenant=tenant, deadline=deadline)
        if given.task is not None:
            after.lanes += await self._create(tx, [_capability(given, Plan(), row, tenant=tenant)])
        return given.id


def _locked(owed: Collection[names.Owed]) -> tuple[list[UUID], list[UUID]]:
    """Return what is locked for ends that are owed: commands, and async tasks that have none."""
    commands = {each.command for each in owed if each.command is not None}
    alone = {each.async_task for each in owed if each.command is None and each.async_task is not None}
    return sorted(commands), sorted(alone)


def step(id: UUID, command: UUID, name: str, given: str, options: Defaults, *, tenant: str, **more: Any) -> NewTask:
    """Return the task that runs a mapping for a command."""
    return NewTask(
        id, tenant, options.queue, name, given, options.priority, options.timeout_ms, options.max_retries, None, None,
        None, None, None, None, names.CALLBACK, names.ref(command), more.get("traceparent"), options.backoff,
    )  # fmt: skip


def _start(command: UUID, asked: Asked, session_id: str | None) -> Start:
    given = payload.encode({"session_id": session_id, **asked.input})
    return Start(ids.new_id(), command, None if asked.outside else ids.new_id(), asked, given)


def _capability(start: Start, planned: Plan, row: Row, *, tenant: str) -> NewTask:
    """Return the task that runs a capability for an async task."""
    asked = start.asked
    given = payload.encode({
        "async_task_id": start.id, "command_id": start.command, "type": asked.type, "task_type": asked.task_type,
        "session_id": planned.session_id, "later": asked.delay_seconds > 0, "input": asked.input,
    })  # fmt: skip
    due = row["created_at"] + timedelta(seconds=asked.delay_seconds) if asked.delay_seconds else None
    assert start.task is not None
    return NewTask(
        start.task, tenant, asked.queue, names.CAPABILITY + asked.task_type, given, asked.priority, asked.timeout_ms,
        asked.max_retries, None if due is None else "at", due, row["deadline_at"], None, None, None,
        names.CALLBACK, names.ref(start.command, start.id), planned.traceparent, asked.backoff,
    )  # fmt: skip


def _planned(ended: Ended) -> Plan:
    """Return what a step came to, whatever its task came to."""
    if ended.state is SUCCEEDED:
        told: Mapping[str, Any] = payload.decode(ended.result or "{}")
        return plan.from_json(told)
    if ended.code == errors.TaskInvalidResult.code:
        return Plan(code=errors.CommandInvalidMapping.code, reason=ended.reason or "its answer cannot be stored")
    cancelled = ended.state is CANCELLED and ended.code is None
    code = errors.CommandCancelled.code if cancelled else ended.code or errors.CommandFailed.code
    return Plan(code=code, reason=ended.reason or (FIRST_STEP_CANCELLED if cancelled else code))


def _summed(plans: Sequence[tuple[UUID, Ended, Plan]]) -> list[Step]:
    """Sum up the steps of each command: several may have ended together."""
    summed: dict[UUID, Step] = {}
    for command, ended, planned in plans:
        failed = planned.code is not None
        one = Step(command, 1, len(planned.messages), ended.attempt - 1, int(failed), planned.code, planned.reason)
        before = summed.get(command)
        summed[command] = one if before is None else Step(
            command, before.steps + 1, before.messages + one.messages, max(before.retries, one.retries),
            before.failed + one.failed, before.code or one.code, before.reason or one.reason,
        )  # fmt: skip
    return list(summed.values())


def _count(rows: Any) -> None:
    for (kind, status), count in Counter((row["kind"], row["status"]) for row in rows).items():
        telemetry.ended(kind, status, None, count)
