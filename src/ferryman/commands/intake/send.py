"""Commands come in: idempotent, in sets, each with the task that will run its mapping (C1)."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta
from uuid import UUID

from ferryman.commands import orchestrator
from ferryman.commands.model import CommandRecord, NewCommand, Sent
from ferryman.commands.rules import names, request, types
from ferryman.commands.states import CommandStatus
from ferryman.commands.store import inbox
from ferryman.kernel import errors, faults, ids, payload
from ferryman.kernel.db import Row, Tx
from ferryman.tasks.intake import create
from ferryman.tasks.model import Draft
from ferryman.tasks.rules.request import NOTHING, Defaults

Answer = Sent | errors.CommandDuplicate


def draft(
    command_type: object,
    given: object,
    *,
    tenant: str,
    session_id: object,
    idempotency_key: object,
    scope: object,
    deadline: float,
    limit: int,
    traceparent: str | None,
) -> NewCommand:
    """Check a request, and make the command that it asks for."""
    type = request.check_type(command_type, "command_type")
    return NewCommand(
        id=ids.new_id(),
        tenant=tenant,
        scope=types.scope_of(type) if scope is None else request.check_type(scope, "scope"),
        command_type=type,
        session_id=request.check_key(session_id, "session_id"),
        idempotency_key=request.check_key(idempotency_key, "idempotency_key"),
        payload=payload.encode({} if given is None else given, limit=limit, error=errors.CommandInvalidRequest),
        deadline_seconds=deadline,
        task=ids.new_id(),
        traceparent=traceparent,
    )


async def send(
    tx: Tx, commands: Sequence[NewCommand], options: Sequence[Defaults], *, ends_after: timedelta
) -> list[Answer]:
    """Receive commands, and answer for each with what exists now: received, met, or in conflict (K11)."""
    # By key: of two sets that share keys, one waits for the other's first and then for no more.
    order = sorted(range(len(commands)), key=lambda n: commands[n].idempotency_key or "")
    born = {row["id"]: row for row in await inbox.receive(tx, [commands[n] for n in order])}
    tasks = [_step(commands[n], options[n], born) for n in order if commands[n].id in born]
    if tasks:
        await create.create(tx, tasks, ends_after=ends_after)
    faults.point("command.sent")
    answers: dict[int, Answer] = {
        n: Sent(_newborn(each, born[each.id]["created_at"], born[each.id]["deadline_at"]), idempotent_hit=False)
        for n, each in enumerate(commands)
        if each.id in born
    }
    waiting = [n for n in order if n not in answers]
    if waiting:
        met = await inbox.met(tx, [commands[n] for n in waiting])
        for place, n in enumerate(waiting):
            answers[n] = _compared(commands[n], met.get(place))
    return [answers[n] for n in range(len(commands))]


def _step(command: NewCommand, options: Defaults, born: dict[UUID, Row]) -> Draft:
    given = f'{{"command_id":"{command.id}","type":"{command.command_type}","session_id":'
    given += f'{payload.encode(command.session_id)},"payload":{command.payload}}}'
    name = names.COMMAND + command.command_type
    task = orchestrator.step(
        command.task, command.id, name, given, options, tenant=command.tenant, traceparent=command.traceparent
    )
    return Draft(task._replace(ends_at=born[command.id]["deadline_at"]), NOTHING)


def _compared(command: NewCommand, met: CommandRecord | None) -> Answer:
    if met is None:
        return errors.CommandDuplicate("A command with this key exists and cannot be shown.", conflict_fields=["id"])
    fields = request.conflicts(command, met)
    if fields:
        message = f"The command {met.id} has this idempotency key and differs in {', '.join(fields)}."
        return errors.CommandDuplicate(message, conflict_fields=fields, existing=met.as_json())
    # Our own id, made here: this very send was sent twice because its first answer was lost.
    return Sent(met, idempotent_hit=met.id != command.id)


def _newborn(command: NewCommand, born: datetime, deadline: datetime) -> CommandRecord:
    return CommandRecord(
        command.id, command.tenant, command.scope, command.command_type, command.session_id, command.idempotency_key,
        CommandStatus.RECEIVED, 0, 1, 0, 0, None, None, deadline, born, born, None, None, command.task, command.payload,
    )  # fmt: skip
