"""Text that is streamed to whoever listens now, and kept nowhere (A15).

Listeners of this process are told at once. Where NATS is configured the text also goes to the subject
that its sender names, so that others can hear it; nothing waits for that, and while the
server is away what is said is lost. A sender that outruns the wire loses the oldest of what waits.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
from collections import deque
from collections.abc import AsyncIterator, Callable
from typing import TYPE_CHECKING

from ferryman.kernel.farewell import hang_up
from ferryman.kernel.nats_flush import flush_all

if TYPE_CHECKING:
    from nats.aio.client import Client
    from nats.aio.msg import Msg

log = logging.getLogger("ferryman.stream")

WAITING_MAX = 1000
CONNECT_SECONDS = 2.0

Heard = Callable[[str], None]


class Streams:
    """Carry text from whoever says it to whoever listens."""

    def __init__(self, nats_url: str | None = None, *, prefix: str = "fm") -> None:
        """Go through NATS too, if there is an address, under subjects that begin so; connected when it is needed first."""
        self._url = nats_url
        self.prefix = prefix
        self._connecting = asyncio.Lock()
        self._listeners: dict[str, dict[object, Heard]] = {}
        self._waiting: deque[tuple[str, bytes]] = deque(maxlen=WAITING_MAX)
        self._sender: asyncio.Task[None] | None = None
        self._client: Client | None = None

    def say(self, key: str, text: str, *, to: str) -> None:
        """Stream a piece of text about `key` to a subject; never blocks, never raises."""
        for heard in list(self._listeners.get(key, {}).values()):
            heard(text)
        if self._url is not None:
            self._waiting.append((to, json.dumps({"key": key, "text": text}).encode()))
            if self._sender is None:
                self._sender = asyncio.get_running_loop().create_task(self._send())

    @contextlib.asynccontextmanager
    async def listen(self, key: str, *, to: str | None = None) -> AsyncIterator[asyncio.Queue[str]]:
        """Give what is said about `key` from now on; with a subject also what others say."""
        heard: asyncio.Queue[str] = asyncio.Queue(WAITING_MAX)
        mine = object()
        self._listeners.setdefault(key, {})[mine] = lambda text: _put(heard, text)
        away = None
        try:
            if self._url is not None and to is not None:
                client = await self._connected()

                async def told(message: Msg) -> None:
                    text = _said(message.data, key)
                    if text is not None:
                        _put(heard, text)

                away = await client.subscribe(to, cb=told)
                await flush_all(client)
            yield heard
        finally:
            self._listeners[key].pop(mine)
            if not self._listeners[key]:
                del self._listeners[key]
            if away is not None:
                await away.unsubscribe()

    async def _connected(self) -> Client:
        from nats.aio.client import Client

        # One connection for those who speak and those who listen: by no_echo nobody here hears twice what was said here.
        async with self._connecting:
            if self._client is None or self._client.is_closed:
                client = Client()
                assert self._url is not None
                await client.connect(self._url, name="ferryman stream", no_echo=True, connect_timeout=CONNECT_SECONDS)  # type: ignore[arg-type]
                self._client = client
            return self._client

    async def _send(self) -> None:
        try:
            while self._waiting:
                to, word = self._waiting.popleft()
                try:
                    await (await self._connected()).publish(to, word)
                except Exception as error:
                    log.debug("a stream was not carried", exc_info=error)
                    self._waiting.clear()
                    return
        finally:
            self._sender = None

    async def close(self) -> None:
        """Hang up."""
        if self._sender is not None:
            await asyncio.wait([self._sender], timeout=CONNECT_SECONDS)
        if self._client is not None:
            await hang_up(self._client)


def _said(data: bytes, key: str) -> str | None:
    """Return what a message says about `key`: whoever reaches the wire can speak there, and need not speak as we do."""
    try:
        word = json.loads(data)
    except (ValueError, RecursionError):
        return None
    match word:
        case {"key": about, "text": str(text)} if about == key:
            return text
    return None


def _put(heard: asyncio.Queue[str], text: str) -> None:
    if heard.full():
        heard.get_nowait()  # what is streamed is for now: the oldest is lost
    heard.put_nowait(text)
