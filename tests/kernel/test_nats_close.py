"""How a connection to NATS is closed (K24)."""

import asyncio
from types import SimpleNamespace
from typing import Any, cast

import pytest

from ferryman.kernel.farewell import _break_off
from tests.patience import PATIENCE_SECONDS

LARGE = b"x" * 20_000_000  # more than the buffers of both sockets take


@pytest.mark.contract("K24")
async def test_a_connection_that_has_written_everything_and_closed_is_not_aborted() -> None:
    """asyncio raises AttributeError if such a transport is aborted."""
    reads = asyncio.Event()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reads.wait()
        await reader.read()
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0, limit=2 * len(LARGE))
    async with server:
        _, writer = await asyncio.open_connection(*server.sockets[0].getsockname()[:2])
        writer.write(LARGE)
        writer.close()
        assert writer.transport.get_write_buffer_size() > 0
        reads.set()
        async with asyncio.timeout(PATIENCE_SECONDS):
            while writer.transport.get_write_buffer_size() > 0:  # noqa: ASYNC110 - the transport has no event for it
                await asyncio.sleep(0.01)
        client = SimpleNamespace(_subs={}, _transport=SimpleNamespace(_io_writer=writer))

        _break_off(cast(Any, client))
