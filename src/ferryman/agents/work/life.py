"""One handler at work on a turn, until it ends or waits.

It runs in an asyncio task of its own, because it may outlive the claim under which it was begun: a suspended turn lets go of
its claim, and goes on under the next one. Whatever the handler raises stays in here, SystemExit and KeyboardInterrupt too.

A life is freed with the last word about it, and does not wait for the collector of cycles, which comes seldom to what has
become old: of thousands that are ended while their turns wait, all would be there still. So nothing that it holds leads back
to it: no frame of its own in what was raised, no timer of a handler that has ended.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from uuid import UUID

from ferryman.agents.states import TurnStatus
from ferryman.agents.work.memory import Memory
from ferryman.kernel import telemetry

log = logging.getLogger("ferryman.agents")

# A handler that catches its cancellation is cancelled again, until it has ended.
AGAIN_SECONDS = 1.0
GONE = "gone"


class Life:
    """The run of one handler."""

    def __init__(self, memory: Memory, handler: Callable[[], Awaitable[object]], *, name: str) -> None:
        """Begin."""
        self.memory = memory
        self.id: UUID = memory.taken.id
        self.value: object = None
        self.error: BaseException | None = None
        self._again: asyncio.TimerHandle | None = None
        self._happened = asyncio.Event()
        memory.told = self._happened.set
        self.task: asyncio.Task[None] = asyncio.get_running_loop().create_task(self._live(handler, name))
        memory.main = self.task

    @property
    def epoch(self) -> int:
        """The fence of the last claim."""
        return self.memory.taken.epoch

    @property
    def ended(self) -> bool:
        """Whether the handler has ended, or its end was said."""
        return self.task.done() or self.memory.over is not None

    async def _live(self, handler: Callable[[], Awaitable[object]], name: str) -> None:
        taken = self.memory.taken
        try:
            with telemetry.span(name, taken.traceparent, {"ferryman.turn": str(taken.id)}):
                self.value = await handler()
        except BaseException as error:  # noqa: BLE001 - also SystemExit and KeyboardInterrupt end their own turn only
            self._raised(error)
        finally:
            self._happened.set()

    def _raised(self, error: BaseException) -> None:
        """Keep what may be told; of a turn whose end was said, that is heard instead."""
        over, trace = self.memory.over, error.__traceback__
        if over is not None:
            over.__traceback__ = None
        else:
            self.error = error.with_traceback(trace and trace.tb_next)

    async def happens(self, seconds: float) -> bool:
        """Wait until the handler has ended, or waits, or its end was said; false when the time is over before."""
        try:
            async with asyncio.timeout(seconds):
                await self._happened.wait()
        except TimeoutError:
            return False
        self._happened.clear()
        return True

    def abandon(self) -> None:
        """End the handler: what it says from now on is not heard."""
        self.memory.end(TurnStatus.FAILED, GONE, "The turn is not this worker's any more.")
        if not self.task.done() and self._again is None:
            self.task.add_done_callback(self._ended)
            self._cancel()

    def _cancel(self) -> None:
        self.task.cancel(GONE)
        self._again = asyncio.get_running_loop().call_later(AGAIN_SECONDS, self._insist)

    def _insist(self) -> None:
        log.warning("a handler does not end although its turn is over", extra={"turn": str(self.id)})
        self._cancel()

    def _ended(self, _task: asyncio.Task[None]) -> None:
        if self._again is not None:
            self._again.cancel()
