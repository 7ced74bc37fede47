"""What a handler held is freed when it has ended, not when the collector of cycles comes by (P10)."""

import asyncio
import gc
import weakref
from collections.abc import Iterator

import pytest

from ferryman import Turn
from ferryman.agents.work import life
from tests.agents.crew import at_work, fresh, send, until
from tests.patience import PATIENCE_SECONDS


@pytest.fixture(autouse=True)
def _no_collector() -> Iterator[None]:
    gc.disable()
    yield
    gc.enable()


@pytest.mark.contract("P10")
@pytest.mark.parametrize("way", ["waits", "raises", "submits"])
async def test_nothing_of_a_handler_outlives_it(way: str, database_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(life, "AGAIN_SECONDS", 3600.0)  # what a timer holds would be held for that long
    held: list[weakref.ref[object]] = []
    app = fresh(database_url, **{"agents.kept_handlers": 0})

    @app.tool(external=True)
    def never() -> None: ...

    @app.agent
    async def handler(turn: Turn) -> None:
        held.extend(weakref.ref(each) for each in (turn, turn._memory))
        match way:
            case "waits":
                await turn.call_tool("never")
            case "raises":
                raise ValueError("no")
            case "submits":
                await turn.submit_result("done")

    async with at_work(app):
        await send(app, handler)
        await until(lambda: held and all(each() is None for each in held), seconds=10)


async def test_a_handler_that_catches_its_cancellation_is_cancelled_again(
    database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(life, "AGAIN_SECONDS", 0.01)
    ended = asyncio.Event()
    app = fresh(database_url, **{"agents.kept_handlers": 0})

    @app.tool(external=True)
    def never() -> None: ...

    @app.agent
    async def stubborn(turn: Turn) -> None:
        try:
            await turn.call_tool("never")
        except asyncio.CancelledError:
            try:
                await asyncio.Event().wait()
            finally:
                ended.set()

    async with at_work(app):
        await send(app, stubborn)
        async with asyncio.timeout(PATIENCE_SECONDS):
            await ended.wait()
