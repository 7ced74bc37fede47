"""What becomes of a claim, as an outcome: whoever ran it, here or elsewhere."""

from __future__ import annotations

from uuid import UUID

from ferryman.kernel import errors
from ferryman.tasks.model import Claimed, Outcome
from ferryman.tasks.rules import ending
from ferryman.tasks.states import FAILED, READY, SUCCEEDED


def won(task: Claimed, *, owner: UUID, result: str | None) -> Outcome:
    """Say that it was done."""
    return Outcome(
        task.id, task.epoch, owner, SUCCEEDED, result, callback=task.callback, callback_ref=task.callback_ref
    )


def hand_back(task: Claimed, *, owner: UUID) -> Outcome:
    """Say that it was not done here; no attempt is used."""
    return Outcome(task.id, task.epoch, owner, READY, callback=task.callback, callback_ref=task.callback_ref)


def lost(task: Claimed, *, owner: UUID, code: str, reason: str, again: bool = True) -> Outcome:
    """Say that this try failed: the next one follows, unless it was the last or there must be none."""
    verdict = ending.ending(
        attempt=task.attempt,
        max_retries=task.max_retries,
        code=code,
        reason=reason,
        backoff=ending.stored(task.backoff),
        again=again,
    )
    return Outcome(
        id=task.id,
        epoch=task.epoch,
        owner=owner,
        state=verdict.state,
        code=verdict.code,
        reason=verdict.reason,
        used=ending.uses(verdict),
        delay=verdict.delay.total_seconds(),
        callback=task.callback,
        callback_ref=task.callback_ref,
    )


def spoil(outcome: Outcome, error: Exception) -> Outcome | None:
    """Replace an outcome that PostgreSQL refuses by one that it cannot refuse."""
    if outcome.state is FAILED and outcome.code == errors.TaskInvalidResult.code:
        return None
    return outcome._replace(
        state=FAILED,
        result=None,
        code=errors.TaskInvalidResult.code,
        reason=ending.readable(f"the outcome could not be stored: {error}"),
        used=0,
        park=None,
    )
