"""A server in memory, a sink in the same database, and an executor whose every turn is the test's."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from typing import Any

from ferryman import Ferryman
from ferryman.app import wiring
from ferryman.ingest.model import Claimed, Outcome, Planned
from ferryman.ingest.ports import Gate, Item, OpenGate, Page, Request, Sink, Written
from ferryman.ingest.rules import keys
from ferryman.ingest.sinks.table import TableSink
from ferryman.ingest.work.crew import IngestCrew, Terms
from ferryman.ingest.work.run import Runner
from ferryman.kernel import ids, invariants, watchdog
from ferryman.kernel.db import Tx
from ferryman.kernel.pool import Database, Line
from ferryman.testing import travel

HOUR = timedelta(hours=1)
DAWN = datetime(2026, 1, 1, tzinfo=UTC)
SOURCE = "depot"


class Server:
    """Records with a time each, given out in pages; it remembers what it was asked."""

    def __init__(self, *, size: int = 10) -> None:
        self.records: list[dict[str, Any]] = []
        self.size = size
        self.asked: list[tuple[str, str]] = []
        self.wrong: Callable[[Request], Page | None] = lambda _request: None

    def fill(self, count: int, *, since: datetime = DAWN, every: timedelta = timedelta(minutes=1)) -> Server:
        first = len(self.records)
        self.records += [
            {"id": first + n, "at": (since + every * n).isoformat(), "value": f"v{first + n}"} for n in range(count)
        ]
        return self

    def inside(self, request: Request) -> list[dict[str, Any]]:
        if request.window is not None:
            return [each for each in self.records if request.window.holds(datetime.fromisoformat(each["at"]))]
        if isinstance(request.params["from"], int):
            return [each for each in self.records if request.params["from"] <= each["id"] < request.params["to"]]
        return self.records

    async def fetch(self, request: Request) -> Page:
        since = "" if request.window is None else keys.instant(request.window.since)
        self.asked.append((since, request.position))
        instead = self.wrong(request)
        if instead is not None:
            return instead
        found = self.inside(request)
        at = 0 if request.position == "start" else int(request.position.partition(":")[2])
        page = found[at : at + self.size]
        more = at + self.size < len(found)
        watermark = datetime.fromisoformat(page[-1]["at"]) if page else None
        size = len(json.dumps(page))
        return Page(page, f"offset:{at + self.size}" if more else None, more, watermark=watermark, size=size)


CARGO = """
create table public.cargo (id bigint primary key, at timestamptz not null, value text not null, batch text not null default '',
    writes integer not null default 1);
create function public.count_write() returns trigger language plpgsql as
    $$ begin new.writes = old.writes + 1; return new; end $$;
create trigger cargo_written before update on public.cargo for each row execute function public.count_write()
"""


async def prepare(db: Database) -> None:
    """Make the table of the sinks, which counts how often a record was written."""
    async with db.session() as session:
        if not await session.fetch("select from pg_class where oid = to_regclass('public.cargo')"):
            await session.execute(CARGO)


def hold() -> TableSink:
    """Return the same table as a sink of the product; without a time every write counts."""
    return TableSink("public.cargo", key="id", columns=["id", "at", "value"])


class Cargo:
    """A table beside the product's; a record without a value is refused, an older one overwrites nothing."""

    same_database = True

    async def prepare(self, db: Database) -> None:
        await prepare(db)

    async def write(self, tx: Tx | None, items: Sequence[Item], *, batch_key: str) -> Written:
        assert tx is not None
        good = [item for item in items if item.get("value") is not None]
        await tx.fetch(
            "insert into public.cargo (id, at, value, batch) select id, at, value, $2 from"
            " jsonb_to_recordset($1::jsonb) as item (id bigint, at timestamptz, value text)"
            " on conflict (id) do update set value = excluded.value, at = excluded.at, batch = excluded.batch"
            " where excluded.at >= cargo.at",
            json.dumps(good),
            batch_key,
        )
        return Written(len(good), [(item, "value is missing") for item in items if item not in good])


