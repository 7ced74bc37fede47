"""Waits until a NATS server has processed every command that a client has sent.

`Client.flush` of nats-py writes its PING directly to the socket, ahead of commands that still wait in the client's buffer. The
PONG therefore does not prove that the server has processed a subscription or a message. After that PONG the buffer has been
written, so the PONG of a second flush does prove it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from nats.aio.client import Client


async def flush_all(client: Client) -> None:
    """Return when the server has processed all commands that were sent before this call."""
    await client.flush()
    await client.flush()
