"""The parts of a worker: each domain's pump with what it needs, run together from the first beat to the drain (K17).

A process works for several domains under one boot id. None of their parts ends by itself: if one does, all stop as if told to,
because half a worker would hold leases, or claim, and never end what it should.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import Any, Protocol

from ferryman.kernel import errors

log = logging.getLogger("ferryman.worker")


class Part(Protocol):
    """What one domain does in a worker."""

    def start(self) -> Mapping[str, asyncio.Future[Any]]:
        """Begin; answer with what runs now, by a name that no other part uses; none of it ends by itself."""

    async def drain(self, grace: timedelta) -> None:
        """Claim nothing more, let what runs finish within the grace period, hand back the rest."""

    async def close(self) -> None:
        """End whatever still runs, and let go of what was opened."""


async def run(
    parts: Sequence[Part],
    stop: asyncio.Event,
    *,
    grace: timedelta,
    beside: Mapping[str, asyncio.Future[Any]] | None = None,
) -> None:
    """Work until told to stop; then drain. What runs `beside` the parts must not end by itself either."""
    running = dict(beside or {})
    waiter = asyncio.create_task(stop.wait())
    try:
        for part in parts:
            running.update(part.start())
        await asyncio.wait([waiter, *running.values()], return_when=asyncio.FIRST_COMPLETED)
        broken = None if stop.is_set() else _broken(running)
        await _drain(parts, grace)
        if broken is not None:
            raise broken
    except asyncio.CancelledError:
        # No time is left: what runs is handed back at once instead of waiting for its lease to pass.
        await _drain(parts, timedelta(0))
        raise
    finally:
        waiter.cancel()
        for part in parts:
            await part.close()


async def _drain(parts: Sequence[Part], grace: timedelta) -> None:
    await asyncio.gather(*(part.drain(grace) for part in parts))


def _broken(running: Mapping[str, asyncio.Future[Any]]) -> errors.WorkerBroken | None:
    """Return what to say of the first part that has ended by itself."""
    for name, part in running.items():
        if part.done():
            cause = None if part.cancelled() else part.exception()
            log.critical("the %s of this worker has died: the worker stops", name, exc_info=cause)
            why = "it ended by itself" if cause is None else errors.said(cause)
            broken = errors.WorkerBroken(f"The {name} of this worker has died ({why}); it has stopped.", part=name)
            broken.__cause__ = cause
            return broken
    return None
