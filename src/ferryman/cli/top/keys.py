"""The keys of a screen that goes on: read one by one, without Enter, and the terminal is given back as it was."""

from __future__ import annotations

import asyncio
import contextlib
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta

LEAVE, HOLD, FASTER, SLOWER = "qQ\x1b", "pP ", "+=", "-_"


class Keys:
    """What the keys have asked for so far."""

    def __init__(self, stop: asyncio.Event, *, every: timedelta, shortest: timedelta, longest: timedelta) -> None:
        """Begin with nothing pressed."""
        self._stop = stop
        self._pressed = asyncio.Event()
        self._shortest, self._longest = shortest, longest
        self.every = every
        self.still = False

    def press(self, key: str) -> None:
        """Do what a key asks for; others are not heard."""
        if key in LEAVE:
            self._stop.set()
        elif key in HOLD:
            self.still = not self.still
        elif key in FASTER:
            self.every = max(self._shortest, self.every / 2)
        elif key in SLOWER:
            self.every = min(self._longest, self.every * 2)
        else:
            return
        self._pressed.set()

    async def wait(self) -> None:
        """Wait for the next look, or for a key that changes something."""
        self._pressed.clear()
        waits = [asyncio.ensure_future(each.wait()) for each in (self._pressed, self._stop)]
        await asyncio.wait(waits, timeout=self.every.total_seconds(), return_when=asyncio.FIRST_COMPLETED)
        for each in waits:
            each.cancel()

    @contextmanager
    def reading(self) -> Iterator[None]:
        """Listen to the keyboard as long as the block lasts, if there is one."""
        if not sys.stdin.isatty():
            yield
            return
        import termios
        import tty

        fd = sys.stdin.fileno()
        before = termios.tcgetattr(fd)
        loop = asyncio.get_running_loop()
        tty.setcbreak(fd)
        loop.add_reader(fd, self._read, fd)
        try:
            yield
        finally:
            loop.remove_reader(fd)
            termios.tcsetattr(fd, termios.TCSADRAIN, before)

    def _read(self, fd: int) -> None:
        with contextlib.suppress(BlockingIOError):
            typed = os.read(fd, 64).decode(errors="ignore")
            # An arrow begins like Escape, and is none.
            for key in typed[:1] if typed.startswith("\x1b") and len(typed) == 1 else typed.partition("\x1b")[0]:
                self.press(key)
