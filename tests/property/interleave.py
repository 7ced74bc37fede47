"""Two actors on one database, or three, one statement at a time, in a chosen order.

Each actor runs ordinary code of the product in a transaction of its own; before every statement, and before its commit, it
waits for the driver. The driver lets one of them take one step, and waits until that step is done or the server says that it
is blocked by another. A blocked actor is parked; it goes on by itself when the other has committed.
"""

import asyncio
import os
import random
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Iterator, Sequence
from contextlib import asynccontextmanager
from itertools import combinations
from typing import Any

from ferryman.kernel.db import Row
from ferryman.kernel.pool import Line, Session
from tests.patience import PATIENCE_SECONDS

# Who takes longer than most statements may be blocked: the server is asked, and ever less often while it says no.
FIRST_LOOK_SECONDS, LAST_LOOK_SECONDS = 0.001, 0.008
# A deadlock is told at once, and nobody is ended for having to wait for the driver.
SETTINGS = {"deadlock_timeout": "20ms", "idle_in_transaction_session_timeout": "0"}

Program = Callable[[Session], Awaitable[Any]]

ran = 0  # orders, in this process
cut = 0  # pairs and threes that have more orders than were walked


class Stepped(Session):
    """A session that asks before every statement."""

    __slots__ = ("_ask", "_within")

    def __init__(self, within: Session, ask: Callable[[], Awaitable[None]]) -> None:
        super().__init__(within._connection, within.schema)
        self._within = within
        self._ask = ask

    async def fetch(self, query: str, /, *args: Any) -> Sequence[Row]:
        await self._ask()
        return await self._within.fetch(query, *args)

    @asynccontextmanager
    async def transaction(self) -> AsyncIterator[Session]:
        """Open a savepoint; that is no step of its own."""
        async with self._within.transaction():
            yield self


class Actor:
    """One connection and what it does."""

    def __init__(self, line: Line, pid: int) -> None:
        self.line = line
        self.pid = pid
        self.steps = 0
        self.ended = True
        self.ended_at = 0.0
        self._go = asyncio.Semaphore(0)
        self._still = asyncio.Event()
        self._still.set()
        self._task: asyncio.Task[Any] | None = None

    async def begin(self, program: Program) -> None:
        self.steps = 0
        self.ended = False
        self._go = asyncio.Semaphore(0)
        self._still.clear()
        self._task = asyncio.create_task(self._run(program))
        await self._still.wait()

    async def _run(self, program: Program) -> Any:
        try:
            async with self.line.transaction() as tx:
                answer = await program(Stepped(tx, self._ask))
                await self._ask()
            return answer
        finally:
            self.ended = True
            self.ended_at = time.monotonic()
            self._still.set()

    async def _ask(self) -> None:
        self.steps += 1
        self._still.set()
        await self._go.acquire()

    @property
    def still(self) -> bool:
        """Whether it waits for the driver, or has ended."""
        return self._still.is_set()

    def step(self) -> None:
        self._still.clear()
        self._go.release()

    async def soon(self, seconds: float) -> bool:
        # Not wait_for, which makes a task of what it waits for.
        try:
            async with asyncio.timeout(seconds):
                await self._still.wait()
        except TimeoutError:
            return False
        return True

    async def answer(self) -> Any:
        assert self._task is not None
        return await self._task


class Driver:
    """Lets its actors take their steps in one order after the other."""

    def __init__(self, actors: Sequence[Actor], watcher: Line) -> None:
        self._actors = actors
        self._watcher = watcher
        self.blocked = 0

    async def count(self, place: int, program: Program) -> int:
        """Return how many steps a program takes when it is alone; what it did stays done."""
        actor = self._actors[place]
        await actor.begin(program)
        while not actor.ended:
            await self._advance(actor)
        await actor.answer()
        return actor.steps

    async def run(self, programs: Sequence[Program], order: Sequence[int]) -> tuple[Any, ...]:
        """Run all in this order of steps; return what each answered."""
        global ran  # noqa: PLW0603 - a count of the process
        ran += 1
        async with asyncio.timeout(PATIENCE_SECONDS):
            for actor, program in zip(self._actors, programs, strict=True):
                await actor.begin(program)
            for place in order:
                await self._advance(self._actors[place])
            while not all(actor.ended for actor in self._actors):
                for actor in self._actors:
                    await self._advance(actor)
            return tuple([await actor.answer() for actor in self._actors])

    async def walk(self, programs: Sequence[Program], walks: "Walks") -> tuple[Any, ...]:
        """Run all in an order that was not run before; return what each answered."""
        global ran  # noqa: PLW0603 - a count of the process
        ran += 1
        async with asyncio.timeout(PATIENCE_SECONDS):
            for actor, program in zip(self._actors, programs, strict=True):
                await actor.begin(program)
            while not all(actor.ended for actor in self._actors):
                able = [place for place, actor in enumerate(self._actors) if actor.still and not actor.ended]
                if able:
                    await self._advance(self._actors[walks.choose(able)])
                else:  # each waits for another: the server will say so
                    for actor in self._actors:
                        await self._settle(actor)
            walks.end()
            return tuple([await actor.answer() for actor in self._actors])

    def came(self, left: Sequence[object] = ()) -> tuple[int, ...]:
        """Say in which order they ended; who left something, and does it again, comes after the others."""
        late = {place for place, some in enumerate(left) if some}
        places = range(len(self._actors))
        return tuple(sorted(places, key=lambda place: (place in late, self._actors[place].ended_at)))

    async def _advance(self, actor: Actor) -> None:
        if actor.still and not actor.ended:
            actor.step()
            if not await self._settle(actor):
                self.blocked += 1
        # One who goes on may let another go on, who was asked before.
        while any([await self._settle(other) for other in self._actors if other is not actor and not other.still]):
            pass

    async def _settle(self, actor: Actor) -> bool:
        """Wait until an actor is still; False if it is blocked."""
        seconds = FIRST_LOOK_SECONDS
        while not await actor.soon(seconds):
            rows = await self._watcher.fetch("select cardinality(pg_blocking_pids($1)) > 0 as blocked", actor.pid)
            if rows[0]["blocked"] and not actor.still:
                return False
            seconds = min(2 * seconds, LAST_LOOK_SECONDS)
        return True


