"""A doorbell only saves waiting (K2).

After a commit the writer rings; whoever may have something to do looks at the database. A ring carries no meaning: it can be
lost, doubled or late, and polling still ends all work. Its hints (queues, task ids) only narrow a look; no hints, or too
many, mean "look at everything". Whoever reaches the wire can ring, so nothing is believed: what a ring names is looked for with
the rights of whoever looks, and what nobody of ours would have written is not taken for a name at all.

`ring()` never blocks and never raises. It only notes the ring; at the end of the same turn of the event loop the notes are
told to the listeners of this process, merged by topic, and given to a `Carrier` for the other processes. The carrier sends
at once when it is idle. What is rung while it sends is merged and travels in the next bundle, so that the wire itself sets the
pace: one ring costs one message, and a thousand rings a second cost as many messages as there are round trips. A bundle that
could not be sent is kept, merged with what comes, and tried again.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import re
from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import Protocol

from ferryman.kernel import telemetry
from ferryman.kernel.retry import Backoff
from ferryman.kernel.timed import timed

LOG = logging.getLogger("ferryman.doorbell")

# Beyond this many hints, looking at everything is cheaper than carrying and comparing them.
MAX_HINTS = 64
# The longest that is rung for names a lane: a queue and a tenant, and marks between.
MAX_HINT_CHARACTERS = 500

# Tried again for ever. All processes lose the same server at one moment: as much jitter as there is.
BACKOFF = Backoff(base=timedelta(milliseconds=50), factor=2.0, cap=timedelta(seconds=5), jitter=1.0)

FAREWELL_SECONDS = 1.0

EVERYTHING: frozenset[str] = frozenset()

_UNHEARD_OF = re.compile("[\x00\ud800-\udfff]")

Heard = Callable[[frozenset[str]], None]
Bundle = Mapping[str, frozenset[str]]


@dataclass(slots=True)
class Inside:
    """A ring that goes with a transaction: what it must notify, and what became of it.

    One that comes close upon another of its topic takes nothing along: it is put off, and goes with one that comes later.
    """

    channel: str | None
    word: str | None
    at: float = 0.0  # on the monotonic clock
    needless: bool = False  # nobody else needs to be rung: it was done, or nobody listens
    rung: bool = False

    @property
    def put_off(self) -> bool:
        """Whether it is rung a moment later."""
        return self.channel is None

    def answer(self, said: str | None) -> None:
        """Take what the transaction says: 'rung'; 'nobody', because nobody listens; or nothing, because it could not ring."""
        self.needless, self.rung = said is not None, said == "rung"


class Doorbell(Protocol):
    """Tells listeners, here and in other processes, to look."""

    async def open(self) -> None:
        """Begin to carry rings. A server that is away is no error: the doorbell heals itself."""

    async def close(self) -> None:
        """Send what was rung, within a moment, and stop."""

    def ring(self, topic: str, hints: Iterable[str] = (), *, inside: Inside | None = None) -> None:
        """Tell whoever listens to the topic to look; called after the commit. Never blocks, never raises.

        `inside` is what its transaction took along: who listens here is told at once in any case, the others as is left to do.
        """

    def inside(self, topic: str, hints: Iterable[str] = ()) -> Inside | None:
        """Give the ring that a transaction can take along; None where rings go another way."""

    def listen(self, topic: str, heard: Heard) -> Callable[[], None]:
        """Call `heard` with the hints of each ring (none: look at everything); return what stops it."""


def pause(failures: int) -> float:
    """Return how many seconds to wait after so many failures in a row."""
    return BACKOFF.delay(failures).total_seconds()


def hinted(given: object) -> frozenset[str]:
    """Return the hints of a ring from elsewhere; what none of ours would carry means: look at everything.

    A name that PostgreSQL cannot hold would fail every statement it came to stand in, and one without end would be kept.
    """
    if isinstance(given, list) and len(given) <= MAX_HINTS and all(map(_is_hint, given)):
        return frozenset(given)
    return EVERYTHING


def _is_hint(given: object) -> bool:
    return isinstance(given, str) and len(given) <= MAX_HINT_CHARACTERS and _UNHEARD_OF.search(given) is None


class Rings:
    """Rings that wait, merged: for each topic its hints, or none where everything must be looked at."""

    def __init__(self) -> None:
        self._waiting: dict[str, frozenset[str]] = {}

    def add(self, topic: str, hints: frozenset[str]) -> None:
        """Merge one more ring."""
        self._waiting[topic] = self.merged(topic, hints)

    def take(self) -> Bundle:
        """Give out what waits and begin anew."""
        bundle, self._waiting = self._waiting, {}
        return bundle

    def __bool__(self) -> bool:
        return bool(self._waiting)

    def __contains__(self, topic: str) -> bool:
        return topic in self._waiting

    def merged(self, topic: str, hints: frozenset[str]) -> frozenset[str]:
        """Return the hints of one more ring with those that wait."""
        waiting = self._waiting.get(topic)
        if waiting is not None:
            hints = waiting | hints if waiting and hints else EVERYTHING
        return hints if len(hints) <= MAX_HINTS else EVERYTHING

    def drop(self, topic: str) -> None:
        """Forget what waits for a topic."""
        self._waiting.pop(topic, None)


class Local:
    """The listeners of this process, and the way of a ring to them and on to `carry`."""

    def __init__(self, carry: Callable[[Bundle], None] | None = None) -> None:
        self._carry = carry
        self._listeners: dict[str, dict[object, Heard]] = {}
        self._rings = Rings()
        self._carried = Rings()
        self._loop: asyncio.AbstractEventLoop | None = None

    @property
    def is_open(self) -> bool:
        """Whether rings are told."""
        return self._loop is not None

    def open(self) -> None:
        """Ring in the running event loop from now on."""
        self._loop = asyncio.get_running_loop()

    def close(self) -> None:
        """Tell what was rung, and no more."""
        self._deliver()
        self._loop = None

    def ring(self, topic: str, hints: Iterable[str], *, here: bool = False) -> None:
        """Note a ring; also from another thread, such as a plain handler's."""
        loop = self._loop
        if loop is None or (here and not self._listeners.get(topic)):
            return  # nobody is left to be told, and a turn of the loop would be spent on that
        narrowed = frozenset((hints,) if isinstance(hints, str) else hints)
        if _running_loop() is loop:
            self._note(topic, narrowed, here)
            return
        with contextlib.suppress(RuntimeError):  # the loop has been closed: nobody is left to hear
            loop.call_soon_threadsafe(self._note, topic, narrowed, here)

    def listen(self, topic: str, heard: Heard) -> Callable[[], None]:
        """Add a listener; return what removes it."""
        key = object()
        self._listeners.setdefault(topic, {})[key] = heard

        def stop() -> None:
            self._listeners.get(topic, {}).pop(key, None)

        return stop

    def tell(self, topic: str, hints: frozenset[str]) -> bool:
        """Call the listeners of a topic, if any; one that fails does not keep the others from hearing."""
        listeners = tuple(self._listeners.get(topic, {}).values())
        for heard in listeners:
            try:
                heard(hints)
            except Exception:
                LOG.exception("a listener of %r failed", topic)
        return bool(listeners)

    def tell_all(self) -> None:
        """Tell every listener to look at everything: rings may have been missed."""
        for topic in tuple(self._listeners):
            self.tell(topic, EVERYTHING)

    def _note(self, topic: str, hints: frozenset[str], here: bool) -> None:
        if self._loop is None:
            return
        if not self._rings:
            self._loop.call_soon(self._deliver)
        self._rings.add(topic, hints)
        if not here:
            self._carried.add(topic, hints)

    def _deliver(self) -> None:
        for topic, hints in self._rings.take().items():
            self.tell(topic, hints)
        carried = self._carried.take()
        if carried and self._carry is not None:
            self._carry(carried)


