"""How sources of ingestion are registered: what stands in users' code as `@app.source`."""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable
from typing import Any

from ferryman.ingest.ports import Page, Request, Sink
from ferryman.ingest.registry import Declared
from ferryman.kernel import errors

# The handler whose tasks plan: a schedule of such tasks is a standing order for ingestion.
PLANS = "ingest.plan"
ENDPOINT = "default"


class _Function:
    """A source that is a function."""

    def __init__(self, fetch: Callable[[Request], Awaitable[Page]]) -> None:
        self._fetch = fetch

    async def fetch(self, request: Request) -> Page:
        """Call it."""
        return await self._fetch(request)


def declared(given: Any, *, name: str | None, endpoint: str | None, sink: Sink, **options: Any) -> Declared:
    """Return the declaration of a source: an async function, a class that needs no arguments, or an object with `fetch`."""
    known = name or getattr(given, "__name__", None) or type(given).__name__
    source: Any = given() if inspect.isclass(given) else given
    if inspect.iscoroutinefunction(given):
        source = _Function(given)
    elif inspect.isroutine(given):
        raise errors.HandlerInvalid(f"The source {known} must be async: write `async def`.")
    told = {field: value for field, value in options.items() if value is not None}
    return Declared(name=known, endpoint=endpoint or ENDPOINT, source=source, sink=sink, **told)
