"""How batches get from the door into the database: those that are wanted at one time share a trip (kernel/gather.py).

Each batch is made whole or not at all, and each caller has its own answer. An answer that was lost is asked for again, under
the same id, so that a repeat makes no second batch (K24).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import timedelta
from functools import partial

from ferryman.agents.work.profiles import Profiles
from ferryman.app.repeat import apart
from ferryman.batches import intake
from ferryman.batches.intake import Wanted
from ferryman.batches.model import Forked, Refused, Terms
from ferryman.batches.work.forks import PENDING
from ferryman.kernel.doorbell import Doorbell
from ferryman.kernel.gather import Gather
from ferryman.kernel.pool import Line

PATIENCE = timedelta(seconds=10)
MOST = 100

Answer = Forked | Refused


class Forks:
    """Make batches in sets, over lines of their own.

    One whose id was given may have to wait for somebody who is making the same; those whose id is made here meet nobody, and
    never wait in its company.
    """

    def __init__(self, doorbell: Doorbell, terms: Terms, profiles: Profiles, *, line: Callable[[], Line]) -> None:
        """Begin with none under way."""
        self._doorbell = doorbell
        self._terms = terms
        self._profiles = profiles
        self._lines = line(), line()
        self._plain, self._keyed = (
            Gather[Wanted, Answer](partial(self._send, each), most=MOST) for each in self._lines
        )

    async def fork(self, wanted: Wanted, *, keyed: bool) -> Answer:
        """Make one batch."""
        answer = await (self._keyed if keyed else self._plain)(wanted)
        if isinstance(answer, Forked) and not keyed:
            return Forked(answer.id)  # what it met was made by itself, and the answer lost
        return answer

    async def close(self) -> None:
        """Send what is under way."""
        await self._plain.drain()
        await self._keyed.drain()
        for line in self._lines:
            await line.close()

    async def _send(self, line: Line, asked: Sequence[Wanted]) -> list[Answer | Exception]:
        """Send a set, in parts of a size that a transaction can carry; each has its own fate."""
        answers: list[Answer | Exception] = []
        for some in intake.parts(asked):
            try:
                answers += await apart(some, partial(self._make, line), PATIENCE)
            except Exception as error:  # noqa: BLE001 - told to every caller of this part
                answers += [error] * len(some)
        return answers

    async def _make(self, line: Line, asked: Sequence[Wanted]) -> list[Answer]:
        async with line.transaction() as tx:
            answers = await intake.fork(tx, asked, self._terms, profiles=self._profiles.profiles)
        if any(isinstance(answer, Forked) for answer in answers):
            self._doorbell.ring(PENDING)
        return answers
