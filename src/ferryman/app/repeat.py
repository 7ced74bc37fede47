"""Patience of a door with a database that is away (K24): for a while, and then its caller is told."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from datetime import timedelta
from typing import TypeVar

from ferryman.kernel import errors
from ferryman.kernel.patience import outlast
from ferryman.kernel.pool import spoken

Value = TypeVar("Value")
Thing = TypeVar("Thing")


async def repeated(attempt: Callable[[], Awaitable[Value]], patience: timedelta) -> Value:
    """Try again while the database is away, for a while; what is tried can be repeated without harm."""

    async def said() -> Value:
        with spoken():
            return await attempt()

    return await outlast(said, within=patience)


async def apart(
    things: Sequence[Thing], send: Callable[[Sequence[Thing]], Awaitable[Sequence[Value]]], patience: timedelta
) -> list[Value | Exception]:
    """Send a set. If PostgreSQL refuses one of it, each goes alone: the others must not suffer by their company."""
    try:
        return list(await repeated(lambda: send(things), patience))
    except Exception as error:
        ours = isinstance(error, errors.FerrymanError) and not isinstance(error, errors.StatementRefused)
        if ours:
            raise
        if len(things) == 1:
            return [error]
        return [each for thing in things for each in await apart([thing], send, patience)]
