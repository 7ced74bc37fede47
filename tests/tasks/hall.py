"""A hall that counts who is inside: how tests of queues see what runs beside what."""

import asyncio
from collections import Counter
from typing import Any

from tests.patience import PATIENCE_SECONDS


class Hall:
    """Counts who is inside, by a name; nobody leaves before the doors are opened, if they are closed."""

    def __init__(self, *, open: bool = True) -> None:
        self.inside: Counter[Any] = Counter()
        self.most: Counter[Any] = Counter()
        self.order: list[Any] = []
        self.doors = asyncio.Event()
        self._moved = asyncio.Event()
        if open:
            self.doors.set()

    async def visit(self, name: Any) -> None:
        self.inside[name] += 1
        self.most[name] = max(self.most[name], self.inside[name])
        self.order.append(name)
        self._moved.set()
        await asyncio.sleep(0)
        await self.doors.wait()
        self.inside[name] -= 1

    async def seen(self, count: int) -> None:
        async with asyncio.timeout(PATIENCE_SECONDS):
            while len(self.order) < count:
                self._moved.clear()
                await self._moved.wait()


async def job(name: str = "x") -> str:
    return name


async def results(handles: Any) -> list[Any]:
    return [await handle.result(timeout=PATIENCE_SECONDS) for handle in handles]
