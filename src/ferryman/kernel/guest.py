"""Code that is not ours and runs inside ours: a source, a sink, the owner of an end.

Whatever it raises is an `Exception` here. A SystemExit would end the whole worker, and anything else that is no Exception
would pass by those who settle: the claim would be renewed for ever and its place never come back. Only a cancellation by
whoever runs it passes.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import ParamSpec, TypeVar

from ferryman.kernel import errors

P = ParamSpec("P")
Answer = TypeVar("Answer")


class Unruly(Exception):
    """A guest raised what only a process may raise."""


async def ask(function: Callable[P, Awaitable[Answer]], *given: P.args, **named: P.kwargs) -> Answer:
    """Call a guest."""
    try:
        return await function(*given, **named)
    except Exception:
        raise
    except BaseException as error:
        if isinstance(error, asyncio.CancelledError) and cancelled():
            raise
        raise Unruly(errors.said(error)) from error


def cancelled() -> bool:
    """Tell whether somebody cancels the task that runs now; a cancellation that nobody asked for is a guest's own."""
    current = asyncio.current_task()
    return current is not None and current.cancelling() > 0
