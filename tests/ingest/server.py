"""A real HTTP server on loopback whose every answer is a test's own."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import orjson
from aiohttp import web

Answer = Callable[[web.Request], Awaitable[web.StreamResponse]]


class Server:
    """Where it is, and what it was asked."""

    def __init__(self, url: str) -> None:
        self.url = url
        self.asked: list[web.Request] = []

    def queries(self) -> list[dict[str, str]]:
        return [dict(request.query) for request in self.asked]


@asynccontextmanager
async def serving(answer: Answer) -> AsyncIterator[Server]:
    """Serve on a free port of the loopback address."""
    served: list[Server] = []

    async def handle(request: web.Request) -> web.StreamResponse:
        served[0].asked.append(request)
        return await answer(request)

    app = web.Application()
    app.router.add_route("*", "/{path:.*}", handle)
    runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.1)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    port = runner.addresses[0][1]
    served.append(Server(f"http://127.0.0.1:{port}"))
    try:
        yield served[0]
    finally:
        await runner.cleanup()


def page(value: Any, *, status: int = 200, headers: dict[str, str] | None = None) -> web.Response:
    return web.Response(body=orjson.dumps(value), status=status, headers=headers, content_type="application/json")


def always(response: Callable[[], web.StreamResponse]) -> Answer:
    async def answer(_request: web.Request) -> web.StreamResponse:
        return response()

    return answer


async def hang(_request: web.Request) -> web.StreamResponse:
    """Answer never."""
    await asyncio.Event().wait()
    raise AssertionError


async def truncate(request: web.Request) -> web.StreamResponse:
    """Promise more than is sent, and hang up."""
    response = web.StreamResponse(headers={"Content-Length": "1000", "Content-Type": "application/json"})
    await response.prepare(request)
    await response.write(b'{"items": [{"id": 1}')
    assert request.transport is not None
    request.transport.close()
    return response
