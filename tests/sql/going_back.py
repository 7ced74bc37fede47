"""Lets the log of a database go back, as after a promotion or a restore that lost its last events."""

import asyncpg


async def go_back(url: str, to: int) -> None:
    """Drop the events after this one, whose numbers are then drawn again."""
    admin = await asyncpg.connect(url)
    try:
        async with admin.transaction():
            await admin.execute("set local session_replication_role = replica")  # past the guard of the log
            await admin.execute("delete from ferryman.events where id > $1", to)
            await admin.execute("select setval('ferryman.events_id_seq', $1)", to)
    finally:
        await admin.close()
