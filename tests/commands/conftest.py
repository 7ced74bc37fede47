"""An app with commands on a database of its own, and the watchdog's rules for it."""

from collections.abc import AsyncIterator, Callable
from datetime import timedelta
from typing import Any, Protocol
from uuid import UUID

import pytest

from ferryman import Ferryman
from ferryman.app import wiring
from ferryman.commands import watch
from ferryman.kernel import invariants, watchdog
from ferryman.kernel.db import Row
from tests.patience import PATIENCE_SECONDS

SECOND = timedelta(seconds=1)


class Open(Protocol):
    """Open an app that `register` has been called with."""

    async def __call__(self, register: Callable[[Ferryman], Any] | None = None, **settings: Any) -> Ferryman: ...


@pytest.fixture
async def open_app(database_url: str) -> AsyncIterator[Open]:
    opened: list[Ferryman] = []

    async def make(register: Callable[[Ferryman], Any] | None = None, **settings: Any) -> Ferryman:
        app = Ferryman(database_url, **settings)
        if register is not None:
            register(app)
        opened.append(await app.open())
        return app

    yield make
    for app in opened:
        await sound(app)
        await app.close()


async def sound(app: Ferryman) -> None:
    """Whatever a test did, what must always be true is true."""
    async with app.database.session() as tx:
        assert await invariants.check(tx, wiring.invariants()) == []


async def rows(app: Ferryman, query: str, *args: Any) -> list[Any]:
    async with app.database.session() as tx:
        return [dict(row) for row in await tx.fetch(query, *args)]  # type: ignore[call-overload]  # a record has keys


async def tick(app: Ferryman, *names: str, unknown_after: timedelta = SECOND) -> watchdog.Report:
    """Let the rules of commands look once."""
    rules = watch.rules(app._orchestrator, app._open.owners, app.doorbell, interval=SECOND, unknown_after=unknown_after)
    async with app.database.transaction() as tx:
        return await watchdog.tick(tx, [rule for rule in rules if not names or rule.name in names])


async def shift(app: Ferryman, seconds: float) -> None:
    """Move the clock of the database forward."""
    await rows(app, "update ferryman.clock_shift set shift = shift + make_interval(secs => $1)", seconds)


async def task_rows(app: Ferryman, command: UUID) -> list[Row]:
    return await rows(app, "select * from ferryman.async_tasks where triggered_by_command_id = $1 order by id", command)


async def ended(app: Ferryman, task: UUID | None) -> None:
    """Wait until a task has ended."""
    assert task is not None
    await (await app.tasks.get(task)).result(timeout=PATIENCE_SECONDS)
