"""Patience of a door with a database that is away (K24): for a while, and then its caller is told."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from datetime import timedelta
from functools import partial
from typing import TypeVar

from ferryman.kernel import errors, outage
from ferryman.kernel.patience import away, outlast
from ferryman.kernel.pool import spoken

Value = TypeVar("Value")
Thing = TypeVar("Thing")


async def repeated(attempt: Callable[[], Awaitable[Value]], patience: timedelta) -> Value:
    """Try again while the database is away, for a while; what is tried can be repeated without harm.

    What PostgreSQL cannot write now, and nobody holds, is told at once: it may be one of a set, and no moment mends it.
    """

    async def said() -> Value:
        try:
            return await attempt()
        except Exception:
            with spoken():
                raise

    return await outlast(said, within=patience, over=lambda error: away(error) and not outage.of_one(error))


async def apart(
    sets: Sequence[Sequence[Thing]], send: Callable[[Sequence[Thing]], Awaitable[Sequence[Value]]], patience: timedelta
) -> list[Value | Exception]:
    """Send sets, one after another, and answer for each thing; they share one patience.

    If PostgreSQL refuses one thing of a set, or cannot write it now, each of it goes alone: the others must not suffer by their
    company. Once the database was away for too long, what was not sent yet is not tried any more; what was answered before
    stays answered.
    """
    until = time.monotonic() + patience.total_seconds()
    answers: list[Value | Exception] = []
    waiting = deque(sets)
    while waiting:
        some = waiting.popleft()
        try:
            answers += await repeated(partial(send, some), timedelta(seconds=max(0.0, until - time.monotonic())))
        except Exception as error:  # noqa: BLE001 - told to those whom it is about
            if isinstance(error, errors.DatabaseUnavailable) and not outage.of_one(error):
                return [*answers, *[error] * sum(map(len, [some, *waiting]))]
            if len(some) == 1 or not outage.of_one(error):
                answers += [error] * len(some)
            else:
                waiting.extendleft([thing] for thing in reversed(some))
    return answers
