"""Whether this code still fits its database (K15).

It is asked when an app is opened, and again by every worker once a minute: a later release may migrate the database while
this worker runs, and say by `oldest-code` that older code cannot go on. Then the worker stops as if told to, hands back what it
runs, and ends with DATABASE_TOO_NEW. A program that only creates and asks holds nothing, and is asked when it opens.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from datetime import timedelta
from typing import Any

from ferryman.kernel import errors, migrate
from ferryman.kernel.db import Tx
from ferryman.kernel.watchdog import Rule

EVERY = timedelta(minutes=1)


class Fit:
    """What a worker knows of it."""

    def __init__(self, stop: asyncio.Event) -> None:
        """Take it that the code fits, as it did when the app was opened; what stops the worker is set when it does not."""
        self._stop = stop
        self._error: errors.DatabaseTooNew | None = None
        self._newest = migrate.newest()

    def rule(self) -> Rule:
        """Return the rule that asks."""
        return Rule(
            name="K15",
            finds="a migration that this code is too old for",
            does="stops this worker, which hands back what it runs",
            setting="worker.watchdog_interval_seconds",
            every=EVERY,
            find=self._ask,
            only_bound=True,  # an interval of 0 does not switch it off
        )

    def confirm(self) -> None:
        """Raise what made the worker stop, if that was it."""
        if self._error is not None:
            raise self._error

    async def _ask(self, tx: Tx, _limit: int) -> Sequence[Any]:
        try:
            await migrate.check_code(tx, self._newest)
        except errors.DatabaseTooNew as error:
            self._error = error
            self._stop.set()
        return ()