def _running_loop() -> asyncio.AbstractEventLoop | None:
    try:
        return asyncio.get_running_loop()
    except RuntimeError:
        return None


class Carrier:
    """Sends bundles to other processes, one at a time; what comes meanwhile is merged into the next."""

    def __init__(self, doorbell: str, send: Callable[[Bundle], Awaitable[None]]) -> None:
        self._doorbell = doorbell
        self._send = send
        self._rings = Rings()
        self._sending: asyncio.Task[None] | None = None
        self._hurry = asyncio.Event()

    def take(self, bundle: Bundle) -> None:
        """Accept rings to be sent."""
        for topic, hints in bundle.items():
            self._rings.add(topic, hints)
        if self._rings and (self._sending is None or self._sending.done()):
            self._sending = asyncio.create_task(self._run(), name="ferryman doorbell")

    def hurry(self) -> None:
        """Try again now what could not be sent: the way is open again."""
        self._hurry.set()

    async def close(self) -> None:
        """Give what waits a moment to leave, then stop."""
        if self._sending is None:
            return
        self.hurry()
        await asyncio.wait([self._sending], timeout=FAREWELL_SECONDS)
        await stop(self._sending)

    async def _run(self) -> None:
        failures = 0
        while self._rings:
            bundle = self._rings.take()
            self._hurry.clear()
            try:
                await self._send(bundle)
            except Exception as error:  # noqa: BLE001 - whatever it was, the ring is kept and nobody is failed by it
                failures += 1
                telemetry.unrung(self._doorbell)
                LOG.debug("a ring could not be sent (%d in a row): %s", failures, error)
                self.take(bundle)
                with contextlib.suppress(TimeoutError):
                    await timed(self._hurry.wait(), pause(failures))
            else:
                failures = 0


async def stop(task: asyncio.Task[None]) -> None:
    """End a task of ours and wait until it is gone; asked again, because nats-py swallows a cancellation here and there."""
    while not task.done():
        task.cancel()
        await asyncio.wait([task], timeout=0.1)


class NoDoorbell:
    """Nothing is carried between processes: they poll."""

    def __init__(self) -> None:
        self.rung = 0
        self._local = Local()

    async def open(self) -> None:
        """Begin."""
        self._local.open()

    async def close(self) -> None:
        """Stop."""
        self._local.close()

    def ring(self, topic: str, hints: Iterable[str] = (), *, inside: Inside | None = None) -> None:
        """Tell the listeners of this process."""
        self.rung += 1
        self._local.ring(topic, hints)

    def inside(self, topic: str, hints: Iterable[str] = ()) -> Inside | None:
        """No transaction can ring for a process that only polls."""
        return None

    def listen(self, topic: str, heard: Heard) -> Callable[[], None]:
        """Hear the rings of this process."""
        return self._local.listen(topic, heard)
