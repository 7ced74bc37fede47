"""Tasks become turns (B5): a set is taken, asked for, and noted, in one transaction.

Taking a task and asking for its turn commit together, so a task that was sent has its message, and a crash between the two
leaves a task that is simply sent again, under the same turn. What an agent answers is looked at for each.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from typing import NamedTuple
from uuid import UUID

from ferryman.agents import intake as agents
from ferryman.agents.ends import Aftermath, Parties
from ferryman.agents.model import Accepted, Answer, Failed, Order, Source
from ferryman.batches import rules
from ferryman.batches.ends import conclude
from ferryman.batches.model import Claimed, TaskEnd, Terms
from ferryman.batches.states import FAILED
from ferryman.batches.store import tasks
from ferryman.kernel import errors, faults, telemetry
from ferryman.kernel.watchdog.look import Ground

log = telemetry.logger("batches")


class Pass(NamedTuple):
    """What one pass came to; `more`: there may be something left, of batches that somebody holds if nothing was taken."""

    taken: int
    more: bool


async def dispatch(
    tx: Ground, parties: Parties, terms: Terms, *, after: Aftermath, room: int | None = None, careful: bool = False
) -> Pass:
    """Send a set of tasks. `careful` asks for each turn by itself, where asking for all of them failed."""
    room = min(room or terms.dispatch_concurrency, terms.dispatch_concurrency)
    taken, found = await tasks.claim(tx, room=room, scan=terms.scan_limit)
    if not taken:
        return Pass(0, more=found > 0)
    # Parents' heads as well: a dispatch that is refused may close its batch.
    heads = {(each.tenant, each.agent_id) for each in taken}
    heads |= {(each.tenant, each.parent_agent_id) for each in taken if each.parent_agent_id is not None}
    await agents.hold(tx, heads)
    orders = [_order(each) for each in taken]
    if careful:
        answers = [await _alone(tx, order, parties, after=after) for order in orders]
    else:
        answers = await agents.enqueue(tx, orders, parties, after=after)
    faults.point("batch.dispatched")
    await _note(tx, list(zip(taken, answers, strict=True)), parties, terms, after=after)
    return Pass(len(taken), more=True)


def _order(task: Claimed) -> Order:
    return Order(
        tenant=task.tenant,
        agent_id=task.agent_id,
        turn=task.agent_turn_id,
        context_box=task.context_box_id,
        output_box=task.output_box_id,
        channel=task.parent_channel_id or "default",
        source=Source(
            agent_id=task.parent_agent_id,
            turn=task.parent_agent_turn_id,
            step=task.parent_step_id,
            depth=task.recursion_depth,
        ),
        author=rules.AUTHOR,
        callback=rules.BATCH,
        callback_ref=rules.reference(task.batch_id, task.id),
        budget=task.budget_id,
        traceparent=task.traceparent,
        always_enqueue=True,
    )


async def _alone(tx: Ground, order: Order, parties: Parties, *, after: Aftermath) -> Answer:
    """Ask for one turn; what goes wrong with it is its own answer."""
    try:
        async with tx.transaction():
            [answer] = await agents.enqueue(tx, [order], parties, after=after)
    except errors.DatabaseUnavailable:
        raise
    except Exception as error:
        log.exception("a task of a batch could not be dispatched", extra={"turn": str(order.turn)})
        return Failed("internal_error", errors.said(error))
    return answer


async def _note(
    tx: Ground,
    answered: Sequence[tuple[Claimed, Answer]],
    parties: Parties,
    terms: Terms,
    *,
    after: Aftermath,
) -> None:
    """Write down what became of each (B5)."""
    epochs: dict[UUID, int] = {}
    later: list[tuple[UUID, timedelta, str]] = []
    never: list[TaskEnd] = []
    for task, answer in answered:
        error = rules.dispatch_error(answer)
        if isinstance(answer, Accepted):
            if answer.epoch is not None:
                epochs[task.id] = answer.epoch
        elif error is not None:
            never.append(TaskEnd(id=task.id, status=FAILED, error=error))
        elif task.attempt_count > terms.retries:
            never.append(TaskEnd(id=task.id, status=FAILED, error=rules.EXHAUSTED))
        else:
            later.append((task.id, rules.DISPATCH.delay(task.attempt_count), answer.code))
    if epochs:
        await tasks.accept(tx, epochs)
    if later:
        await tasks.postpone(tx, later)
    if never:
        await conclude(tx, sorted(await tasks.end(tx, never)), parties, terms, after=after)
