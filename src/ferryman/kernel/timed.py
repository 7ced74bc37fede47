"""Wait for something, for so long, and be cancelled whenever somebody cancels.

`asyncio.wait_for` of Python 3.11 forgets a cancellation that comes in the moment when what it waits for is there: a loop that
is ended by being cancelled, and is rung at that moment, would go on for ever, and with it the worker that waits for its end.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from typing import TypeVar

Value = TypeVar("Value")


async def timed(awaited: Awaitable[Value], seconds: float | None) -> Value:
    """Return what it comes to; a TimeoutError says that it took longer."""
    async with asyncio.timeout(seconds):
        return await awaited
