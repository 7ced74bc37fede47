"""What is repaired: the watchdog's rules for tasks, acting through the normal functions."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from typing import Any

from ferryman.kernel import errors, payload, retry
from ferryman.kernel.db import Row, Tx
from ferryman.kernel.watchdog import Rule
from ferryman.tasks import store
from ferryman.tasks.intake.cancel import end
from ferryman.tasks.model import Outcome
from ferryman.tasks.ports import Owners
from ferryman.tasks.rules import ending
from ferryman.tasks.work.settle import settle

TIMED_OUT = "start_to_close timeout"


def rules(owners: Owners, *, sweep: timedelta, interval: timedelta) -> list[Rule]:
    """Return the rules that end every task whose worker or time is gone."""

    async def reap(tx: Tx, lapsed: Sequence[Row]) -> int:
        return len(await settle(tx, owners, [_judge(row) for row in lapsed], lapsed=True))

    async def expire(tx: Tx, waiting: Sequence[Row]) -> int:
        ids = [row["id"] for row in waiting]
        code = errors.TaskExpired.code
        return len(await end(tx, owners, ids, expired=True, code=code, reason="still waiting at its ends_at"))

    return [
        Rule(
            name="W13",
            finds="a running task whose lease or timeout has passed",
            does="ends the attempt as TASK_TIMEOUT: another try, or failed at its cap",
            setting="worker.lease_sweep_seconds",
            every=sweep,
            find=store.lapsed,
            act=reap,
            reaps=True,
            only_bound=True,
        ),
        Rule(
            name="T21",
            finds="a task that still waits at its ends_at",
            does="cancels it as TASK_EXPIRED",
            setting="worker.watchdog_interval_seconds",
            every=interval,
            find=store.expired,
            act=expire,
            only_bound=True,
        ),
    ]


def _judge(row: Row) -> Outcome:
    stored: Any = None if row["backoff"] is None else payload.decode(row["backoff"])
    verdict = ending.ending(
        attempt=row["attempt"],
        max_retries=row["max_retries"],
        code=ending.TIMEOUT,
        reason=TIMED_OUT if row["timed_out"] else ending.LEASE_EXPIRED,
        backoff=retry.Backoff.parse(stored),
    )
    return Outcome(
        id=row["id"],
        epoch=row["epoch"],
        owner=row["lease_owner"],
        state=verdict.state,
        code=verdict.code,
        reason=verdict.reason,
        used=ending.uses(verdict),
        delay=verdict.delay.total_seconds(),
        callback=row["callback"],
        callback_ref=row["callback_ref"],
    )
