"""An app on a database of its own, with the handlers that a test chooses."""

from collections.abc import AsyncIterator, Callable
from typing import Any, Protocol

import pytest

from ferryman import Ferryman


class MakeApp(Protocol):
    """Open an app; handlers are functions, or pairs of a function and the options of `@app.task`."""

    async def __call__(self, *handlers: Any, **settings: Any) -> Ferryman: ...


@pytest.fixture
async def make_app(database_url: str) -> AsyncIterator[MakeApp]:
    opened: list[Ferryman] = []

    async def make(*handlers: Any, **settings: Any) -> Ferryman:
        owners: dict[str, Any] = settings.pop("owners", {})
        app = Ferryman(database_url, **settings)
        for each in handlers:
            function, options = each if isinstance(each, tuple) else (each, {})
            register: Callable[[Any], Any] = app.task(**options)
            register(function)
        for kind, owner in owners.items():
            app.on_end(kind, owner)
        opened.append(await app.open())
        return app

    yield make
    for app in opened:
        await app.close()
