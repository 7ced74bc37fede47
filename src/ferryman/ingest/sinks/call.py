"""A Python function as a sink (I14)."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from ferryman.ingest.ports import Item, Written
from ferryman.kernel import errors
from ferryman.kernel.db import Tx
from ferryman.tasks.work.threads import Threads

# How many pages of one sink may be given up, in a few tries each, before it is refused more of them.
PAGES_AT_ONCE = 16


class CallSink:
    """A function of a page. It may be async or plain, which then runs in a thread.

    It takes the items, and by name `batch_key` and `tx` if it has such parameters. One that takes `tx` is async and writes in
    the transaction that marks the batch; any other may see a batch key twice and must not mind. It returns nothing, the number
    of rows, or a `Written` that names the records it cannot take.
    """

    def __init__(self, function: Callable[..., Any]) -> None:
        """Look at the function's parameters."""
        if not callable(function):
            raise errors.IngestInvalidSink(
                f"function: expected a function, got {ascii(function)[:60]}.", field="function"
            )
        self._function = function
        # Its own: one that never comes back must not take a thread from other sinks, or from whoever looks up a name.
        self._threads = Threads(PAGES_AT_ONCE)
        self._is_async = inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(
            getattr(function, "__call__", None)  # noqa: B004 - an object whose call is async
        )
        names = inspect.signature(function).parameters
        self._takes = {name for name in ("batch_key", "tx") if name in names}
        self.same_database = "tx" in self._takes
        if self.same_database and not self._is_async:
            raise errors.IngestInvalidSink("function: one that takes tx must be async.", field="function")

    async def write(self, tx: Tx | None, items: Sequence[Item], *, batch_key: str) -> Written:
        """Call it."""
        given = {name: value for name, value in (("batch_key", batch_key), ("tx", tx)) if name in self._takes}
        if self._is_async:
            answer = await self._function(items, **given)
        else:
            answer = await self._threads.run(partial(self._function, items, **given))
        if answer is None:
            return Written(len(items))
        if isinstance(answer, Written):
            return answer
        if isinstance(answer, int) and not isinstance(answer, bool):
            return Written(answer)
        raise errors.IngestInvalidSink(
            f"The function of the sink returned {ascii(answer)[:60]}: expected nothing, a number of rows or a Written."
        )
