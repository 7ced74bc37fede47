"""A real server on a free port of the loopback address, and a client that asks it."""

from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass
from typing import Any

import aiohttp
import pytest

from ferryman import Context, Ferryman
from ferryman.http.serving import serving
from tests.http import refusals


@dataclass(frozen=True)
class Reply:
    """What a server answered."""

    status: int
    headers: Mapping[str, str]
    json: Any


class Client:
    """Asks a server."""

    def __init__(self, session: aiohttp.ClientSession, url: str) -> None:
        self.session = session
        self.url = url

    async def ask(self, method: str, path: str, body: Any = None, **headers: str) -> Reply:
        """Send a request; names of headers are written with _ for -."""
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        async with self.session.request(method, self.url + path, json=body, headers=named) as answer:
            json = await answer.json(content_type=None) if "json" in answer.content_type else await answer.text()
            refusals.check(method, path, answer.status, json)
            return Reply(answer.status, answer.headers, json)

    async def get(self, path: str, **headers: str) -> Reply:
        """Read."""
        return await self.ask("GET", path, **headers)

    async def post(self, path: str, body: Any = None, **headers: str) -> Reply:
        """Send."""
        return await self.ask("POST", path, body, **headers)


@pytest.fixture
async def app(database_url: str) -> AsyncIterator[Ferryman]:
    """An opened app that knows two handlers."""
    ferryman = Ferryman(database_url)

    @ferryman.task
    async def greet(name: str) -> str:
        return f"Hello, {name}"

    @ferryman.task
    async def ask(ctx: Context) -> Any:
        return await ctx.wait_event("approved")

    async with ferryman:
        yield ferryman


@pytest.fixture
async def client(app: Ferryman) -> AsyncIterator[Client]:
    """A client of that app's server."""
    async with serving(app, guard=None, port=0) as served, aiohttp.ClientSession() as session:
        yield Client(session, served.url)
