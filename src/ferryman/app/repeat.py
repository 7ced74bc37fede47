"""Patience with a database that is away (K24)."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from datetime import timedelta
from typing import TypeVar

from ferryman.kernel import errors
from ferryman.kernel.loop import RECONNECT
from ferryman.kernel.pool import spoken

Value = TypeVar("Value")


async def repeated(attempt: Callable[[], Awaitable[Value]], patience: timedelta) -> Value:
    """Try again while the database is away, for a while; what is tried can be repeated without harm."""
    until = time.monotonic() + patience.total_seconds()
    failures = 0
    while True:
        try:
            with spoken():
                return await attempt()
        except errors.DatabaseUnavailable:
            failures += 1
            pause = RECONNECT.delay(failures).total_seconds()
            if time.monotonic() + pause > until:
                raise
            await asyncio.sleep(pause)
