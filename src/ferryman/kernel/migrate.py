"""Bring a database up to the tables that this version needs (K15).

Migrations are numbered SQL files, applied in order and never backwards. Each goes in one transaction together with the row
that says so; a crash in the middle leaves nothing of it. Processes that start at the same moment take turns by an advisory
lock which they poll: waiting inside PostgreSQL for it would hold a snapshot, and CREATE INDEX CONCURRENTLY waits for
snapshots. The lock belongs to the transaction, so this works through PgBouncer too. A table that a busy worker holds is
asked for again and again, each time for a moment, so that nobody queues behind us for long. Who has one table and waits for the
next holds up both: so for the others that a file changes it waits for a shorter moment still.

Files change the database only in ways the previous version can live with (expand first, contract in a later release). So
a database that is newer than this code is fine, unless a later file said in its header which version it needs at least.

Headers, in the comments at the top of a file:
    -- ferryman: no-transaction       each statement commits itself (CREATE INDEX CONCURRENTLY); every one must bear a repeat
    -- ferryman: oldest-code 12       code that does not know migration 12 cannot work with this database any more
"""

from __future__ import annotations

import asyncio
import hashlib
import random
import re
from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import cache
from importlib import resources
from importlib.resources.abc import Traversable
from typing import Final

from ferryman.kernel import errors, indexes
from ferryman.kernel.db import SCHEMA, Tx, in_schema
from ferryman.kernel.pool import Line, Session
from ferryman.kernel.script import split, uncommented

OLDEST_POSTGRESQL: Final = 150000
# While a file waits for its table, every claim waits behind it: so not for long, and again and again. Nobody waits behind an
# index that is made beside writers, and it waits for every transaction that is older: a try given up early is work lost.
LOCK_TIMEOUT_SECONDS: Final = 0.15
FURTHER_LOCK_TIMEOUT_SECONDS: Final = 0.04
BESIDE_LOCK_TIMEOUT_SECONDS: Final = 60
TRIES: Final = 100
_POLL_SECONDS: Final = 0.05

_NAME = re.compile(r"(?P<version>\d{4})_(?P<name>[a-z0-9_]+)\.sql")
_SCHEMA = re.compile(r"[a-z_][a-z0-9_]{0,62}")
_HEADER = re.compile(r"^-- ferryman: (?P<word>[a-z-]+)(?: (?P<value>\d+))?\s*$", re.MULTILINE)
_TAKES = re.compile(
    r"(?:alter|drop|lock|truncate)\b|create\s+(?:unique\s+)?index\b|create\s+(?:or\s+replace\s+)?(?:constraint\s+)?trigger\b",
    re.IGNORECASE,
)
_HELD_BY_OTHERS: Final = ("55P03", "40P01")  # a lock was not to be had in time, or not without a deadlock


@dataclass(frozen=True)
class Migration:
    """One numbered file."""

    version: int
    name: str
    sql: str
    in_transaction: bool = True
    oldest_code: int = 0

    @property
    def hash(self) -> str:
        """What an edit of the file would change, the ends of its lines aside."""
        return hashlib.sha256(self.sql.replace("\r\n", "\n").encode()).hexdigest()


@dataclass(frozen=True)
class Applied:
    """What the database remembers of a migration."""

    version: int
    name: str
    hash: str
    oldest_code: int


def read(folder: Traversable | None = None) -> Sequence[Migration]:
    """Read the files, in order; their numbers have no gaps. Our own are read once: every worker that starts asks."""
    return _own() if folder is None else _read(folder)


@cache
def _own() -> Sequence[Migration]:
    return _read(resources.files("ferryman") / "migrations")


def _read(folder: Traversable) -> Sequence[Migration]:
    found = sorted((_parse(file) for file in folder.iterdir() if file.name.endswith(".sql")), key=lambda it: it.version)
    for expected, migration in enumerate(found, start=1):
        if migration.version != expected:
            raise ValueError(
                f"The migrations are numbered from 0001 without gaps; {expected:04} is missing or twice there."
            )
    return found


def _parse(file: Traversable) -> Migration:
    named = _NAME.fullmatch(file.name)
    if named is None:
        raise ValueError(f"A migration is named like 0001_what_it_does.sql, not {file.name}.")
    sql = file.read_text(encoding="utf-8")
    headers = {found["word"]: int(found["value"] or 0) for found in _HEADER.finditer(sql)}
    if strange := set(headers) - {"no-transaction", "oldest-code"}:
        raise ValueError(f"{file.name}: unknown header {sorted(strange)}.")
    return Migration(
        version=int(named["version"]),
        name=file.name.removesuffix(".sql"),
        sql=sql,
        in_transaction="no-transaction" not in headers,
        oldest_code=headers.get("oldest-code", 0),
    )


