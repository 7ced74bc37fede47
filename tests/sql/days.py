"""The days of the log."""

import asyncpg


async def drop_the_first(url: str) -> None:
    """Let the log lose what it has, as retention does, and go on."""
    connection = await asyncpg.connect(url)
    try:
        days = "select inhrelid::regclass::text from pg_inherits where inhparent = 'ferryman.events'::regclass"
        for [day] in await connection.fetch(days):
            await connection.execute(f"alter table ferryman.events detach partition {day}")
        await connection.execute("create table ferryman.events_later partition of ferryman.events default")
    finally:
        await connection.close()
