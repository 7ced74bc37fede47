"""How the library speaks to PostgreSQL: one statement per `.sql` file, run in somebody's transaction.

A statement is written by hand, whole, with named parameters (`:owner`), so that it can be read, linted and pasted into psql.
The names become positions once, when the file is loaded. The schema is written plainly as `ferryman.` and replaced only when
the product lives under another name. Nothing here knows a driver: a `Tx` is anything that can run one statement and give
back its rows, whether it is ours (kernel/pool) or lent by a caller (kernel/borrow.py).
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from functools import cache
from importlib import resources
from typing import Any, Protocol

from ferryman.kernel import errors

SCHEMA = "ferryman"
READ_COMMITTED = "read committed"  # the isolation level that all statements are written for

# A parameter is a colon and a name; a cast (`::text`) is two colons, and both must be told apart from text and comments.
_TOKEN = re.compile(r"'(?:[^']|'')*'|--[^\n]*|::|:([a-z_][a-z0-9_]*)")
_SCHEMA_TOKEN = re.compile(rf"\b{SCHEMA}\.")


class Row(Protocol):
    """One row of an answer, by column name or position."""

    def __getitem__(self, key: Any, /) -> Any:
        """Give the value of a column."""


class Tx(Protocol):
    """Somebody's transaction (or a session where each statement commits itself)."""

    @property
    def schema(self) -> str:
        """The PostgreSQL schema that the product lives in."""

    async def fetch(self, query: str, /, *args: Any) -> Sequence[Row]:
        """Run one statement and give back its rows."""


def sqlstate(error: BaseException) -> str | None:
    """Return PostgreSQL's code for what it refused, whichever driver raised it; None if it was not PostgreSQL."""
    state = (
        error.details.get("sqlstate")
        if isinstance(error, errors.StatementRefused)
        else getattr(error, "sqlstate", None)
    )
    return state if isinstance(state, str) else None


class Statement:
    """One SQL statement with named parameters."""

    def __init__(self, name: str, text: str) -> None:
        """Turn names into positions."""
        self.name = name
        self.text = text
        self.names: tuple[str, ...] = ()
        self._position: dict[str, int] = {}
        self._positional = _TOKEN.sub(self._place, text)
        self.names = tuple(self._position)
        self._in_schema: dict[str, str] = {SCHEMA: self._positional}

    def _place(self, found: re.Match[str]) -> str:
        name = found.group(1)
        if name is None:
            return found.group(0)
        return f"${self._position.setdefault(name, len(self._position) + 1)}"

    def sql(self, schema: str = SCHEMA) -> str:
        """Return the text that goes over the wire, for a product that lives in `schema`."""
        known = self._in_schema.get(schema)
        if known is None:
            known = self._in_schema[schema] = in_schema(self._positional, schema)
        return known

    def bind(self, values: Mapping[str, Any]) -> list[Any]:
        """Put named values into their positions; a missing or surplus name is a mistake of ours."""
        if len(values) != len(self.names):
            odd = set(values) ^ set(self.names)
            raise TypeError(f"{self.name}: parameters do not match: {sorted(odd)}")
        return [values[name] for name in self.names]

    def __repr__(self) -> str:
        """Name the file."""
        return f"Statement({self.name!r})"


def in_schema(sql: str, schema: str) -> str:
    """Return the same SQL for a product that lives in another schema."""
    return sql if schema == SCHEMA else _SCHEMA_TOKEN.sub(f"{schema}.", sql)


class _Filed(Statement):
    """A statement whose file is read at its first use: a process pays for what it runs, not for all that could be run."""

    def __init__(self, package: str, name: str) -> None:
        self.name = name
        self._package = package

    def __getattr__(self, attribute: str) -> Any:
        if "text" in self.__dict__:
            raise AttributeError(attribute)
        text = (resources.files(self._package) / "sql" / f"{self.name}.sql").read_text(encoding="utf-8")
        super().__init__(self.name, text.rstrip().rstrip(";"))
        return getattr(self, attribute)


@cache
def load(package: str, name: str) -> Statement:
    """Return the statement that stands in `sql/<name>.sql` of a package; it is read when it is first used."""
    return _Filed(package, name)


async def many(tx: Tx, statement: Statement, /, **values: Any) -> Sequence[Row]:
    """Run a statement and give back all its rows."""
    return await tx.fetch(statement.sql(tx.schema), *statement.bind(values))


async def one(tx: Tx, statement: Statement, /, **values: Any) -> Row | None:
    """Run a statement that answers with one row or none."""
    rows = await many(tx, statement, **values)
    return rows[0] if rows else None
