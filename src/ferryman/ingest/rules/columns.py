"""A page as columns of text: what PostgreSQL reads fastest, and how it is written (P12, ADR 43).

The values of a column stand one after the other, and column after column, between signs that hardly any text holds; PostgreSQL
cuts them apart and reads each as its column's type, as it does with COPY. Of JSON it would make a table of names for each
record first, which costs more than writing the records. A page that holds one of the signs goes over as JSON.

The casts name the types that the columns had when the table was looked at. Whoever writes a page so compares, once it is
written and the table thereby held, whether they still have them.

A page of which the table has no record yet is inserted as it is. `on conflict` would look for each record, mark it as perhaps
to be taken back, and write that it is not: a third of the work, for nothing. Who is wrong about that, because another wrote the
same record meanwhile, is refused by the unique key, and that page goes the longer way.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import orjson

from ferryman.ingest.rules import table
from ferryman.ingest.rules.table import Target, quoted

BETWEEN_COLUMNS: Final = "\x1e"
BETWEEN_VALUES: Final = "\x1f"
NULL: Final = "\x1d"

_NUMBERS: Final = ({int}, {float}, {int, float}, {bool})
_NESTED: Final = {list, dict}


@dataclass(frozen=True, slots=True)
class Statements:
    """How a page of columns is written: in any case, and, if `look` finds none of its records, in a shorter way."""

    known: str
    look: str | None
    fresh: str


def statements(to: Target, types: Mapping[str, str]) -> Statements:
    """Return the statements for a table; `types` are the types of its columns as they stand in a statement."""
    names = [quoted(name) for name in to.columns]
    read = ", ".join(f"cut.{name}::{types[column]} as {name}" for column, name in zip(to.columns, names, strict=True))
    cuts = ", ".join(f"string_to_array(page.parts[{place}], E'\\x1f', E'\\x1d')" for place in range(1, len(names) + 1))
    # "offset 0": the page is cut once, and not for each column.
    page = f"""
        from (select string_to_array($1::text, E'\\x1e') as parts offset 0) as page,
            unnest({cuts}) as cut ({", ".join(names)})"""
    key = ", ".join(quoted(name) for name in to.key)
    all_names = ", ".join(names)
    fresh = f"""
    with written as (
        insert into {to.name} ({all_names})
        select {read}{page}
        order by {key}
        returning 1
    )
    select count(*) as rows from written"""  # noqa: S608 - every name is quoted
    numbered = f"select {read}, row_number() over () as {quoted(table.PLACE)}{page}"
    return Statements(table.upsert(to, numbered), _look(to, types), fresh)


def _look(to: Target, types: Mapping[str, str]) -> str | None:
    """Return a statement that counts one if the table has a record of a page; None for a key of several columns: too dear."""
    if len(to.key) > 1:
        return None
    [key] = to.key
    place = list(to.columns).index(key) + 1
    keys = f"string_to_array(split_part($1::text, E'\\x1e', {place}), E'\\x1f', E'\\x1d')::{types[key]}[]"
    return f"""
    select count(*) as rows from (select from {to.name} as held where held.{quoted(key)} = any({keys}) limit 1) as found"""  # noqa: S608


@dataclass(frozen=True, slots=True)
class Cut:
    """A page as columns, and whether its records differ in their key; of a key of several columns that is not known."""

    text: str
    differ: bool


def cut(to: Target, items: Sequence[Mapping[str, Any]], *, json: Collection[str]) -> Cut | None:
    """Return a page as columns; None if it holds one of our signs or half a character. `json` names the columns of JSON."""
    columns, nulls, differ = [], 0, False
    for name, path in to.columns.items():
        column, none = _column(table.values(path, items), whole=name in json)
        if not column:  # one empty text: PostgreSQL would cut it into no values at all
            return None
        if to.key == (name,):
            differ = len(set(column.split(BETWEEN_VALUES))) == len(items)
        columns.append(column)
        nulls += none
    page = BETWEEN_COLUMNS.join(columns)
    ours = (
        page.count(BETWEEN_COLUMNS) == len(columns) - 1
        and page.count(BETWEEN_VALUES) == len(columns) * (len(items) - 1)
        and page.count(NULL) == nulls
    )
    return Cut(page, differ) if ours and _encodes(page) else None


def _encodes(page: str) -> bool:
    """Whether it can go over at all: a lone surrogate is half a character."""
    try:
        return page.isascii() or bool(page.encode())
    except UnicodeEncodeError:
        return False


def _column(values: list[Any], *, whole: bool) -> tuple[str, int]:
    """Return the values of a column, and how many are null; those of one simple type in one go."""
    kinds = set(map(type, values))
    if not whole and kinds == {str}:
        return BETWEEN_VALUES.join(values), 0
    if not whole and kinds in _NUMBERS:
        numbers = orjson.dumps(values).decode()
        if "null" not in numbers:  # NaN
            return numbers[1:-1].replace(",", BETWEEN_VALUES), 0
    if whole and kinds <= _NESTED:
        return b"\x1f".join(map(orjson.dumps, values)).decode(), 0
    texts = [table.spelled(value, whole=whole) for value in values]
    return BETWEEN_VALUES.join([NULL if each is None else each for each in texts]), texts.count(None)
