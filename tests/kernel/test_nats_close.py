"""How a connection to NATS is closed (K24)."""

import asyncio
from types import SimpleNamespace
from typing import Any, cast

import pytest

from ferryman.kernel.farewell import _break_off
from tests.patience import PATIENCE_SECONDS
from tests.stream_server import serve

LARGE = b"x" * 20_000_000  # more than the buffers of both sockets take


@pytest.mark.contract("K24")
async def test_a_connection_that_has_written_everything_and_closed_is_not_aborted() -> None:
    """asyncio raises AttributeError if such a transport is aborted."""
    reads = asyncio.Event()

    async def receive(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reads.wait()
        await reader.read()
        writer.close()

    async with serve(receive) as port:
        _, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(LARGE)
        writer.close()
        assert writer.transport.get_write_buffer_size() > 0
        reads.set()
        async with asyncio.timeout(PATIENCE_SECONDS):
            while writer.transport.get_write_buffer_size() > 0:  # noqa: ASYNC110 - the transport has no event for it
                await asyncio.sleep(0.01)
        client = SimpleNamespace(_subs={}, _transport=SimpleNamespace(_io_writer=writer))

        _break_off(cast(Any, client))
