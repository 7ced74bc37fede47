"""Connections: only so many at once, and none that keeps the server waiting (S6).

The time of a request begins when its head is there, and ends with its answer. Before and after it a client could take as
long as it likes, for the price of a descriptor of ours: it sends no head, or one byte now and then; it goes on with a body
whose request has been answered; it does not read its answer. The server that we run bounds none of these, only the pause
between two requests. So one look over all connections, some times in the time that a head may take, ends those that are
found at one place too often. It reads what the server knows of each, which costs a request nothing; and where this process
itself stood still, there were no looks, and nobody is late for it.

A server that is full lets go of one that has nothing to be answered, or else of one that has not sent all that it wants to be
answered: who sends nothing, or half, keeps nobody out.

Who sends requests ahead of their answers has some of them read before their turn. The server would take in another piece of
its flood for each answer that it gives, thousands of requests each; beyond a few the connection is ended.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, ClassVar, Final, NamedTuple

from uvicorn.protocols.http.auto import AutoHTTPProtocol

from ferryman.kernel import telemetry
from ferryman.kernel.settings import Http

if TYPE_CHECKING:
    from uvicorn._types import ASGI3Application
    from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol as Spoken
    from uvicorn.protocols.http.httptools_impl import RequestResponseCycle
else:
    Spoken = object

log = telemetry.logger("http")

# So often in the time of a head all connections are looked at; one may last a tenth longer.
LOOKS: Final = 10
# So many are asked to make room for a new one; where all of these are being answered, it is the new one that goes.
ASKED: Final = 100
# Descriptors that are not for clients: the database, files, the log.
OURS: Final = 4
# What may come beside a body: more than the headers that are answered at all, which are told what is wrong with them.
LOOSE: Final = 64 * 1024
# So many requests may wait for their turn on one connection; browsers send none ahead.
AHEAD: Final = 32
# What each piece of a body is wrapped in.
WRAP: Final = 16
TOO_LARGE: Final = b"HTTP/1.1 431 Request Header Fields Too Large\r\ncontent-length: 0\r\nconnection: close\r\n\r\n"


class Place(NamedTuple):
    """Where we wait for a client; another one means that it has moved."""

    unread: bool
    last: object
    taken: int


class Flooded(Exception):
    """A client sends requests and does not wait for their answers."""


class Watched(Spoken):
    """A connection of the server's own kind, whichever that is, that is counted and looked at."""

    fellows: ClassVar[Connections]
    place: Place | None = None
    looks: int = 0
    taken: int = 0

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Begin; the time of the first head begins too."""
        super().connection_made(transport)
        self.fellows.enter(self)

    def connection_lost(self, exc: Exception | None) -> None:
        """End."""
        self.fellows.leave(self)
        super().connection_lost(exc)

    def resume_writing(self) -> None:
        """Go on: the client has read."""
        self.taken += 1
        super().resume_writing()

    def asks(self) -> bool:
        """Say whether a request is being answered."""
        return bool(self.cycle) and not self.cycle.response_complete

    def is_owed(self) -> bool:
        """Say whether a request is there as a whole, and its answer is not."""
        return self.asks() and (self.cycle.response_started or not self.cycle.more_body)

    def waits(self) -> Place | None:
        """Return where we wait for the client, if we do: to read what it was sent, or to send the head of a request."""
        unread = self.transport.is_closing() or self.flow.write_paused
        if not unread and (self.asks() or self.timeout_keep_alive_task is not None):
            return None
        return Place(unread, self.cycle, self.taken)

    def _unsupported_upgrade_warning(self) -> None:
        """Pass over an upgrade, as HTTP allows; it is no news, and there is no library to be installed for it."""


class Measured(Watched):
    """A connection whose heads are read by httptools, which takes them at any length, and trailers for headers."""

    left: int = LOOSE
    answered: RequestResponseCycle | None = None  # the request whose turn it is: the newest may stand in line behind it

    def data_received(self, data: bytes) -> None:
        """Read on, as long as what comes is a body or comes to an end."""
        self.left -= len(data)
        super().data_received(data)
        if self.left < 0 and not self.transport.is_closing():
            self._refuse()

    def on_headers_complete(self) -> None:
        """Take the head as it is; what follows a body is no part of it, or it could speak in a proxy's name."""
        if len(self.pipeline) >= AHEAD:
            self.transport.abort()
            raise Flooded  # the parser reads no further
        self.left = LOOSE
        super().on_headers_complete()
        self.headers = []

    def _start_asgi_task(self, cycle: RequestResponseCycle, app: ASGI3Application) -> None:
        """Begin to answer a request."""
        self.answered = cycle
        super()._start_asgi_task(cycle, app)

    def connection_lost(self, exc: Exception | None) -> None:
        """Tell also the request whose turn it is that its client has gone: the server tells the newest."""
        self.pipeline.clear()
        super().connection_lost(exc)
        if self.answered is not None and not self.answered.response_complete:
            self.answered.disconnected = True
            self.answered.message_event.set()

    def on_body(self, body: bytes) -> None:
        """Take a piece of a body, which has bounds of its own."""
        self.left = min(LOOSE, self.left + len(body) + WRAP)
        super().on_body(body)

    def _refuse(self) -> None:
        if self.asks():
            self.transport.abort()
        else:
            self.transport.write(TOO_LARGE)
            self.transport.close()


