"""Patience of a door with a database that is away (K24): for a while, and then its caller is told."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from datetime import timedelta
from typing import TypeVar

from ferryman.kernel.patience import outlast
from ferryman.kernel.pool import spoken

Value = TypeVar("Value")


async def repeated(attempt: Callable[[], Awaitable[Value]], patience: timedelta) -> Value:
    """Try again while the database is away, for a while; what is tried can be repeated without harm."""

    async def said() -> Value:
        with spoken():
            return await attempt()

    return await outlast(said, within=patience)
