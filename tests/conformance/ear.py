"""A listener for tests of doorbells."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager

from ferryman.kernel.doorbell import Doorbell
from tests.patience import PATIENCE_SECONDS

NOWHERE = {
    "postgres": "postgresql://nobody@/nowhere?host=/nonexistent",
    "nats": "nats://127.0.0.1:1",
}

Make = Callable[..., Doorbell]


class Ear:
    """A listener that remembers, and can be waited for."""

    def __init__(self, bell: Doorbell, topic: str = "ready") -> None:
        self.topic = topic
        self.heard: list[frozenset[str]] = []
        self._called = asyncio.Event()
        self.stop = bell.listen(topic, self._hear)

    def _hear(self, hints: frozenset[str]) -> None:
        self.heard.append(hints)
        self._called.set()

    @property
    def hints(self) -> set[str]:
        return {hint for hints in self.heard for hint in hints}

    async def until(self, come: Callable[["Ear"], bool]) -> None:
        async with asyncio.timeout(PATIENCE_SECONDS):
            while not come(self):
                self._called.clear()
                await self._called.wait()


@asynccontextmanager
async def opened(*bells: Doorbell) -> AsyncIterator[None]:
    async with AsyncExitStack() as stack:
        for bell in bells:
            stack.push_async_callback(bell.close)
            await bell.open()
        yield
