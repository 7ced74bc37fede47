"""HTTP and the dashboard beside something else that a process does."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from importlib.util import find_spec
from typing import TYPE_CHECKING

from ferryman.app.ferryman import Ferryman
from ferryman.kernel import errors

if TYPE_CHECKING:
    from ferryman.http.serving import Served

# Ports to try, one after the other, where nobody asked for one.
TRIES = 20
NEEDED = ("fastapi", "uvicorn")


@asynccontextmanager
async def beside(app: Ferryman, *, port: int | None = None) -> AsyncIterator[Served | None]:
    """Serve an opened app as long as the block lasts; None where the packages for it are not installed.

    A port that was asked for is used or refused; else the next free one is taken.
    """
    if any(find_spec(name) is None for name in NEEDED):
        yield None
        return
    async with AsyncExitStack() as stack:
        yield await _serve(stack, app, port)


async def _serve(stack: AsyncExitStack, app: Ferryman, port: int | None) -> Served:
    from ferryman.http.serving import serving

    first = app.settings.http.port if port is None else port
    asked = port is not None or "http.port" in app.settings.origins
    for tried in range(first, first + (1 if asked else TRIES)):
        try:
            return await stack.enter_async_context(serving(app, port=tried))
        except errors.SettingsInvalid as error:
            if error.details.get("field") != "http.port" or asked:
                raise
    raise errors.SettingsInvalid(
        f"http.port: none of {first} to {first + TRIES - 1} is free; name another one.", field="http.port"
    )
