"""Tell those who wait in a trial for what nobody will bring about (R9).

Between two runs nobody works there. A test that awaits a result which did not come about would do so for ever: as a rule a
handler has failed, and its next attempt is due in a second that nobody lets pass. So whoever waits for as long as a run may
take, while no worker is alive, is told what it is that does not come, and why.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from uuid import UUID

from ferryman.app.ferryman import Ferryman
from ferryman.kernel import errors

PATIENCE = timedelta(seconds=30)
_LOOKS = 10

_ADVICE = "`trial.run()` does what is due; what is due later comes after `trial.travel()`."


class Vigil:
    """One app that is tried, and who waits there since when."""

    def __init__(self, app: Ferryman) -> None:
        """Take an app that is open."""
        self._app = app
        self._runs = 0
        self._since: dict[str, float] = {}

    @contextmanager
    def at_work(self) -> Iterator[None]:
        """Blame nobody who waits while somebody works."""
        self._runs += 1
        try:
            yield
        finally:
            self._runs -= 1

    async def keep(self) -> None:
        """Look again and again, until cancelled."""
        while True:
            await asyncio.sleep(PATIENCE.total_seconds() / _LOOKS)
            await self._look()

    async def _look(self) -> None:
        opened = self._app._opened  # noqa: SLF001
        if opened is None or self._runs:
            self._since.clear()
            return
        waited = {id: place for waits in opened.waits for id, place in waits.waited().items()}
        now = time.monotonic()
        self._since = {id: self._since.get(id, now) for id in waited}
        for id, since in self._since.items():
            if now - since >= PATIENCE.total_seconds() and (vain := await self._in_vain(id)) is not None:
                waited[id].give_up(id, vain)

    async def _in_vain(self, id: str) -> Exception | None:
        """Return what to tell those who wait for this; None while somebody is there who might do it."""
        try:
            if any(worker.alive for worker in await self._app.workers()):
                return None
            told = await self._app.explain(UUID(id))
        except errors.FerrymanError as error:
            return error
        said = [told.doing, *(reason.says for reason in told.reasons)]
        said += [f"{why}." for reason in told.reasons if (why := reason.about.get("last_error_reason"))]
        return TimeoutError(
            f"Nobody works in this trial, and the {told.domain} {id}, for which somebody has waited for "
            f"{PATIENCE.total_seconds():g} s, is {told.state}. {' '.join(said)} {_ADVICE}"
        )
