"""SIGTERM and SIGINT: the first asks to drain, the second to leave at once (K17)."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager

ASKS = (signal.SIGTERM, signal.SIGINT)


@contextmanager
def draining(stop: asyncio.Event, told: Callable[[str], None]) -> Iterator[None]:
    """Set `stop` at the first signal, as long as the block lasts; `told` gets its name."""
    loop = asyncio.get_running_loop()

    def heard(number: signal.Signals) -> None:
        if stop.is_set():
            # Nothing is lost: leases end what we hold. No clean-up, which might be what hangs.
            os._exit(128 + number)
        told(number.name)
        stop.set()

    for number in ASKS:
        loop.add_signal_handler(number, heard, number)
    try:
        yield
    finally:
        for number in ASKS:
            loop.remove_signal_handler(number)