# Of each pair of moves so many orders are tried in the usual run, spread evenly; with ALL_ORDERS set, all of them.
MOST_ORDERS = 7


def some(possible: Iterable[tuple[int, ...]]) -> list[tuple[int, ...]]:
    """Choose the orders that are tried of a pair."""
    global cut  # noqa: PLW0603 - a count of the process
    every = list(possible)
    if os.environ.get("ALL_ORDERS") or len(every) <= MOST_ORDERS:
        return every
    cut += 1
    return [every[nth * (len(every) - 1) // (MOST_ORDERS - 1)] for nth in range(MOST_ORDERS)]


def orders(first: int, second: int) -> Iterator[tuple[int, ...]]:
    """Give every order of so many steps of each."""
    total = first + second
    for places in combinations(range(total), first):
        chosen = set(places)
        yield tuple(0 if place in chosen else 1 for place in range(total))


class Node:
    """What was chosen so far, and which choices are left to be made from there."""

    __slots__ = ("done", "led")

    def __init__(self) -> None:
        self.done = False
        self.led: dict[int, Node] = {}


class Walks:
    """The orders of one pair, or of three, that differ.

    Who is blocked has no choice, so that far fewer are left than the steps could have. Each walk is chosen by chance among
    those that were not walked, the same each time; when none is left it is done.
    """

    def __init__(self, seed: str) -> None:
        self._chance = random.Random(seed)
        self._root = Node()
        self._path: list[tuple[Node, int]] = []
        self._at = self._root

    @property
    def done(self) -> bool:
        """Whether every order was walked."""
        return self._root.done

    @property
    def path(self) -> tuple[int, ...]:
        """The order of the walk under way, or of the last one."""
        return tuple(place for _, place in self._path)

    def begin(self) -> None:
        """Start another walk."""
        self._path = []
        self._at = self._root

    def choose(self, able: Sequence[int]) -> int:
        """Say who takes the next step, of those who can."""
        for place in able:
            self._at.led.setdefault(place, Node())
        open = [place for place in able if not self._at.led[place].done] or list(able)
        chosen = self._chance.choice(open)
        self._path.append((self._at, chosen))
        self._at = self._at.led[chosen]
        return chosen

    def end(self) -> None:
        """Note that this order was walked."""
        self._at.done = True
        for node, _ in reversed(self._path):
            node.done = all(each.done for each in node.led.values())


# Of each pair so many different orders are walked in the usual run; with ALL_ORDERS set, all of them up to so many.
FEW_WALKS, MOST_WALKS = 1, 40
# With ALL_ORDERS three have so many walked: they have hundreds of orders, and are many more than pairs.
MOST_OF_THREE = 30


def walks(seed: str, *, few: int = FEW_WALKS, most: int = MOST_WALKS) -> Iterator[Walks]:
    """Give the walks of a pair, or of three, one after another."""
    global cut  # noqa: PLW0603 - a count of the process
    made = Walks(seed)
    for _ in range(most if os.environ.get("ALL_ORDERS") else few):
        made.begin()
        yield made
        if made.done:
            return
    cut += 1


@asynccontextmanager
async def driving(url: str, *, actors: int = 2) -> AsyncIterator[Driver]:
    """Connect so many actors and a watcher."""
    lines = [Line(url, settings=SETTINGS) for _ in range(actors)]
    watcher = Line(url)
    try:
        pids = [(await line.fetch("select pg_backend_pid() as pid"))[0]["pid"] for line in lines]
        yield Driver([Actor(line, pid) for line, pid in zip(lines, pids, strict=True)], watcher)
    finally:
        for line in (*lines, watcher):
            await line.close()
