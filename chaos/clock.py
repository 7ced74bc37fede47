"""A wall clock that is wrong, for the life of one process.

What the product reads of the wall is read in few places, and replaced in each: the time of an answer that speaks of a quota,
the stamp of a webhook, and the ids, which are made of the time on their maker's wall. `tests/chaos/test_clock.py` finds the
places anew and fails when one is not here. The histories are written by another clock, which all processes share.
"""

from __future__ import annotations

import importlib
import time
from collections.abc import Callable
from datetime import datetime, timedelta, tzinfo
from typing import Any
from uuid import UUID

# Modules of the product that read the wall, and the name by which they do.
READERS = {
    "ferryman.ingest.work.gate": "datetime",
    "ferryman.ingest.sources.rest": "datetime",
    "ferryman.relays.webhook": "time",
    "ferryman.relays.work.sender": "time",
    "ferryman.kernel.ids": "uuid7",
}
# Under the 48 bits of an id that are its milliseconds since 1970.
_BELOW_TIME = 80


def set_wrong(seconds: float) -> None:
    """Let this process's wall clock be ahead by so much, or behind; it stays so."""
    if not seconds:
        return
    for module, name in READERS.items():
        found = importlib.import_module(module)
        setattr(found, name, _wrong(getattr(found, name), seconds))


def _wrong(right: Any, seconds: float) -> Any:
    if right is time:
        return _Time(seconds)
    return _dated(seconds) if right is datetime else _made_later(right, seconds)


class _Time:
    """The module of time, with another wall."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds

    def time(self) -> float:
        return time.time() + self._seconds

    def __getattr__(self, name: str) -> Any:
        return getattr(time, name)


def _dated(seconds: float) -> type[datetime]:
    class Wrong(datetime):
        """What says now is an ordinary time, which anybody can take."""

        @classmethod
        def now(cls, tz: tzinfo | None = None) -> datetime:  # type: ignore[override]
            return datetime.now(tz) + timedelta(seconds=seconds)

    return Wrong


def _made_later(made: Callable[[], UUID], seconds: float) -> Callable[[], UUID]:
    later = round(seconds * 1000) << _BELOW_TIME
    return lambda: UUID(int=made().int + later)
