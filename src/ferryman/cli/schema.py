"""A schema that was made for one run, and goes with it."""

from __future__ import annotations

from ferryman.kernel.pool import Line


async def drop(url: str, schema: str) -> None:
    """Drop a schema with all that is in it, if it is there."""
    line = Line(url)
    try:
        await line.fetch(f"drop schema if exists {schema} cascade")
    finally:
        await line.close()