async def migrate(url: str, *, schema: str = SCHEMA, folder: Traversable | None = None) -> list[str]:
    """Apply what is missing and return the names of what was applied here."""
    known = read(folder)
    async with _line(url, schema) as line:
        applied: list[str] = []
        for migration in _missing(known, await _remembered(line)):
            if await _patiently(line, migration, known):
                applied.append(migration.name)
        return applied


async def pending(url: str, *, schema: str = SCHEMA, folder: Traversable | None = None) -> list[str]:
    """Return the names of what `migrate` would apply."""
    known = read(folder)
    async with _line(url, schema) as line:
        return [migration.name for migration in _missing(known, await _remembered(line))]


def newest() -> int:
    """Return the number of the last migration that this code knows."""
    return read()[-1].version


async def check_code(tx: Tx, newest: int) -> None:
    """Refuse a database with a migration that code which knows no more than these cannot work with."""
    _check_code(newest, await _remembered(tx))


async def plan(url: str, *, schema: str = SCHEMA, folder: Traversable | None = None) -> str:
    """Return the script that `migrate` would run, for whoever must run it by hand; psql -v ON_ERROR_STOP=1."""
    known = read(folder)
    async with _line(url, schema) as line:
        missing = _missing(known, await _remembered(line))
    parts = [f"{ground};" for ground in _ground(schema)] if missing else []
    for migration in missing:
        body = f"{in_schema(migration.sql, schema).rstrip()}\n{_remembering(migration, schema)};"
        parts.append(f"-- {migration.name}\n" + (f"begin;\n{body}\ncommit;" if migration.in_transaction else body))
    return "\n\n".join(parts) + "\n" if parts else "-- Nothing to do.\n"


@asynccontextmanager
async def _line(url: str, schema: str) -> AsyncIterator[Line]:
    if not _SCHEMA.fullmatch(schema):
        raise errors.SettingsInvalid(f"A schema is named in small letters, digits and `_`, not {schema!r}.")
    # Plans as the database would make them: a migration reads whole tables when it must.
    line = Line(url, schema=schema, settings={"enable_seqscan": "on", "plan_cache_mode": "auto"})
    try:
        version = int((await line.fetch("select current_setting('server_version_num')"))[0][0])
        if version < OLDEST_POSTGRESQL:
            raise errors.DatabaseTooOld(version=version)
        yield line
    finally:
        await line.close()


async def _remembered(tx: Tx) -> dict[int, Applied]:
    """Read what has been applied; a database that was never migrated remembers nothing."""
    there = await tx.fetch("select to_regclass($1) is not null", f"{tx.schema}.migrations")
    if not there[0][0]:
        return {}
    question = "select version, name, hash, oldest_code from ferryman.migrations order by version"
    rows = await tx.fetch(in_schema(question, tx.schema))
    return {row[0]: Applied(row[0], row[1], row[2], row[3]) for row in rows}


def _check_code(newest: int, applied: Mapping[int, Applied]) -> None:
    for there in applied.values():
        if there.oldest_code > newest:
            raise errors.DatabaseTooNew(
                f"Migration {there.name} of this database needs code that knows {there.oldest_code:04}; "
                f"this knows {newest:04} at most."
            )


def _missing(known: Sequence[Migration], applied: Mapping[int, Applied]) -> list[Migration]:
    """Return what is to be applied, or refuse a database that this code does not fit."""
    _check_code(known[-1].version if known else 0, applied)
    for migration in known:
        found = applied.get(migration.version)
        if found is not None and found.hash != migration.hash:
            raise errors.MigrationEdited(
                f"Migration {migration.name} differs from {found.name} as it was applied.", version=migration.version
            )
    return [migration for migration in known if migration.version not in applied]


