"""What is left of processes that wrote their ids into a file; they may go at any moment, also while one looks."""

import asyncio
from collections.abc import Callable
from pathlib import Path

import psutil

from tests.patience import PATIENCE_SECONDS


def written(file: Path) -> list[int]:
    """Return the ids in a file that somebody may be writing."""
    return [int(pid) for pid in file.read_text(encoding="utf-8").split()] if file.exists() else []


def alive(pid: int) -> bool:
    """Tell whether a process lives; a zombie waits only for whoever reaps it."""
    try:
        return bool(psutil.Process(pid).status() != psutil.STATUS_ZOMBIE)
    except psutil.NoSuchProcess:
        return False


def gone(file: Path) -> bool:
    """Tell whether those who have written their ids are gone."""
    pids = written(file)
    assert pids
    return not any(alive(pid) for pid in pids)


async def until(look: Callable[[], bool]) -> None:
    async with asyncio.timeout(PATIENCE_SECONDS):
        while not look():  # noqa: ASYNC110 - what other processes do
            await asyncio.sleep(0.01)
