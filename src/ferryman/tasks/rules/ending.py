"""How an attempt that did not succeed goes on: once more, or to its end (T4, T5)."""

from __future__ import annotations

from datetime import timedelta
from typing import NamedTuple

from ferryman.kernel import errors, payload, retry
from ferryman.tasks.states import FAILED, READY, TaskState

TIMEOUT = errors.TaskTimeout.code
EXECUTION_FAILED = errors.TaskExecutionFailed.code
EXHAUSTED = errors.TaskRetryExhausted.code
# A payload that this worker cannot read another may: one that has the codec.
RETRYABLE = frozenset({TIMEOUT, EXECUTION_FAILED, errors.PayloadSealed.code})

LEASE_EXPIRED = "lease_expired"
UNREADABLE = "the handler raised something that cannot be read"
NO_DELAY = timedelta(0)
REASON_LIMIT = 2000


class Ending(NamedTuple):
    """Where the task goes, with the code and reason that its row and its event will carry."""

    state: TaskState
    code: str
    reason: str
    delay: timedelta


def ending(
    *, attempt: int, max_retries: int, code: str, reason: str, backoff: retry.Backoff, again: bool = True
) -> Ending:
    """Decide how a failed attempt goes on; `again` is false when the handler asked not to be retried."""
    reason = readable(reason)
    if code not in RETRYABLE or not again:
        return Ending(FAILED, code, reason, NO_DELAY)
    if attempt >= 1 + max_retries:
        return Ending(FAILED, EXHAUSTED, f"{code}: {reason}", NO_DELAY)
    # After a lost lease the time has already been lost; waiting longer would only add to it.
    delay = NO_DELAY if reason == LEASE_EXPIRED else backoff.delay(attempt)
    return Ending(READY, code, reason, delay)


def stored(backoff: str | None) -> retry.Backoff:
    """Read the backoff of a row. Another program may have written it: a task's end must not depend on it."""
    try:
        return retry.Backoff.parse(None if backoff is None else payload.decode(backoff))
    except Exception:  # noqa: BLE001 - whatever is wrong with it
        return retry.DEFAULT


def readable(reason: str) -> str:
    """Return a reason that PostgreSQL and people can read: no NUL, no lone surrogates, bounded."""
    clean = reason.replace("\x00", "\\x00").encode("utf-8", "backslashreplace").decode("utf-8")
    return clean if len(clean) <= REASON_LIMIT else f"{clean[: REASON_LIMIT - 1]}…"


def said(error: BaseException) -> str:
    """Return what an exception says of itself, fit to be stored."""
    return readable(errors.said(error))


def uses(ending: Ending) -> int:
    """Return by how much the attempt grows: a retry begins the next one, an end keeps the number it ended with."""
    return 1 if ending.state is READY else 0
