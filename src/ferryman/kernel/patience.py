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


def away(error: errors.FerrymanError) -> bool:
    """Tell whether the database is away; whoever opens an app, or asks at a door, is told anything else at once."""
    return isinstance(error, errors.DatabaseUnavailable)


async def outlast(
    attempt: Callable[[], Awaitable[Value]],
    *,
    within: timedelta | None = None,
    unless: asyncio.Event | None = None,
    over: Callable[[errors.FerrymanError], bool] = away,
    told: Callable[[int, errors.FerrymanError], None] | None = None,
) -> Value:
    """Try until it is done: for so long, or until an event is set, or for ever; who gives up raises the last failure.

    `over` says which failures are waited for: those of a database that is away, unless told otherwise. `told` hears of
    each, with its number.
    """
    until = None if within is None else time.monotonic() + within.total_seconds()
    failures = 0
    while True:
        try:
            return await attempt()
        except errors.FerrymanError as error:
            if not over(error):
                raise
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
