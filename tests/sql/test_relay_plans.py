"""What relays ask often is read by the index made for it, however full the tables are and whatever the statistics say."""

import json
from collections.abc import Iterator
from datetime import timedelta
from typing import Any
from uuid import uuid4

import asyncpg
import pytest

from ferryman.kernel.db import Statement
from ferryman.kernel.pool import LINE_SETTINGS
from ferryman.relays.store import deliveries, relays, webhooks
from tests.sql.test_plans import literal, scans

ROWS = 20_000
IDS = [uuid4() for _ in range(20)]
TERM = timedelta(seconds=30)
HOOKS = """
insert into ferryman.webhooks (id, tenant, url, state, after_id, key_id, created_at, updated_at)
select id, 'acme', 'https://example.com', 'active', 0, 'k', now(), now() from unnest($1::uuid[]) as id
"""
FILL = """
insert into ferryman.webhook_deliveries (id, webhook_id, event_id, next_at, ends_at, leased_until, lease_owner, created_at,
    finished_at, state, tenant, kind, body)
select gen_random_uuid(), ($2::uuid[])[n % 20 + 1], n, now() + (n % 100 - 50) * interval '1 s', now() + n * interval '1 s',
    case when n % 50 = 0 then now() + interval '1 minute' end, case when n % 50 = 0 then gen_random_uuid() end, now(),
    case when n % 5 > 2 then now() - n * interval '1 s' end, case when n % 5 > 2 then 'delivered' else 'pending' end,
    'acme', 'task', '{}'
from generate_series(1, $1::integer) as n
"""
DUE, LEASED, KEY = "webhook_deliveries_due", "webhook_deliveries_leased", "webhook_deliveries_pkey"
HOT: list[tuple[Statement, dict[str, Any], set[str]]] = [
    (webhooks._HOLD, {"key_id": "k", "each": 4, "limit": 64}, {"webhooks_pkey", DUE, LEASED}),
    (
        deliveries._CLAIM,
        {"webhooks": IDS, "owner": IDS[0], "each": 4, "limit": 64, "lease": TERM},
        {"webhooks_pkey", DUE, LEASED, KEY},
    ),
    (
        deliveries._SETTLE,
        {
            "owner": IDS[0], "ids": IDS, "epochs": [1] * 20, "words": ["again"] * 20, "statuses": [500] * 20,
            "errors": ["why"] * 20, "waits": ["1 s"] * 20,
        },
        {KEY},
    ),
    (deliveries._EXPIRED, {"limit": 500}, {"webhook_deliveries_ends_at"}),
    (deliveries._EXPIRE, {"ids": IDS}, {KEY}),
    (deliveries._PAST, {"limit": 500, "kept": TERM, "dead_kept": TERM}, {"webhook_deliveries_finished"}),
    (deliveries._FORGET, {"ids": IDS}, {KEY}),
    (deliveries._RECLAIM, {"owner": IDS[0], "held": IDS}, {LEASED}),
    (deliveries._SHORTEN, {"limit": 500, "lease": TERM}, {LEASED, KEY}),
    (
        deliveries._LIST,
        {"webhook_id": IDS[0], "tenant": "acme", "state": None, "before": None, "limit": 50},
        {"webhook_deliveries_webhook"},
    ),
    (relays._LOOK, {"name": "r", "owner": IDS[0]}, {"relays_pkey"}),
]  # fmt: skip
SMALL = {"clock_shift", "webhooks", "workers"}  # as many as there are receivers, or processes


async def plans(connection: Any) -> Iterator[tuple[str, dict[str, Any], set[str]]]:
    found = []
    for statement, values, indexes in HOT:
        prepared = statement.name.replace("/", "_")
        if not await connection.fetchval(
            "select exists (select from pg_prepared_statements where name = $1)", prepared
        ):
            types = ", ".join("unknown" for _ in statement.names)
            await connection.execute(f"prepare {prepared} ({types}) as {statement.sql()}")
        given = ", ".join(literal(value) for value in statement.bind(values))
        told = await connection.fetchval(f"explain (format json) execute {prepared} ({given})")
        found += [(statement.name, scan, indexes) for scan in scans(json.loads(told)[0]["Plan"])]
    return iter(found)


@pytest.mark.contract("K10", "K5")
async def test_what_relays_ask_often_is_read_by_its_own_index(database_url: str) -> None:
    early = await asyncpg.connect(database_url, server_settings=LINE_SETTINGS)
    admin = await asyncpg.connect(database_url)
    await plans(early)  # prepared while the tables were empty
    await admin.execute("set session_replication_role = replica")
    await admin.execute(HOOKS, IDS)
    await admin.execute(FILL, ROWS, IDS)
    seen = list(await plans(early))
    await admin.execute("analyze ferryman.webhook_deliveries, ferryman.webhooks")
    late = await asyncpg.connect(database_url, server_settings=LINE_SETTINGS)
    seen += await plans(late)
    for connection in (early, admin, late):
        await connection.close()

    wrong = {
        f"{name}: {scan['Node Type']} by {scan.get('Index Name', scan['Relation Name'])}"
        for name, scan, indexes in seen
        if scan.get("Index Name") not in indexes and scan.get("Relation Name") not in SMALL
    }
    assert wrong == set()
