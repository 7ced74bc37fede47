"""A table full of finished rows does not slow claiming (T20)."""

import json
from typing import Any

import asyncpg
import pytest

from ferryman.kernel.pool import LINE_SETTINGS
from ferryman.tasks.store import moves

FINISHED = 200_000
READY = 1000

FILL = """
insert into ferryman.tasks (id, state, name, payload, due_at, ends_at, created_at, updated_at, timeout_ms, max_retries, rank,
    finished_at, started_at, epoch)
select gen_random_uuid(), $2::text, 'mail', '{}', now(), now() + interval '1 day', now(), now(), 300000, 3,
    case $2::text when 'ready' then now() end, case $2::text when 'succeeded' then now() end, now(), 1
from generate_series(1, $1::integer)
"""
VALUES: dict[str, Any] = {
    "won_ids": "{}", "won_epochs": "{}", "won_results": "{}", "lost": "[]", "sent": "0",
    "owner": "00000000-0000-0000-0000-000000000001", "queues": "{default}", "tenants": "{default}",
    "rooms": "{100}", "behind": "{}", "names": "{mail}", "kinds": "{}", "lease": "30 s",
    "margin": "5 s",
}  # fmt: skip


async def touched(url: str) -> int:
    """Claim a hundred, and count the pages that this touched."""
    connection = await asyncpg.connect(url, server_settings=LINE_SETTINGS)
    types = ", ".join("unknown" for _ in moves._TURN.names)
    await connection.execute(f"prepare turn ({types}) as {moves._TURN.sql()}")
    values = ", ".join(f"'{each}'" for each in moves._TURN.bind(VALUES))
    plan = json.loads(await connection.fetchval(f"explain (analyze, buffers, format json) execute turn ({values})"))
    claimed = await connection.fetchval("select count(*) from ferryman.tasks where leased_until is not null")
    await connection.close()
    assert claimed == 100
    return int(plan[0]["Plan"]["Shared Hit Blocks"] + plan[0]["Plan"]["Shared Read Blocks"])


async def prepared(url: str, *, finished: int) -> None:
    admin = await asyncpg.connect(url)
    await admin.execute("set session_replication_role = replica")
    await admin.execute(FILL, finished, "succeeded")
    await admin.execute(FILL, READY, "ready")
    await admin.close()


@pytest.mark.contract("T20")
async def test_claiming_touches_as_many_pages_beside_many_finished_rows_as_beside_none(
    database_url: str, cluster: Any
) -> None:
    await prepared(database_url, finished=0)
    async with cluster.database() as full:
        await prepared(full, finished=FINISHED)

        alone, beside = await touched(database_url), await touched(full)

    # The primary key is a level or two higher; each of the hundred is looked up in it and entered into it.
    assert beside <= alone + 6 * 100
