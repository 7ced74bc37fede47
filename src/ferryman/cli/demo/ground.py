"""Where the story happens, and where what it leaves can be looked at.

Without an address: on an embedded PostgreSQL in `.ferryman/demo` of this directory, whose data stays there until the next
telling. On a server that is named: in a schema of its own, which is dropped at the end unless it is to be kept.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

from ferryman.app.embedded import Embedded
from ferryman.cli.demo.tale import Tale
from ferryman.cli.schema import drop
from ferryman.kernel import db, errors, setting
from ferryman.kernel.pool import Line

APP = "ferryman.cli.demo.handlers:app"
FOLDER = Path(".ferryman") / "demo"
SCHEMA = "ferryman_demo"
OTHERS = db.load("ferryman.cli.demo", "others")
SCHEMAS = db.load("ferryman.cli.demo", "schemas")


@dataclass(frozen=True)
class Ground:
    """A database and a schema, and whether what happens there stays."""

    url: str
    schema: str
    kept: bool

    @property
    def overrides(self) -> dict[str, str]:
        """The settings that lead there."""
        return {"database_url": self.url, "schema": self.schema}


@asynccontextmanager
async def fresh(named: str | None, tale: Tale, *, keep: bool) -> AsyncIterator[Ground]:
    """Make room for a telling; nothing of an earlier one is there."""
    if named is None:
        async with _embedded(tale) as ground:
            yield ground
        return
    schema = SCHEMA if keep else f"{SCHEMA}_{os.getpid()}"
    tale.tell(f"on {setting.show(named)}, in the schema {schema}")
    try:
        await drop(named, schema)
        yield Ground(named, schema, keep)
    finally:
        if not keep:
            await drop(named, schema)


@asynccontextmanager
async def _embedded(tale: Tale) -> AsyncIterator[Ground]:
    embedded = Embedded(FOLDER)
    tale.tell("starting an embedded PostgreSQL …")
    url = await asyncio.to_thread(embedded.start)
    try:
        await _alone(url)
        await drop(url, db.SCHEMA)
        tale.tell(f"it answers; its data is in {FOLDER}")
        yield Ground(url, db.SCHEMA, True)
    finally:
        await asyncio.to_thread(embedded.stop)


async def left(named: str | None) -> Ground:
    """Find what the last telling left; the embedded server runs as long as this process."""
    if named is None:
        if not FOLDER.exists():
            raise errors.UsageInvalid(f"There is no {FOLDER} here: run `ferryman demo` in this directory first.")
        return Ground(await asyncio.to_thread(Embedded(FOLDER).start), db.SCHEMA, True)
    line = Line(named)
    try:
        found = await db.many(line, SCHEMAS, schema=SCHEMA)
    finally:
        await line.close()
    if not found:
        raise errors.UsageInvalid(f"There is no schema {SCHEMA} on that server: run `ferryman demo --keep` first.")
    return Ground(named, SCHEMA, True)


async def _alone(url: str) -> None:
    """Refuse to take the ground from under somebody's feet."""
    line = Line(url)
    try:
        row = await db.one(line, OTHERS)
    finally:
        await line.close()
    if row is not None and row["others"]:
        raise errors.UsageInvalid(
            f"Somebody works on the data in {FOLDER}: end the other `ferryman demo` or `ferryman dev --demo` first."
        )