async def _patiently(line: Line, migration: Migration, known: Sequence[Migration]) -> bool:
    """Apply one file; a table that is held longer than we ask for it is asked for again, later."""
    apply = _apply if migration.in_transaction else _apply_loose
    for attempt in range(1, TRIES + 1):
        try:
            return await apply(line, migration, known)
        except errors.DatabaseUnavailable as error:
            if getattr(error.__cause__, "sqlstate", None) not in _HELD_BY_OTHERS or attempt == TRIES:
                raise
            await asyncio.sleep(random.uniform(0.5, 1.5) * min(attempt, 10) / 10)
        except (errors.MigrationEdited, errors.DatabaseTooNew):
            raise
        except Exception as error:
            told = error.__cause__ if isinstance(error, errors.FerrymanError) else error
            raise errors.MigrationFailed(
                f"Migration {migration.name} failed: {told}.", version=migration.version
            ) from error
    raise AssertionError("the last try returns or raises")


async def _apply(line: Line, migration: Migration, known: Sequence[Migration]) -> bool:
    """Apply one file with its memory in one transaction; False if somebody else has done it."""
    while True:
        async with line.transaction() as tx:
            if (await tx.fetch("select pg_try_advisory_xact_lock($1)", _key(tx.schema)))[0][0]:
                await tx.execute(f"set local lock_timeout = '{LOCK_TIMEOUT_SECONDS}s'")
                if not await _wanted(tx, migration, known):
                    return False
                await tx.execute(hurried(in_schema(migration.sql, tx.schema)))
                await tx.execute(_remembering(migration, tx.schema))
                return True
        await asyncio.sleep(_POLL_SECONDS * random.uniform(0.5, 1.5))


def hurried(script: str) -> str:
    """Let a script wait for what its first table is held by, and hardly at all once it has that in hand."""
    statements = split(script)
    takes = [n for n, statement in enumerate(statements) if _TAKES.match(uncommented(statement))]
    if takes:
        statements.insert(takes[0] + 1, f"set local lock_timeout = '{FURTHER_LOCK_TIMEOUT_SECONDS}s'")
    return "\n;\n".join(statements)  # a statement may end in a comment


async def _apply_loose(line: Line, migration: Migration, known: Sequence[Migration]) -> bool:
    """Apply a file whose statements commit one by one; what an earlier try left of an index is mended first.

    The lock is then the session's, until the line is closed: this wants a direct connection, and it must be one
    connection from here to the end, not a line that heals itself.
    """
    session = await line.open()
    while True:
        if (await session.fetch("select pg_try_advisory_lock($1)", _key(session.schema)))[0][0]:
            break
        await asyncio.sleep(_POLL_SECONDS * random.uniform(0.5, 1.5))
    await _wait_at_most(session, LOCK_TIMEOUT_SECONDS)
    if not await _wanted(session, migration, known):
        return False
    await _wait_at_most(session, BESIDE_LOCK_TIMEOUT_SECONDS)
    await indexes.mend(session)
    for statement in split(in_schema(migration.sql, session.schema)):
        beside = indexes.beside_writers(statement)
        await _wait_at_most(session, BESIDE_LOCK_TIMEOUT_SECONDS if beside else LOCK_TIMEOUT_SECONDS)
        await session.execute(statement)
    await _wait_at_most(session, LOCK_TIMEOUT_SECONDS)
    await session.execute(_remembering(migration, session.schema))
    return True


async def _wait_at_most(session: Session, seconds: float) -> None:
    await session.execute(f"set lock_timeout = '{seconds}s'")


async def _wanted(session: Session, migration: Migration, known: Sequence[Migration]) -> bool:
    """Look again, now that we hold the lock."""
    for statement in _ground(session.schema):
        await session.execute(statement)
    return migration in _missing(known, await _remembered(session))


def _ground(schema: str) -> Iterable[str]:
    """What must be there before the first file."""
    # Asked first: who may not make a schema is refused even where it is there, and the schema may be all that a role owns.
    yield f"do $$ begin if to_regnamespace('{schema}') is null then create schema {schema}; end if; end $$"
    yield (
        f"create table if not exists {schema}.migrations (version integer primary key, name text not null, "
        "hash text not null, oldest_code integer not null default 0, "
        "applied_at timestamptz not null default clock_timestamp())"
    )


def _remembering(migration: Migration, schema: str) -> str:
    # Values of ours, none of which can hold a quote: this must also be printable as a script.
    return (
        f"insert into {schema}.migrations (version, name, hash, oldest_code) "  # noqa: S608
        f"values ({migration.version}, '{migration.name}', '{migration.hash}', {migration.oldest_code})"
    )


def _key(schema: str) -> int:
    """Return the number of the advisory lock: one for each schema."""
    digest = hashlib.sha256(f"ferryman migrations of {schema}".encode()).digest()
    return int.from_bytes(digest[:8], "big", signed=True)
