"""A client that speaks ASGI to a server in this process: it can say what no well-mannered client would."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import unquote

from starlette.types import ASGIApp, Message

HOST = "localhost:8420"


@dataclass(frozen=True)
class Reply:
    """What a server answered."""

    status: int
    headers: list[tuple[str, str]]
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)

    @property
    def code(self) -> str | None:
        """The code of a problem."""
        return self.json["code"] if self.header("content-type") == "application/problem+json" else None

    def header(self, name: str) -> str | None:
        return next((value for each, value in self.headers if each == name), None)

    @property
    def cookie(self) -> str:
        """What a browser would send back."""
        return (self.header("set-cookie") or "").partition(";")[0]


class Wire:
    """Asks a server, as one caller."""

    def __init__(
        self,
        web: ASGIApp,
        *,
        token: str | None = None,
        host: str = HOST,
        client: str = "127.0.0.1",
        listens: bool = False,
    ) -> None:
        """Leave a stream at its head, or if it `listens` when the stream has told something or has twice told nothing."""
        self.web = web
        self.listens = listens
        self.token = token
        self.host = host
        self.client = client

    def of(self, token: str | None) -> Wire:
        return Wire(self.web, token=token, host=self.host, client=self.client, listens=self.listens)

    async def ask(
        self,
        method: str,
        target: str,
        body: Any = None,
        *,
        headers: Sequence[tuple[str, str]] = (),
        chunks: Sequence[bytes] | None = None,
        seen: Callable[[Message], Awaitable[None]] | None = None,
        said_length: bool = True,
        **named: str,
    ) -> Reply:
        """Send a request; names of headers are written with _ for -. A body that is no bytes is sent as JSON."""
        path, _, query = target.partition("?")
        raw = body if isinstance(body, bytes) else b"" if body is None else json.dumps(body).encode()
        given = [(name.replace("_", "-").lower(), value) for name, value in named.items()] + list(headers)
        names = {name for name, _ in given}
        if "host" not in names:
            given.append(("host", self.host))
        if self.token is not None and "authorization" not in names:
            given.append(("authorization", f"Bearer {self.token}"))
        if body is not None and "content-type" not in names:
            given.append(("content-type", "application/json"))
        if chunks is None and raw and said_length and "content-length" not in names:
            given.append(("content-length", str(len(raw))))
        scope = {
            "type": "http", "asgi": {"version": "3.0", "spec_version": "2.3"}, "http_version": "1.1", "method": method,
            "scheme": "http", "path": unquote(path), "raw_path": path.encode("latin-1"), "root_path": "",
            "query_string": query.encode("latin-1"), "client": (self.client, 50000), "server": ("127.0.0.1", 8420),
            "headers": [(name.encode("latin-1"), value.encode("latin-1")) for name, value in given],
        }  # fmt: skip
        return await self._exchange(scope, [raw] if chunks is None else list(chunks), seen)

    async def _exchange(
        self, scope: dict[str, Any], chunks: list[bytes], seen: Callable[[Message], Awaitable[None]] | None
    ) -> Reply:
        said: list[Message] = []
        gone = asyncio.Event()

        async def receive() -> Message:
            if chunks:
                chunk = chunks.pop(0)
                return {"type": "http.request", "body": chunk, "more_body": bool(chunks)}
            await gone.wait()
            return {"type": "http.disconnect"}

        async def send(message: Message) -> None:
            said.append(message)
            if seen is not None:
                await seen(message)
            elif _endless(said[0]) and not self.listens:
                running.cancel()
            elif _endless(said[0]) and (len(said) > 2 or b"data:" in message.get("body", b"")):
                gone.set()

        running = asyncio.ensure_future(self.web(scope, receive, send))
        await asyncio.wait([running])
        if not running.cancelled():
            running.result()
        start = said[0]
        headers = [(name.decode("latin-1").lower(), value.decode("latin-1")) for name, value in start["headers"]]
        return Reply(start["status"], headers, b"".join(each.get("body", b"") for each in said[1:]))

    async def get(self, target: str, **named: Any) -> Reply:
        return await self.ask("GET", target, **named)

    async def post(self, target: str, body: Any = None, **named: Any) -> Reply:
        return await self.ask("POST", target, body, **named)


def _endless(message: Message) -> bool:
    return any(value.startswith(b"text/event-stream") for _, value in message["headers"])


async def nothing(_message: Message) -> None:
    """Read a stream to its end."""
