"""A domain for trying the runner: patients that are found sick and healed, some of them incurable."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import replace
from datetime import timedelta
from typing import Any

from ferryman.kernel import watchdog
from ferryman.kernel.db import Row, Tx
from ferryman.kernel.pool import Database, Line
from ferryman.kernel.watchdog import Ground, Rule, Watchdog

SECOND = timedelta(seconds=1)
HOUR = timedelta(hours=1)


async def find(tx: Tx, limit: int) -> Sequence[Row]:
    return await tx.fetch("select id from patients where sick order by id limit $1 for update skip locked", limit)


async def heal(tx: Tx, found: Sequence[Row]) -> int:
    rows = await tx.fetch(
        "update patients set sick = false, healed = healed + 1 / cure where id = any($1) returning id",
        [row["id"] for row in found],
    )
    return len(rows)


HEAL = Rule(
    name="heal", finds="the sick", does="heals them", setting="ward.heal_seconds", every=HOUR, find=find, act=heal
)


async def admit(db: Database, count: int, *, incurable: Sequence[int] = ()) -> None:
    async with db.session() as session:
        await session.fetch(
            "insert into patients (id, cure) select id, case when id = any($2) then 0 else 1 end"
            " from generate_series((select coalesce(max(id), 0) + 1 from patients),"
            " (select coalesce(max(id), 0) + $1 from patients)) as id",
            count,
            list(incurable),
        )


async def healed(db: Database) -> dict[int, int]:
    async with db.session() as session:
        return {row["id"]: row["healed"] for row in await session.fetch("select id, healed from patients order by id")}


async def ticked(db: Database, ago: timedelta) -> None:
    """Let the last tick of a watchdog be so long ago; watchdogs had ticked regularly before."""
    async with db.session() as session:
        await session.fetch(
            "update ferryman.watchdog set ticked_at = clock_timestamp() - $1::interval,"
            " steady_since = clock_timestamp() - interval '1 day', grace_until = '-infinity', silence = '0'",
            ago,
        )


async def passes(db: Database, time: timedelta) -> None:
    """Let so much time pass by the watchdogs' row."""
    async with db.session() as session:
        await session.fetch(
            "update ferryman.watchdog set ticked_at = ticked_at - $1::interval,"
            " steady_since = steady_since - $1::interval, grace_until = grace_until - $1::interval",
            time,
        )


@asynccontextmanager
async def lines(url: str, count: int = 1) -> AsyncIterator[list[Line]]:
    made = [Line(url, settings=watchdog.SETTINGS) for _ in range(count)]
    try:
        yield made
    finally:
        for line in made:
            await line.close()


class Counted:
    """A line that counts what goes over it."""

    def __init__(self, line: Line) -> None:
        self.schema = line.schema
        self.transactions = 0
        self._line = line

    async def fetch(self, query: str, /, *args: Any) -> Sequence[Row]:
        self.transactions += 1
        return await self._line.fetch(query, *args)

    def transaction(self) -> AbstractAsyncContextManager[Ground]:
        self.transactions += 1
        return self._line.transaction()


@asynccontextmanager
async def running(dog: Watchdog) -> AsyncIterator[None]:
    task = asyncio.create_task(dog.run())
    try:
        yield
    finally:
        dog.stop()
        await asyncio.wait_for(task, timeout=60)


def signalled(rule: Rule, count: int = 1) -> tuple[Rule, asyncio.Event]:
    """Return the rule and an event that is set when it has acted on `count` findings."""
    enough = asyncio.Event()
    seen: list[Any] = []

    def after(done: Sequence[Any]) -> None:
        seen.extend(done)
        if len(seen) >= count:
            enough.set()

    return replace(rule, after=after), enough
