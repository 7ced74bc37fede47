"""Who wants a connection stands in line for it, in order, for as long as the line moves.

A thousand callers of one process are no reason to say that the database is away: it is their own number that they wait for. So
waiting has no bound of its own while connections go from hand to hand. It has one when they do not: where none was passed on
for so long, all of them are held, and who has waited for that time is told so. And one who finds the database away tells all
who stand behind: each of them would find out the same, one after the other, for as long as a connection takes to fail. Where
others are served meanwhile, only this one place has nothing behind it: it is kept from all for a while, and the line goes on.
"""

from __future__ import annotations

import asyncio
from collections import deque

from ferryman.kernel import errors

# A patience is waited for in so many parts: a process that stood still itself has seen none of them pass.
LOOKS = 5


class Standstill(errors.DatabaseUnavailable):
    """Every place is taken, and none was given on for as long as the line has patience."""


class Turnstile:
    """Lets so many in at one time, the others in the order in which they came."""

    __slots__ = ("_line", "_patience", "_room", "_size", "moves")

    def __init__(self, size: int, *, patience: float | None = None) -> None:
        """Give up on a line that has not moved for so many seconds; without a patience whoever is inside has a bound."""
        self._size = self._room = size
        self._patience = patience
        self._line: deque[asyncio.Future[None]] = deque()
        self.moves = 0  # how often a place was passed on

    async def enter(self) -> None:
        """Wait for a place."""
        if self._room:
            self._room -= 1
            return
        place: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._line.append(place)
        try:
            await self._wait(place)
        except BaseException:
            if place in self._line:
                self._line.remove(place)
            elif not place.cancelled() and place.exception() is None:
                self.leave()  # it was given a place, and did not hear of it
            raise

    async def _wait(self, place: asyncio.Future[None]) -> None:
        if self._patience is None:
            await place
            return
        still = 0
        while not place.done():
            if still == LOOKS:
                raise Standstill(self._standstill())
            moves = self.moves
            await asyncio.wait([place], timeout=self._patience / LOOKS)
            still = still + 1 if moves == self.moves else 0
        place.result()

    def _standstill(self) -> str:
        told = "the connection of this pool is" if self._size == 1 else f"all {self._size} connections of this pool are"
        return f"PostgreSQL cannot be used now: {told} in use, and none came back for {self._patience:g} s."

    def leave(self) -> None:
        """Give the place to who is next."""
        self.moves += 1
        self._pass_on()

    def _pass_on(self) -> None:
        while self._line:
            place = self._line.popleft()
            if not place.done():
                place.set_result(None)
                return
        self._room += 1

    def leave_empty(self, pause: float = 0.0) -> None:
        """Give up a place that nothing was behind: nobody has it for so many seconds, and the line has not moved by it."""
        if pause:
            asyncio.get_running_loop().call_later(pause, self._pass_on)
        else:
            self._pass_on()

    def tell(self, error: errors.DatabaseUnavailable) -> None:
        """Tell all who stand in line that the database is away."""
        line, self._line = self._line, deque()
        for place in line:
            if not place.done():
                place.set_exception(errors.DatabaseUnavailable(error.message))

    async def __aenter__(self) -> None:
        """Wait for a place."""
        if self._room:
            self._room -= 1
        else:
            await self.enter()

    async def __aexit__(self, *_: object) -> None:
        """Give it on."""
        self.leave()
