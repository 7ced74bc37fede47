"""How a connection to NATS is given up, whatever its server does.

The client closes by writing first what it has still to write, and so does the socket below it: where the server stands still,
and reads nothing, neither comes to an end, and what was given up goes out when the server goes on. So after a moment the
connection is broken off, with all it holds.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from ferryman.kernel import telemetry

if TYPE_CHECKING:
    from nats.aio.client import Client

log = telemetry.logger("nats")

SECONDS = 1.0


async def hang_up(client: Client) -> None:
    """Close a connection, or break it off. In a task, because the client keeps a cancellation to itself here and there."""
    closing = asyncio.create_task(client.close())
    closing.add_done_callback(_closed)
    try:
        await asyncio.wait([closing], timeout=SECONDS)
    finally:
        _break_off(client)
        closing.cancel()


def _break_off(client: Client) -> None:
    # A subscription cannot be left any more, and the client goes to their tasks last: each would wait for ever.
    for subscription in client._subs.values():  # noqa: SLF001 - they are known to nobody else
        subscription._stop_processing()  # noqa: SLF001 - nor has this another word
    # Neither the client nor its own transport has a word for it. A websocket has no writer.
    writer = getattr(client._transport, "_io_writer", None)  # noqa: SLF001 - there is no other way to the socket
    # asyncio fails to abort a transport that has written its buffer and closed.
    if writer is not None and not _closed_by_itself(writer.transport):
        writer.transport.abort()


def _closed_by_itself(transport: asyncio.WriteTransport) -> bool:
    return transport.is_closing() and transport.get_write_buffer_size() == 0


def _closed(closing: asyncio.Task[None]) -> None:
    if not closing.cancelled() and (error := closing.exception()) is not None:
        log.debug("a connection to NATS could not be closed", exc_info=error)
