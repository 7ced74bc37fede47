"""A REST source, the shared gate and a table, in a worker, against a server with bad habits (I8, I9, I13, I14)."""

import asyncio
from datetime import UTC, datetime, timedelta

import pytest
from aiohttp import web

from ferryman import Ferryman
from ferryman.ingest.sinks.table import TableSink
from ferryman.ingest.sources.rest import RestSource
from ferryman.kernel import errors
from tests.ingest.server import page, serving, truncate
from tests.patience import PATIENCE_SECONDS

NOON = datetime(2026, 11, 1, 12, tzinfo=UTC)
RECORDS = [
    {"id": n, "name": f"order {n}", "at": (NOON + timedelta(minutes=n)).isoformat(), "extra": "x"} for n in range(240)
]
TABLE = "create table orders (id bigint primary key, name text not null, at timestamptz)"


async def shop(request: web.Request) -> web.StreamResponse:
    """Pages of 20 by token, within the window; a record comes twice, once out of order and older."""
    since, until = (datetime.fromisoformat(request.query[name]) for name in ("since", "until"))
    found = [each for each in RECORDS if since <= datetime.fromisoformat(str(each["at"])) < until]
    at = int(request.query.get("cursor", "0"))
    items = found[at : at + 20]
    stale = [{**each, "name": "stale", "at": "2001-01-01T00:00:00Z"} for each in items[:3]]
    following = str(at + 20) if at + 20 < len(found) else None
    return page({"items": [*items[::-1], *stale, {"id": "bad"}], "next": following})


@pytest.mark.contract("I8", "I9", "I13", "I14")
async def test_everything_arrives_once_through_refusals_and_failures(database_url: str) -> None:
    habits = {
        3: lambda: page({}, status=429),
        4: lambda: page({}, status=429, headers={"Retry-After": "0"}),
        7: lambda: page({}, status=503),
        9: lambda: web.Response(text='{"items": ['),
    }
    count = 0

    async def unreliable(request: web.Request) -> web.StreamResponse:
        nonlocal count
        count += 1
        if count == 11:
            return await truncate(request)
        return habits[count]() if count in habits else await shop(request)

    # One request at a time: of several, three may fail before a page that came is written, and open the circuit breaker.
    alone = {"concurrency": 1}
    async with serving(unreliable) as server, Ferryman(database_url=database_url, ingest=alone) as app:
        async with app.database.session() as tx:
            await tx.execute(TABLE)
        app.source(
            RestSource(
                url=f"{server.url}/{{endpoint}}",
                items="items",
                paging={"kind": "TOKEN", "next": "next", "size": 20},
                window={"since": "since", "until": "until"},
                updated_at="at",
            ),
            name="shop",
            endpoint="orders",
            sink=TableSink("orders", key="id", columns=["id", "name", "at"], updated_at="at"),
            rate="200/s",
        )
        async with app.worker():
            planned = await app.ingest.plan("shop", since=NOON, until=NOON + timedelta(hours=4))
            assert planned.id is not None
            progress = await app.ingest.wait(planned.id, timeout=PATIENCE_SECONDS)
            [gate] = await app.ingest.gates()

        async with app.database.session() as tx:
            rows = await tx.fetch("select id, name, at from orders order by id")
            aside = await app.ingest.quarantine("shop", limit=100)

    assert [(row["id"], row["name"]) for row in rows] == [(n, f"order {n}") for n in range(240)]
    assert progress.tasks["SUCCEEDED"] == sum(progress.tasks.values())
    assert aside
    assert gate.halvings >= 1
    assert gate.rate < gate.top
    assert progress.gate == gate.rate
    assert set(server.queries()[0]) == {"since", "until"}


@pytest.mark.contract("I14")
async def test_a_worker_does_not_start_without_the_secret_of_a_source(
    database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("SHOP_TOKEN", raising=False)
    app = Ferryman(database_url=database_url)
    app.source(
        RestSource(url="https://api.example.com", auth={"header": "X-Key", "env": "SHOP_TOKEN"}),
        name="shop",
        sink=TableSink("orders", key="id", columns=["id"]),
    )
    async with app:
        with pytest.raises(errors.IngestSecretMissing, match="SHOP_TOKEN"):
            async with asyncio.timeout(PATIENCE_SECONDS):
                await app.work()
