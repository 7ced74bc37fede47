"""Patience with a database that is away (K24).

One loop for all who try again; they differ in how long they do, and in what they say meanwhile. What is tried can be repeated
without harm: the first try may have been committed, and only its answer lost.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from datetime import timedelta
from typing import TypeVar

from ferryman.kernel import errors
from ferryman.kernel.loop import RECONNECT
from ferryman.kernel.timed import timed

Value = TypeVar("Value")


async def outlast(
    attempt: Callable[[], Awaitable[Value]],
    *,
    within: timedelta | None = None,
    unless: asyncio.Event | None = None,
    told: Callable[[int, errors.DatabaseUnavailable], None] | None = None,
) -> Value:
    """Try until it is done: for so long, or until an event is set, or for ever; who gives up raises the last failure.

    `told` hears of each failure, with its number.
    """
    until = None if within is None else time.monotonic() + within.total_seconds()
    failures = 0
    while True:
        try:
            return await attempt()
        except errors.DatabaseUnavailable as error:
            failures += 1
            if told is not None:
                told(failures, error)
            pause = RECONNECT.delay(failures).total_seconds()
            if until is not None and time.monotonic() + pause > until:
                raise
            if await _set_within(unless, pause):
                raise


async def _set_within(event: asyncio.Event | None, seconds: float) -> bool:
    if event is None:
        await asyncio.sleep(seconds)
        return False
    try:
        await timed(event.wait(), seconds)
    except TimeoutError:
        return False
    return True
