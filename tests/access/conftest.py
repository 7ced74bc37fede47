"""An app with one handler, its server in this process, and a wire to it."""

import hmac
from collections.abc import AsyncIterator
from typing import Any, Protocol

import pytest

from ferryman import Ferryman
from ferryman.app.tokens import ALL
from ferryman.http.server import make
from tests.access.wire import Wire


class MakeApp(Protocol):
    """Makes apps on the database of the test."""

    async def __call__(self, **settings: Any) -> Ferryman: ...


@pytest.fixture
async def make_app(database_url: str) -> AsyncIterator[MakeApp]:
    opened: list[Ferryman] = []

    async def made(**settings: Any) -> Ferryman:
        app = Ferryman(database_url, **settings)

        @app.task
        async def greet(name: str) -> str:
            return f"Hello, {name}"

        opened.append(await app.open())
        return app

    yield made
    for app in opened:
        await app.close()


@pytest.fixture
async def app(make_app: MakeApp) -> Ferryman:
    return await make_app(doorbell="none")


@pytest.fixture
def wire(app: Ferryman) -> Wire:
    return Wire(make(app))


async def operator(app: Ferryman, name: str = "root") -> str:
    """Make an operator's token."""
    return (await app.tokens.create(name, scopes="admin", tenant=ALL)).text


@pytest.fixture
def compared(monkeypatch: pytest.MonkeyPatch) -> list[tuple[Any, Any]]:
    """Give what is compared from now on in a time that tells nothing."""
    found: list[tuple[Any, Any]] = []
    honest = hmac.compare_digest

    def compare(one: Any, other: Any) -> bool:
        found.append((one, other))
        return honest(one, other)

    monkeypatch.setattr(hmac, "compare_digest", compare)
    return found
