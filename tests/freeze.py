"""Stops a process as SIGSTOP does, and waits until it stands still."""

import asyncio
import contextlib
import os
import signal
from collections.abc import AsyncIterator
from pathlib import Path

from tests.patience import PATIENCE_SECONDS

STOPPED = "T"


async def freeze(pid: int) -> None:
    """Stop a process. The signal is on its way when kill returns: until each thread has stopped, it may still answer."""
    os.kill(pid, signal.SIGSTOP)
    await stands_still(pid)


async def stands_still(pid: int) -> None:
    """Wait until every thread of a process has stopped."""
    async with asyncio.timeout(PATIENCE_SECONDS):
        while {_state(thread) for thread in Path(f"/proc/{pid}/task").iterdir()} - {STOPPED}:  # noqa: ASYNC110 - nothing tells of it
            await asyncio.sleep(0.001)


@contextlib.asynccontextmanager
async def frozen(pid: int) -> AsyncIterator[None]:
    """Let a process stand still for as long as this lasts."""
    await freeze(pid)
    try:
        yield
    finally:
        os.kill(pid, signal.SIGCONT)


def _state(thread: Path) -> str:
    try:
        return (thread / "stat").read_text(encoding="utf-8").rpartition(")")[2].split()[0]
    except FileNotFoundError:  # it ended meanwhile
        return STOPPED
