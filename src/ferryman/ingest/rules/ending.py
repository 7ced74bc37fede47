"""What becomes of a run, its task and its open batches, by how it ended (I7, I8)."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from typing import TypeAlias

from ferryman.ingest.model import Verdict
from ferryman.ingest.states import BatchState, RunState, TaskState
from ferryman.kernel import errors, retry

# Between two runs of a task that left something undone.
AGAIN = retry.Backoff(base=timedelta(seconds=1), factor=2.0, cap=timedelta(minutes=5), jitter=0.2)


@dataclass(frozen=True, slots=True)
class Done:
    """Everything of the slice has been fetched."""


@dataclass(frozen=True, slots=True)
class Spent:
    """The budget is gone, and something is left."""

    of: str


@dataclass(frozen=True, slots=True)
class Unwieldy:
    """The slice should be cut smaller, and something is left of it."""

    sign: str


@dataclass(frozen=True, slots=True)
class Broken:
    """A page could not be had."""

    reason: str


@dataclass(frozen=True, slots=True)
class Barred:
    """The source does not let us in."""

    reason: str


@dataclass(frozen=True, slots=True)
class Postponed:
    """Nothing can be had for a while, by no fault of the slice."""

    delay: timedelta
    reason: str


End: TypeAlias = Done | Spent | Unwieldy | Broken | Barred | Postponed


def verdict(end: End, *, done_now: int, done: int, used: int, max_attempts: int) -> Verdict:
    """Judge a run: `done_now` pages are its own, `done` all of the slice's, `used` runs failed before it."""
    partly = RunState.PARTIAL if done_now else RunState.FAILED
    match end:
        case Done():
            return Verdict(TaskState.SUCCEEDED, RunState.SUCCEEDED)
        case Spent(of):
            told = f"the budget of {of} is used up"
            return Verdict(TaskState.PARTIAL, RunState.PARTIAL, code=errors.IngestBudgetSpent.code, reason=told)
        case Unwieldy(sign):
            return Verdict(TaskState.PARTIAL, RunState.PARTIAL, code=errors.IngestReslice.code, reason=sign)
        case Barred(reason):
            return Verdict(TaskState.FAILED, RunState.FAILED, code=errors.IngestAuthFailed.code, reason=reason)
        case Postponed(delay, reason):
            run = RunState.PARTIAL if done_now else RunState.CANCELLED
            return Verdict(
                TaskState.QUEUED, run, BatchState.SKIPPED, errors.IngestPostponed.code, reason, delay, forgiven=1
            )
        case Broken(reason):
            return _broken(reason, partly, done=done, again=used + 1 < max_attempts, used=used)


def _broken(reason: str, run: RunState, *, done: int, again: bool, used: int) -> Verdict:
    code = errors.IngestBatchFailed.code
    if again:
        return Verdict(TaskState.QUEUED, run, code=code, reason=reason, delay=AGAIN.delay(used + 1), used=1)
    return Verdict(TaskState.PARTIAL if done else TaskState.FAILED, run, code=code, reason=reason, used=1)


def lost(*, epoch: int, forgiven: int, max_claims: int) -> Verdict:
    """Judge a claim whose holder is gone: the task comes back, until too many have been."""
    if epoch - forgiven >= max_claims:
        told = f"{epoch - forgiven} claims were lost"
        return Verdict(TaskState.FAILED, RunState.FAILED, code=errors.IngestStuck.code, reason=told)
    return Verdict(TaskState.QUEUED, RunState.FAILED, code=errors.IngestLeaseLost.code, reason="lease expired")


def handed_back(done_now: int = 0) -> Verdict:
    """Judge a claim that its holder gives back: it counts for nothing."""
    run = RunState.PARTIAL if done_now else RunState.CANCELLED
    return Verdict(TaskState.QUEUED, run, BatchState.SKIPPED, reason="handed back", forgiven=1)
