"""A wire between a client and PostgreSQL that can be cut at the worst moment, and a gate-keeper like a pooler's."""

import asyncio
import contextlib
import re
import struct
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from urllib.parse import parse_qs, urlsplit

from tests.stream_server import serve

IDLE = b"Z\x00\x00\x00\x05I"  # ReadyForQuery outside a transaction: what was sent has committed
WITHIN = b"Z\x00\x00\x00\x05T"  # inside of one
COMMIT = re.compile(rb"Q....commit;?\0", re.IGNORECASE | re.DOTALL)  # by itself, as a simple query
PROTOCOL = 196608
OURS = (b"user", b"database", b"client_encoding", b"application_name")


class Wire:
    """Carries bytes between TCP clients and the server's socket.

    `cut_reply(marker)`: the next message that carries the marker to the server is executed there; its answer never comes
    and the connection is lost. `cut_commit(marker, then)`: so it is with the commit of the next transaction that carries the
    marker, or with the marker itself where that commits alone; `then` is called before anybody could know of it.
    `cut_answer(marker)`: the answer that carries the marker is lost on its way back.
    `before_answer(marker, then)`: the answer to the next message that carries the marker comes through after `then` was called.
    `refuse()`: every connection is cut, and no other is let in before `mend()`. `lose()`: from now on nothing comes through,
    either way, and nobody is told; after `mend()` new connections are carried, those that lost something never again.
    """

    def __init__(self, socket_path: str, *, strict: bool = False) -> None:
        self.cuts = 0
        self.refusals = 0
        self.connections = 0
        self._socket_path = socket_path
        self._strict = strict
        self._going: bytes | None = None
        self._coming: bytes | None = None
        self._awaited: bytes | None = None
        self._tasks: set[asyncio.Task[None]] = set()
        self.lost = 0
        self._losing = False
        self._refusing = False
        self._mended = asyncio.Event()
        self._then: Callable[[], None] | None = None
        self._committing: bytes | None = None

    def refuse(self) -> None:
        self._refusing = True
        for task in self._tasks:
            if task is not asyncio.current_task():
                task.cancel()

    def lose(self) -> None:
        self._losing = True
        self._mended.clear()

    def mend(self) -> None:
        self._losing = self._refusing = False
        self._mended.set()

    async def swallow(self) -> None:
        """Keep a chunk for ever, if the wire is losing."""
        if self._losing:
            self.lost += 1
            await asyncio.Event().wait()

    def cut_reply(self, marker: str) -> None:
        self._going = marker.encode()

    def cut_commit(self, marker: str, *, then: Callable[[], None]) -> None:
        self._committing = marker.encode()
        self._then = then

    def cut_answer(self, marker: str, *, then: Callable[[], None] | None = None) -> None:
        self._coming = marker.encode()
        self._then = then

    def before_answer(self, marker: str, then: Callable[[], None]) -> None:
        self._awaited = marker.encode()
        self._then = then

    async def carry(self, client: asyncio.StreamReader, back: asyncio.StreamWriter) -> None:
        """Carry one connection to its end."""
        self.connections += 1
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        writers = [back]
        try:
            if self._refusing:
                return
            if self._losing:
                await self._mended.wait()
            server, out = await asyncio.open_unix_connection(self._socket_path)
            writers.append(out)
            await Connection(self, client, back, server, out).run()
        except (ConnectionError, asyncio.IncompleteReadError):
            pass  # one side hung up: so does the other
        except asyncio.CancelledError:
            if not self._refusing:
                raise
        finally:
            for writer in writers:
                writer.close()
                with contextlib.suppress(ConnectionError):
                    await writer.wait_closed()
            self._tasks.discard(task)

    async def close(self) -> None:
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)


class Connection:
    """One client's connection."""

    def __init__(
        self,
        wire: Wire,
        client: asyncio.StreamReader,
        back: asyncio.StreamWriter,
        server: asyncio.StreamReader,
        out: asyncio.StreamWriter,
    ) -> None:
        self._wire, self._client, self._back, self._server, self._out = wire, client, back, server, out
        self._doomed = False
        self._marked = False
        self._within = False
        self._then: Callable[[], None] | None = None
        self._tail = b""

    async def run(self) -> None:
        if not await self._greet():
            return
        pumps = [asyncio.ensure_future(self._going()), asyncio.ensure_future(self._coming())]
        try:
            await asyncio.wait(pumps, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for pump in pumps:
                pump.cancel()
            await asyncio.gather(*pumps, return_exceptions=True)

    async def _greet(self) -> bool:
        """Read the startup message; as a pooler does, refuse settings that it does not know."""
        while True:
            length = await self._client.readexactly(4)
            body = await self._client.readexactly(struct.unpack("!I", length)[0] - 4)
            if struct.unpack("!I", body[:4])[0] == PROTOCOL:
                break
            if len(body) > 4:  # a request to cancel: carried as it is
                self._out.write(length + body)
                return True
            self._back.write(b"N")  # no encryption here
        names = body[4:].split(b"\0")[0:-2:2]
        odd = [name for name in names if name not in OURS]
        if self._wire._strict and odd:
            self._wire.refusals += 1
            said = b"SFATAL\0C08P01\0Munsupported startup parameter: " + odd[0] + b"\0\0"
            self._back.write(b"E" + struct.pack("!I", len(said) + 4) + said)
            await self._back.drain()
            return False
        self._out.write(length + body)
        return True

    async def _going(self) -> None:
        while chunk := await self._client.read(1 << 16):
            marker = self._wire._going
            if marker is not None and marker in self._tail + chunk:
                self._wire._going = None
                self._doomed = True
            self._mark(chunk)
            awaited = self._wire._awaited
            if awaited is not None and awaited in self._tail + chunk:
                self._wire._awaited = None
                self._then = self._wire._then
            self._tail = chunk[-100:]
            await self._wire.swallow()
            self._out.write(chunk)
            await self._out.drain()

    def _mark(self, chunk: bytes) -> None:
        """Look for a transaction whose commit is to be cut."""
        marker = self._wire._committing
        if marker is not None and marker in self._tail + chunk:
            self._wire._committing = None
            self._marked = True
        if self._marked and (not self._within or COMMIT.search(chunk)):
            self._marked = False
            self._doomed = True

    async def _coming(self) -> None:
        while chunk := await self._server.read(1 << 16):
            self._within = chunk.endswith(WITHIN) or (self._within and not chunk.endswith(IDLE))
            marker = self._wire._coming
            if marker is not None and marker in chunk:
                self._wire._coming = None
                self._doomed = True
            if self._doomed:
                if chunk.endswith(IDLE):
                    self._wire.cuts += 1
                    if self._wire._then is not None:
                        self._wire._then()
                    return
                continue
            await self._wire.swallow()
            if self._then is not None:
                self._then()
                self._then = None
            self._back.write(chunk)
            await self._back.drain()


@asynccontextmanager
async def wired(url: str, *, strict: bool = False) -> AsyncIterator[tuple[Wire, str]]:
    """Lay a wire to a server that listens on a socket; give it and the address of its near end."""
    parts = urlsplit(url)
    folder = parse_qs(parts.query)["host"][0]
    wire = Wire(f"{folder}/.s.PGSQL.5432", strict=strict)
    async with serve(wire.carry) as port:
        try:
            yield wire, f"postgresql://postgres@127.0.0.1:{port}{parts.path}"
        finally:
            await wire.close()
