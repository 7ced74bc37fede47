"""Locks on files, which the kernel gives back when their holder is gone, by whatever death.

A forked child would hold its parent's locks for as long as it lives; it lets go of its copies at once.
"""

from __future__ import annotations

import fcntl
import os
import time
from pathlib import Path
from types import TracebackType
from typing import Self
from weakref import WeakSet

_PATIENCE_SECONDS = 0.005
_locks: WeakSet[Lock] = WeakSet()


def _let_go() -> None:
    for lock in list(_locks):
        lock.release()


os.register_at_fork(after_in_child=_let_go)


class Lock:
    """One open file description; share it, or hold it alone (as a context manager)."""

    def __init__(self, path: Path) -> None:
        """Open the file, never through a link."""
        self.path = path
        self._file: int | None = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
        _locks.add(self)

    @property
    def is_open(self) -> bool:
        """Say whether the file is still ours (in a forked child it is not)."""
        return self._file is not None

    @property
    def _open(self) -> int:
        if self._file is None:
            raise ValueError(f"{self.path} has been released")
        return self._file

    def share(self) -> None:
        """Hold it together with others; waits while somebody holds it alone."""
        fcntl.flock(self._open, fcntl.LOCK_SH)

    def alone(self) -> bool:
        """Give up a share, and say whether nobody else has one (a keeper who was let in by that counts as nobody)."""
        if self._try(fcntl.LOCK_EX):
            return True
        return not self._try(fcntl.LOCK_SH)

    def is_free(self) -> bool:
        """Say whether nobody holds it, and let go of the file."""
        try:
            return self._try(fcntl.LOCK_EX)
        finally:
            self.release()

    def wait_free(self, seconds: float) -> bool:
        """Wait until nobody holds it, then let go of the file."""
        deadline = time.monotonic() + seconds
        try:
            while not self._try(fcntl.LOCK_EX):
                if time.monotonic() > deadline:
                    return False
                time.sleep(_PATIENCE_SECONDS)
            return True
        finally:
            self.release()

    def current(self) -> bool:
        """Say whether the path still leads to this file (its directory may have been removed meanwhile)."""
        try:
            there = self.path.stat()
        except FileNotFoundError:
            return False
        here = os.fstat(self._open)
        return (there.st_dev, there.st_ino) == (here.st_dev, here.st_ino)

    def release(self) -> None:
        """Let go."""
        file, self._file = self._file, None
        if file is not None:
            os.close(file)

    def _try(self, how: int) -> bool:
        try:
            fcntl.flock(self._open, how | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        return True

    def __enter__(self) -> Self:
        fcntl.flock(self._open, fcntl.LOCK_EX)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.release()
