"""How much a connection reads at a time (decision 44).

The loop of the standard library asks the system for 256 KiB and shortens what it got to its length. What was cut off goes back
to the C library, which gives a part of it to something small that stays, and the next read wants 256 KiB in one piece again: so
a process grew by a megabyte in a minute or two, with hardly a byte more in use. PostgreSQL sends in pieces of 8 KiB. uvloop
reads into a place of its own.
"""

from __future__ import annotations

from typing import Any

READ_BYTES = 16 * 1024


def read_little(connection: Any) -> None:
    """Let a connection ask for no more than that at a time, if it reads by the loop of the standard library."""
    transport: Any = getattr(connection, "_transport", None)
    if isinstance(getattr(transport, "max_size", None), int):
        transport.max_size = READ_BYTES
