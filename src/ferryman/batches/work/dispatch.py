"""Tasks become turns (B5): a set is taken, asked for, and noted, in one transaction.

Taking a task and asking for its turn commit together, so a task that was sent has its message, and a crash between the two
leaves a task that is simply sent again, under the same turn. What an agent answers is looked at for each.

Nobody is waited for: a task is passed over while somebody holds its batch, its agent or its parent. Where a set cannot be
written, each goes by itself: what PostgreSQL refuses for one, or cannot write of it now, is that one's alone. A set that was
broken off in the middle is given back, and half as many are taken the next time: each by itself would hold the batches of all
until the last was sent.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import timedelta
from typing import NamedTuple
from uuid import UUID

from ferryman.agents import intake as agents
from ferryman.agents.ends import Aftermath, Parties
from ferryman.agents.model import Accepted, Answer, Busy, Failed, Order, Source
from ferryman.batches import rules
from ferryman.batches.ends import conclude
from ferryman.batches.model import Claimed, TaskEnd, Terms
from ferryman.batches.states import FAILED
from ferryman.batches.store import tasks
from ferryman.kernel import errors, faults, outage, telemetry
from ferryman.kernel.watchdog.look import Ground

log = telemetry.logger("batches")

# A head that somebody holds, a page that cannot be read: that is no try which failed, and it waits until the batch ends.
NOT_NOW = Busy("database_unavailable", "It cannot be written now.")


class Pass(NamedTuple):
    """What one pass came to; `more`: there may be something left, of batches that somebody holds if nothing was taken."""

    taken: int
    more: bool


class TooMuch(Exception):
    """A set was broken off in the middle; there was more than one task in it, or it is not known how many there were."""

    def __init__(self, size: int) -> None:
        """Say how many were tried."""
        super().__init__(f"{size} tasks took too long together to be dispatched, or were cut off")
        self.size = size


async def dispatch(
    tx: Ground, parties: Parties, terms: Terms, *, after: Aftermath, room: int | None = None, careful: bool = False
) -> Pass:
    """Send a set of tasks, or raise `TooMuch`. `careful` sends each by itself, where sending all of them together failed."""
    room = min(room or terms.dispatch_concurrency, terms.dispatch_concurrency)
    if careful:
        taken, more = await _take(tx, terms, room=room, heads=False)
        for each in taken:
            await _alone(tx, each, parties, terms, after=after)
        return Pass(len(taken), more=more)
    taken = []
    try:
        taken, more = await _take(tx, terms, room=room, heads=True)
        if taken:
            answers = await _ask(tx, taken, parties, after=after)
            await _note(tx, list(zip(taken, answers, strict=True)), parties, terms, after=after)
    except Exception as error:
        size = len(taken) or room
        if size == 1 or not outage.unfinished(error):
            raise
        raise TooMuch(size) from error
    return Pass(len(taken), more=more)


def alone_instead(error: Exception) -> bool:
    """Tell whether a set that could not be sent may come through task by task, and say so."""
    if outage.of_any_set(error):
        return False
    _teller(error)("a set of tasks could not be dispatched: each is tried by itself", extra={"error": str(error)})
    return True


def _teller(error: Exception) -> Callable[..., None]:
    """What was broken off in the middle is foreseen: there was too much in it, or its connection was cut."""
    return log.warning if outage.unfinished(error) else log.exception


async def _take(tx: Ground, terms: Terms, *, room: int, heads: bool) -> tuple[list[Claimed], bool]:
    """Take tasks, looking past those whose batches or heads are busy; say whether any were found, held or not."""
    taken: list[Claimed] = []
    busy = tasks.Busy()
    while True:
        some, found, met = await tasks.claim(tx, room=room - len(taken), scan=terms.scan_limit, heads=heads, past=busy)
        taken += some
        if busy | met == busy or len(taken) >= room:
            return taken, bool(taken or found or any(busy))
        busy |= met


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


async def _ask(tx: Ground, taken: Sequence[Claimed], parties: Parties, *, after: Aftermath) -> list[Answer]:
    answers = await agents.enqueue(tx, [_order(each) for each in taken], parties, after=after)
    faults.point("batch.dispatched")
    return answers


async def _alone(tx: Ground, task: Claimed, parties: Parties, terms: Terms, *, after: Aftermath) -> None:
    """Send one task; what goes wrong with it is its own answer, and where not even that can be written it is put off."""
    wrong = await _tried(tx, task, None, parties, terms, after=after)
    if isinstance(wrong, Failed):
        wrong = await _tried(tx, task, wrong, parties, terms, after=after)
    if wrong is not None:
        await _note(tx, [(task, NOT_NOW)], parties, terms, after=after)


async def _tried(
    tx: Ground, task: Claimed, answer: Answer | None, parties: Parties, terms: Terms, *, after: Aftermath
) -> Answer | None:
    """Note what became of a task, and ask first if that is not known; return what went wrong, if anything did."""
    # Its parent's head as well: a dispatch that is refused may close its batch.
    heads = {(task.tenant, agent) for agent in (task.agent_id, task.parent_agent_id) if agent is not None}
    try:
        async with tx.transaction():
            if not await agents.try_hold(tx, heads):
                return NOT_NOW
            if answer is None:
                [answer] = await _ask(tx, [task], parties, after=after)
            await _note(tx, [(task, answer)], parties, terms, after=after)
    except Exception as error:
        if outage.of_any_set(error):
            raise
        outage.tell(error)
        _teller(error)("a task of a batch could not be dispatched", extra={"task": str(task.id), "error": str(error)})
        return NOT_NOW if outage.passes(error) else Failed("internal_error", errors.said(error))
    return None


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
        elif task.attempt_count > terms.retries and answer is not NOT_NOW:
            never.append(TaskEnd(id=task.id, status=FAILED, error=rules.EXHAUSTED))
        else:
            later.append((task.id, rules.DISPATCH.delay(task.attempt_count), answer.code))
    if epochs:
        await tasks.accept(tx, epochs)
    if later:
        await tasks.postpone(tx, later)
    if never:
        await conclude(tx, sorted(await tasks.end(tx, never)), parties, terms, after=after)
