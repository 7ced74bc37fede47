"""A table of the same PostgreSQL as a sink (I6, I14).

Rows are written in the transaction that marks the batch: both are there, or neither is, so that each page counts once. Pages
of hundreds go over inside the statement that ends their batch, as columns of text or, where a cast would not read a text as
the table does, as one JSON text (ADR 43); larger ones are copied into a temporary table first, which alone costs as much as a
page of hundreds. All ways give the same rows.

JSON follows the table by itself. Columns and COPY hang on what the table was when it was looked at: of columns the statement
compares the table's shape, and a page that finds another one goes the longer way, where the table is looked at again; COPY
looks each time.

A record that the table refuses goes into quarantine with PostgreSQL's reason, and the others are written: the page is halved
until the culprits stand alone. A page with many of them is broken as a whole.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol, runtime_checkable

import orjson

from ferryman.ingest.model import Records
from ferryman.ingest.ports import Item, Written
from ferryman.ingest.rules import columns, table
from ferryman.kernel import errors
from ferryman.kernel.db import Statement, Tx, many, sqlstate

COPY_FROM = 5000
BAD_MAX = 100
SAVEPOINT = "ferryman_page"

# 22 and 23: a value that is no value of its column, and one that breaks a constraint. P0001: a trigger of the table's owner.
_OF_A_RECORD = ("22", "23", "P0001")

# 42: the statement does not fit the table, which has changed since it was looked at.
_CHANGED = "42"
# Another wrote a record of a page that was thought to be new, or it has one twice: keys that differ as texts may be equal.
_NOT_NEW = ("23505", "21000")

_SHAPE = Statement("shape", "select ferryman.table_shape(:name) as shape")
_COLUMNS = Statement(
    "columns",
    """
    select column_.attname as name,
        column_.attgenerated <> '' or column_.attidentity = 'a' as made,
        type.typname in ('json', 'jsonb') as json,
        type.typtype in ('b', 'e') and type.typcategory <> 'A' as plain,
        quote_ident(space.nspname) || '.' || quote_ident(type.typname) as type,
        -- Whether a cast reads a text as the type itself does. A cast that was made for it may not: by a function a text may
        -- become something else, and without one it is taken as it is, which only those of PostgreSQL's own types mean so.
        not exists (
            select from pg_cast as made
            where made.castsource = 'text'::regtype
              and made.casttarget = type.oid
              and (made.castmethod = 'f' or made.castmethod = 'b' and space.nspname <> 'pg_catalog'))
        -- What stands in brackets after a type is applied when the value is stored; but it may say how a text is to be read,
        -- as the fields of an interval do: '1' is a day to "interval day".
        and (column_.atttypmod = -1 or space.nspname = 'pg_catalog' and type.typname <> 'interval') as cast_reads
    from pg_attribute as column_
    join pg_type as type on type.oid = column_.atttypid
    join pg_namespace as space on space.oid = type.typnamespace
    where column_.attrelid = to_regclass(:name)
      and column_.attnum > 0
      and not column_.attisdropped
    """,
)
_UNIQUE = Statement(
    "unique",
    """
    select array_agg(column_.attname::text) as names, unique_.indisvalid and unique_.indimmediate as holds
    from pg_index as unique_
    join pg_attribute as column_ on column_.attrelid = unique_.indrelid and column_.attnum = any(unique_.indkey)
    where unique_.indrelid = to_regclass(:name)
      and unique_.indisunique
      and unique_.indpred is null
      and unique_.indexprs is null
    group by unique_.indexrelid
    """,
)


@runtime_checkable
class Copying(Protocol):
    """A Tx that can COPY."""

    async def copy(self, table: str, columns: Sequence[str], text: bytes) -> None:
        """Load rows."""


class TableSink:
    """A table: which one, what fills its columns, by which of them a record is known, and which says what is newer.

    `columns` are names that a record's fields have too, or a path for each. Without `updated_at` the last write counts.
    """

    same_database = True
    _by_columns: columns.Statements | None = None

    def __init__(
        self,
        table_name: str,
        *,
        key: str | Sequence[str],
        columns: Sequence[str] | Mapping[str, str],
        updated_at: str | None = None,
        schema: str | None = None,
    ) -> None:
        """Check the declaration; the table is looked at before the first write."""
        self._to = table.target(table_name, key=key, columns=columns, updated_at=updated_at, schema=schema)
        self._from_json = table.from_json(self._to)
        self._from_stage = table.from_stage(self._to)
        self._json: frozenset[str] = frozenset()
        self._copies = False
        self._shape: str | None = None
        self._checked = False

    async def check(self, tx: Tx) -> None:
        """Refuse a table that is not there, lacks a column, or has no unique key of these columns."""
        to = self._to
        # First: what changes while the rest is read gives the table another shape, which the first page finds.
        [shape] = await many(tx, _SHAPE, name=to.name)
        found = {row["name"]: row for row in await many(tx, _COLUMNS, name=to.name)}
        if not found:
            raise errors.IngestInvalidSink(f"table: there is no table {to.name} here.", field="table")
        for name in to.columns:
            if name not in found or found[name]["made"]:
                why = "is filled by PostgreSQL itself" if name in found else "is not there"
                raise errors.IngestInvalidSink(f"columns: {name} of {to.name} {why}.", field="columns")
        holds = [row["holds"] for row in await many(tx, _UNIQUE, name=to.name) if set(row["names"]) == set(to.key)]
        if not any(holds):
            which = " that is valid and not deferrable" if holds else ""
            keys = ", ".join(to.key)
            raise errors.IngestInvalidSink(f"key: {to.name} has no unique index on ({keys}){which}.", field="key")
        self._json = frozenset(name for name in to.columns if found[name]["json"])
        # JSON knows how to become an array or a composite value; the text of COPY does not.
        self._copies = all(found[name]["plain"] for name in to.columns)
        self._by_columns = None
        if self._copies and all(found[name]["cast_reads"] for name in to.columns):
            self._by_columns = columns.statements(to, {name: found[name]["type"] for name in to.columns})
        self._shape = shape["shape"]
        self._checked = True

    def join(self, items: Sequence[Item]) -> Records | None:
        """Return a page of hundreds for another statement to write; None if it is no JSON, or the table was not looked at."""
        if not self._checked or not 0 < len(items) < COPY_FROM:
            return None
        rows, by_columns = _plain(items), self._by_columns
        try:
            cut = None if by_columns is None else columns.cut(self._to, rows, json=self._json)
            if by_columns is None or cut is None:
                return Records(self._from_json, orjson.dumps(self._to.rows(rows)).decode())
        except (orjson.JSONEncodeError, UnicodeEncodeError):
            return None
        look, fresh = (by_columns.look, by_columns.fresh) if cut.differ else (None, None)
        return Records(by_columns.known, cut.text, look, fresh, self._to.name, self._shape)

    def rejoins(self, records: Records, error: Exception) -> bool:
        """Say whether pages may go so after one that was refused: not if it has a bad record, of which there may be more."""
        state = sqlstate(error) or ""
        # An operator that PostgreSQL does not find, because the key has another type, is told like a table that is not there.
        if state.startswith(_CHANGED) or isinstance(error, errors.DatabaseNotMigrated):
            self._checked = False
            return True
        return records.fresh is not None and state in _NOT_NEW

    async def write(self, tx: Tx | None, items: Sequence[Item], *, batch_key: str) -> Written:
        """Write a page in the caller's transaction."""
        if tx is None:
            raise errors.IngestInvalidSink(
                f"{self._to.name} is written in the batch's own transaction, and there is none."
            )
        if not self._checked:
            await self.check(tx)
        if not items:
            return Written(0)
        if self._copying(tx, items) is not None:
            await tx.fetch(table.hold(self._to))  # as it is looked at now, so it stays until all is copied
            await self.check(tx)
        items = _plain(items)
        bad: list[tuple[Item, str]] = []
        rows = await self._write(tx, list(zip(items, self._to.rows(items), strict=True)), bad)
        return Written(rows, tuple(bad))

    async def _write(
        self, tx: Tx, page: list[tuple[Item, Mapping[str, Any]]], bad: list[tuple[Item, str]], *, halved: bool = False
    ) -> int:
        """Write what can be written; what cannot is halved until one record is left, which is bad."""
        await tx.fetch(f"savepoint {SAVEPOINT}")
        try:
            rows = await self._upsert(tx, [row for _, row in page])
        except Exception as error:
            why = _why(error)
            if why is None:
                raise
        else:
            if halved:  # the commit releases the one of a whole page without a trip of its own
                await tx.fetch(f"release savepoint {SAVEPOINT}")
            return rows
        await tx.fetch(f"rollback to savepoint {SAVEPOINT}")
        await tx.fetch(f"release savepoint {SAVEPOINT}")
        if len(page) == 1:
            bad.append((page[0][0], why))
            if len(bad) > BAD_MAX:
                raise errors.IngestInvalidSink(f"{self._to.name} refused more than {BAD_MAX} records of a page: {why}.")
            return 0
        half = len(page) // 2
        return sum([await self._write(tx, part, bad, halved=True) for part in (page[:half], page[half:])])

    def _copying(self, tx: Tx, rows: Sequence[object]) -> Copying | None:
        """Return who copies, if the rows are so many that it pays."""
        return tx if self._copies and len(rows) >= COPY_FROM and isinstance(tx, Copying) else None

    async def _upsert(self, tx: Tx, rows: Sequence[Mapping[str, Any]]) -> int:
        copying = self._copying(tx, rows)
        if copying is not None:
            await tx.fetch(table.make_stage(self._to))
            text = table.copy_text(self._to, rows, json=self._json)
            await copying.copy(table.STAGE, [*self._to.columns, table.PLACE], text)
            [row] = await tx.fetch(self._from_stage)
            await tx.fetch(table.drop_stage())
        else:
            [row] = await tx.fetch(self._from_json, orjson.dumps(rows).decode())
        count: int = row["rows"]
        return count


def _plain(items: Sequence[Item]) -> list[dict[str, Any]]:
    return [item if type(item) is dict else dict(item) for item in items]


def _why(error: Exception) -> str | None:
    """Return why a record is refused, or None if the error is not about records."""
    if isinstance(error, orjson.JSONEncodeError | UnicodeEncodeError):
        return errors.said(error)
    if not (sqlstate(error) or "").startswith(_OF_A_RECORD):
        return None
    return str(error).partition("\n")[0]
