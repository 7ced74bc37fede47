"""An app with agents for tests, on a database of its own, with a worker beside the test."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

from ferryman import Ferryman, TurnHandle
from ferryman.agents.model import CardRecord
from ferryman.kernel import payload
from tests.patience import PATIENCE_SECONDS


def fresh(database_url: str, **settings: Any) -> Ferryman:
    """Make an app with short times."""
    return Ferryman(database_url, **{"worker.lease": 10, "worker.poll": 0.1, **settings})


@asynccontextmanager
async def at_work(app: Ferryman, **terms: Any) -> AsyncIterator[Ferryman]:
    """Open an app and let a worker of it work."""
    async with app, app.worker(**terms):
        yield app


async def send(app: Ferryman, profile: str | Callable[..., Any], instruction: Any = "go", **more: Any) -> TurnHandle:
    """Ask an agent of a profile for a turn, made if it is not there."""
    name = profile if isinstance(profile, str) else profile.__name__
    await app.agents.ensure(f"{name}-1", profile)
    return await app.agents.send(f"{name}-1", instruction, **more)


async def end(app: Ferryman, profile: Any, instruction: Any = "go", **more: Any) -> tuple[str, str | None, Any]:
    """Let an agent do a turn; return its status, its code and its deliverable."""
    turn = await send(app, profile, instruction, **more)
    found = await turn.end(timeout=PATIENCE_SECONDS)
    return str(found.turn_status), found.error_code, await turn.deliverable(found)


async def output(app: Ferryman, turn: TurnHandle) -> list[tuple[str, Any]]:
    """Return the output box of a turn: types and contents."""
    box = (await turn.record()).output_box_id
    assert box is not None
    cards: list[CardRecord] = list(await app.agents.cards(box))
    return [(card.type, payload.decode(card.content)) for card in cards]


async def until(test: Callable[[], Any], seconds: float = PATIENCE_SECONDS) -> None:
    """Wait until something is so."""
    async with asyncio.timeout(seconds):
        while not (await made if asyncio.iscoroutine(made := test()) else made):  # noqa: ASYNC110 - many things are waited for
            await asyncio.sleep(0.01)
