"""A receiver of webhooks on the loopback address: it answers as it is told, well or badly, and remembers every call."""

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

from tests.patience import PATIENCE_SECONDS
from tests.stream_server import serve


@dataclass(frozen=True)
class Call:
    """One call, as it came over the wire."""

    path: str
    headers: dict[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)

    @property
    def event(self) -> str:
        return self.headers["webhook-id"]


Answer = Callable[[Call, asyncio.StreamWriter], Awaitable[None]]


def status(code: int, *headers: str, body: bytes = b"ok") -> Answer:
    """Answer with a status."""

    async def answer(_call: Call, writer: asyncio.StreamWriter) -> None:
        lines = [f"HTTP/1.1 {code} Said", f"Content-Length: {len(body)}", *headers, "", ""]
        writer.write("\r\n".join(lines).encode() + body)
        await writer.drain()

    return answer


def raw(data: bytes) -> Answer:
    """Answer with these bytes, and hang up."""

    async def answer(_call: Call, writer: asyncio.StreamWriter) -> None:
        writer.write(data)
        await writer.drain()
        writer.close()

    return answer


async def endless(_call: Call, writer: asyncio.StreamWriter) -> None:
    """Answer well, with a body that does not end."""
    writer.write(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
    while True:
        writer.write(b"1000\r\n" + b"x" * 4096 + b"\r\n")
        await writer.drain()


async def silence(_call: Call, _writer: asyncio.StreamWriter) -> None:
    """Say nothing, ever."""
    await asyncio.Event().wait()


@dataclass
class Receiver:
    """A server whose paths answer each in its own way."""

    port: int = 0
    answers: dict[str, Answer] = field(default_factory=dict)
    calls: list[Call] = field(default_factory=list)
    under_way: dict[str, int] = field(default_factory=dict)
    most: dict[str, int] = field(default_factory=dict)
    _came: asyncio.Event = field(default_factory=asyncio.Event)

    def url(self, path: str = "/") -> str:
        return f"http://127.0.0.1:{self.port}{path}"

    def of(self, path: str) -> list[Call]:
        return [call for call in self.calls if call.path == path]

    async def seen(self, count: int, path: str | None = None) -> list[Call]:
        """Wait until so many calls have come."""
        async with asyncio.timeout(PATIENCE_SECONDS):
            while len(calls := self.calls if path is None else self.of(path)) < count:
                self._came.clear()
                await self._came.wait()
        return calls

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while await self._one(reader, writer):
                pass
        except (ConnectionError, asyncio.IncompleteReadError):
            return
        finally:
            writer.close()

    async def _one(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
        head = (await reader.readuntil(b"\r\n\r\n")).decode().split("\r\n")
        headers = {name.lower(): value for name, _, value in (line.partition(": ") for line in head[1:]) if name}
        path = head[0].split()[1]
        call = Call(path, headers, await reader.readexactly(int(headers.get("content-length", "0"))))
        self.calls.append(call)
        self._came.set()
        self.under_way[path] = self.under_way.get(path, 0) + 1
        self.most[path] = max(self.most.get(path, 0), self.under_way[path])
        try:
            await self.answers.get(path, status(200))(call, writer)
        finally:
            self.under_way[path] -= 1
        return not writer.is_closing()


@asynccontextmanager
async def receiving() -> AsyncIterator[Receiver]:
    """Serve on a free port as long as the block lasts."""
    receiver = Receiver()
    async with serve(receiver.serve) as receiver.port:
        yield receiver