class Ship:
    """An executor in the test's hands: it claims, runs and settles when told to."""

    def __init__(self, app: Ferryman, url: str, *, gate: Gate | None = None, **terms: Any) -> None:
        self.owner = ids.boot_id()
        self.line = Line(url)
        given = {
            "concurrency": 8, "partition": 4, "queued_max": 50, "lease": timedelta(seconds=60),
            "poll": timedelta(seconds=1), "ends_after": timedelta(days=30), "strikes": 3, "pause": timedelta(seconds=60),
        }  # fmt: skip
        self.terms = Terms(**{**given, **terms})
        sources = app._sources
        self.runner = Runner(
            sources, gate or OpenGate(), owner=self.owner, pool=app.database,
            strikes=self.terms.strikes, pause=self.terms.pause,
        )  # fmt: skip
        self.crew = IngestCrew(self.runner, sources, app.doorbell, owner=self.owner, terms=self.terms)

    async def claim(self, room: int = 1) -> Sequence[Claimed]:
        return (await self.crew.turn(self.line, [], room)).items

    async def settle(self, *outcomes: Outcome | None) -> None:
        await self.crew.turn(self.line, [each for each in outcomes if each is not None], 0)

    async def work(self, limit: int = 1000) -> int:
        """Do what can be claimed, one after another; say how many runs that were."""
        for done in range(limit):
            claimed = await self.claim()
            if not claimed:
                return done
            await self.settle(await self.runner.run(claimed[0]))
        return limit


class Harbour:
    """An app with one source, and questions about its tables."""

    def __init__(self, app: Ferryman, url: str, server: Server) -> None:
        self.app = app
        self.url = url
        self.server = server
        self._ships: list[Ship] = []

    def ship(self, **terms: Any) -> Ship:
        self._ships.append(Ship(self.app, self.url, **terms))
        return self._ships[-1]

    async def plan(self, **asked: Any) -> Planned:
        return await self.app.ingest.plan(**{"source": SOURCE} | asked)

    async def fetch(self, sql: str, *args: Any) -> list[Any]:
        async with self.app.database.session() as session:
            return [tuple(row) for row in await session.fetch(sql, *args)]  # type: ignore[arg-type]

    async def states(self, table: str) -> list[str]:
        return [row[0] for row in await self.fetch(f"select status from ferryman.ingest_{table} order by id")]

    async def sunk(self) -> list[tuple[int, str]]:
        return await self.fetch("select id, value from public.cargo order by id")

    async def cursor(self, operation: str = "HARVEST") -> datetime | None:
        rows = await self.fetch(
            "select position from ferryman.ingest_cursor where operation = $1 and kind = 'TIME'", operation
        )
        return keys.moment(rows[0][0]) if rows else None

    async def travel(self, by: timedelta) -> None:
        async with self.app.database.session() as session:
            await travel(session, by)

    async def tick(self) -> watchdog.Report:
        line = Line(self.url)
        try:
            return await watchdog.tick(line, wiring.rules(self.app._open))
        finally:
            await line.close()

    async def sound(self) -> None:
        """Nothing that must always be true is broken, and every cursor stands where its events lead."""
        async with self.app.database.session() as session:
            assert await invariants.check(session, wiring.invariants()) == []
        assert all(each.agrees for each in await self.app.ingest.replay())

    async def close(self) -> None:
        for each in self._ships:
            await each.line.close()


@asynccontextmanager
async def harbour(
    url: str, server: Server | None = None, *, settings: Any = None, sink: Sink | None = None, **options: Any
) -> AsyncIterator[Harbour]:
    app = Ferryman(url, doorbell="none", ingest=settings or {})
    served = server or Server()
    app.source(served, name=SOURCE, sink=sink or Cargo(), **{"safety_lag": timedelta(0)} | options)
    async with app:
        await prepare(app.database)
        made = Harbour(app, url, served)
        try:
            yield made
        finally:
            await made.close()


def only(rows: Sequence[Any]) -> Any:
    [row] = rows
    return row