class Connections:
    """All connections of one server."""

    def __init__(self, settings: Http) -> None:
        """Bound how many there are, and how long each may let us wait."""
        self._most = within_reach(settings.connections)
        self._pause = settings.head_time.total_seconds() / LOOKS
        self._unread = settings.request_time.total_seconds() / self._pause
        self._open: OrderedDict[Watched, None] = OrderedDict()

    def __len__(self) -> int:
        """How many are open."""
        return len(self._open)

    def protocol(self) -> type[asyncio.Protocol]:
        """Return what the server is to make for each of them: its own choice, watched."""
        kind = Measured if hasattr(AutoHTTPProtocol, "on_headers_complete") else Watched
        return type("Connection", (kind, AutoHTTPProtocol), {"fellows": self})

    def enter(self, new: Watched) -> None:
        """Count one more; where there is no room, one goes."""
        new.place = new.waits()
        self._open[new] = None
        if len(self._open) > self._most and not self._make_room(new):
            new.transport.abort()

    def leave(self, gone: Watched) -> None:
        """Count one less."""
        self._open.pop(gone, None)

    def _make_room(self, new: Watched) -> bool:
        return self._let_go(new, unless=Watched.asks) or self._let_go(new, unless=Watched.is_owed)

    def _let_go(self, new: Watched, *, unless: Callable[[Watched], bool]) -> bool:
        for _ in range(min(ASKED, len(self._open))):
            each = next(iter(self._open))
            self._open.move_to_end(each)
            if each is not new and not unless(each):
                self.leave(each)
                each.transport.abort()
                return True
        return False

    @contextmanager
    def watched(self) -> Iterator[None]:
        """Look at all connections as long as the block lasts, and let go of those that are left at its end."""
        watching = asyncio.create_task(self._watch())
        try:
            yield
        finally:
            watching.cancel()
            for each in list(self._open):
                each.transport.abort()

    async def _watch(self) -> None:
        while True:
            await asyncio.sleep(self._pause)
            late = [each for each in self._open if self._late(each)]
            for each in late:
                each.transport.abort()
            if late:
                log.info("connections that kept the server waiting were closed", extra={"count": len(late)})

    def _late(self, each: Watched) -> bool:
        place = each.waits()
        if place is None or place != each.place:
            each.place, each.looks = place, 0
            return False
        each.looks += 1
        return each.looks > (self._unread if place.unread else LOOKS)


def within_reach(most: int) -> int:
    """Return how many connections there can be: what a process may open is not for clients alone."""
    try:
        import resource
    except ImportError:  # where it is not there, nothing of the kind is
        return most
    descriptors, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return most if descriptors == resource.RLIM_INFINITY else min(most, descriptors - descriptors // OURS)
