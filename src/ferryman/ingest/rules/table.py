"""The statements of a sink in a table: an upsert in which an older record never overwrites a newer one (I6).

What a record holds for the columns goes over as text, and PostgreSQL reads it as the column's type; what else it holds is not
looked at, whichever way its page goes. Of several records of one page with the same key the newest counts; of those that are
equally new, the last.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from operator import itemgetter
from typing import Any, Final

import orjson

from ferryman.ingest.rules.path import MISSING, Path, compile_path
from ferryman.kernel import errors

LONGEST: Final = 63
PLACE: Final = "ferryman_place"
STAGE: Final = "ferryman_ingest_stage"

_ESCAPES: Final = str.maketrans({"\\": "\\\\", "\t": "\\t", "\n": "\\n", "\r": "\\r"})


@dataclass(frozen=True, slots=True)
class Target:
    """A table, what its columns are filled with, which of them are its key, and which says what is newer."""

    schema: str | None
    table: str
    columns: Mapping[str, Path]
    key: tuple[str, ...]
    updated_at: str | None = None

    @property
    def name(self) -> str:
        """The table as it stands in a statement."""
        return f"{quoted(self.schema)}.{quoted(self.table)}" if self.schema else quoted(self.table)

    def rows(self, items: Sequence[Mapping[str, Any]]) -> Sequence[Mapping[str, Any]]:
        """Return what each record gives for each column, and nothing else of it; what it does not have is null."""
        columns = [values(path, items) for path in self.columns.values()]
        return [dict(zip(self.columns, row, strict=True)) for row in zip(*columns, strict=True)]


def values(path: Path, items: Sequence[Mapping[str, Any]]) -> list[Any]:
    """Return what each record has at a path; None where it has nothing."""
    if len(path.steps) == 1 and isinstance(path.steps[0], str):
        with suppress(KeyError):
            return list(map(itemgetter(path.steps[0]), items))
    return [None if (found := path.read(item)) is MISSING else found for item in items]


def target(table: object, *, key: object, columns: object, updated_at: object = None, schema: object = None) -> Target:
    """Check the declaration of a table; a name that holds a dot is a schema and a table."""
    if isinstance(table, str) and schema is None and table.count(".") == 1:
        schema, table = table.split(".")
    elif isinstance(table, str) and schema is None and "." in table:
        raise refusal("table", "a table, or a schema, a dot and a table", table)
    paths = _columns(columns)
    keys = (key,) if isinstance(key, str) else tuple(key) if isinstance(key, list | tuple) else ()
    if not keys:
        raise refusal("key", "the column, or columns, by which a record is known", key)
    for each in keys:
        if each not in paths:
            raise refusal("key", f"one of the columns ({', '.join(paths)})", each)
    if updated_at is not None and updated_at not in paths:
        raise refusal("updated_at", f"one of the columns ({', '.join(paths)})", updated_at)
    return Target(
        schema=None if schema is None else _identifier(schema, "schema"),
        table=_identifier(table, "table"),
        columns=paths,
        key=tuple(_identifier(each, "key") for each in keys),
        updated_at=None if updated_at is None else _identifier(updated_at, "updated_at"),
    )


def _columns(given: object) -> dict[str, Path]:
    if isinstance(given, list | tuple):
        # A column of the same name as the record's field, whatever signs are in it.
        return {_identifier(name, "columns"): Path((name,)) for name in given}
    if not isinstance(given, Mapping) or not given:
        raise refusal("columns", "names, or a path in the record for each", given)
    return {
        _identifier(name, "columns"): compile_path(path, f"columns.{name}", errors.IngestInvalidSink)
        for name, path in given.items()
    }


def _identifier(given: object, field: str) -> str:
    if not isinstance(given, str) or not given or "\0" in given or len(given.encode()) > LONGEST:
        raise refusal(field, f"a name of 1 to {LONGEST} bytes", given)
    if given == PLACE:
        raise refusal(field, "another name: this one is ours", given)
    return given


def quoted(name: str | None) -> str:
    """Return a name as PostgreSQL reads it whatever it holds."""
    return '"' + (name or "").replace('"', '""') + '"'


def from_json(to: Target) -> str:
    """Write a page that comes as one JSON text: the way of every table, whose types it follows by itself."""
    names = ", ".join(f"page.{quoted(name)}" for name in to.columns)
    # Numbered as they come: a table may have a column of the name that "with ordinality" gives.
    values = f"""
        select {names}, row_number() over () as {quoted(PLACE)}
        from json_populate_recordset(null::{to.name}, $1::text::json) as page"""  # noqa: S608 - every name is quoted
    return upsert(to, values)


def from_stage(to: Target) -> str:
    """Write what was copied into the stage."""
    names = ", ".join(quoted(name) for name in (*to.columns, PLACE))
    return upsert(to, f"select {names} from {quoted(STAGE)}")  # noqa: S608 - every name is quoted


def hold(to: Target) -> str:
    """Keep the table's owner from changing it until the transaction ends."""
    return f"select from {to.name} limit 0"


def make_stage(to: Target) -> str:
    """Make the stage of one transaction: the columns of the table, without its constraints."""
    names = ", ".join(quoted(name) for name in to.columns)
    begin = f"create temporary table {quoted(STAGE)} on commit drop as select {names}"
    return f"{begin}, 0::bigint as {quoted(PLACE)} from {to.name} where false"


def drop_stage() -> str:
    """Take the stage away, for a second page in the same transaction."""
    return f"drop table {quoted(STAGE)}"


def copy_text(to: Target, rows: Sequence[Mapping[str, Any]], *, json: Collection[str] = ()) -> bytes:
    """Return rows in the text format of COPY, each with its place; `json` names the columns that hold JSON."""
    lines = [
        "\t".join([*(_copied(row.get(name), whole=name in json) for name in to.columns), str(place)])
        for place, row in enumerate(rows, start=1)
    ]
    return ("\n".join(lines) + "\n").encode() if lines else b""


def _copied(value: Any, *, whole: bool) -> str:
    text = spelled(value, whole=whole)
    return "\\N" if text is None else text.translate(_ESCAPES)


def spelled(value: Any, *, whole: bool) -> str | None:
    """Return a value as it would have come out of JSON, so that every way gives the same row; None is null."""
    if isinstance(value, str) and not whole:
        return value
    text = orjson.dumps(value).decode()
    if text == "null":  # NaN too
        return None
    if text.startswith('"') and not whole:
        text = orjson.loads(text)
    return text


def upsert(to: Target, values: str) -> str:
    """Return the statement that writes what `values` selects: the columns, and the place of each record."""
    names = ", ".join(quoted(name) for name in to.columns)
    key = ", ".join(quoted(name) for name in to.key)
    newest = "" if to.updated_at is None else f"{quoted(to.updated_at)} desc nulls last, "
    others = [name for name in to.columns if name not in to.key]
    if others:
        sets = ", ".join(f"{quoted(name)} = excluded.{quoted(name)}" for name in others)
        newer = ""
        if to.updated_at is not None:
            at = quoted(to.updated_at)
            newer = f" where held.{at} is null or excluded.{at} > held.{at}"
        action = f"update set {sets}{newer}"
    else:
        action = "nothing"
    return f"""
    with page as ({values}
    ), written as (
        insert into {to.name} as held ({names})
        select distinct on ({key}) {names}
        from page
        order by {key}, {newest}{quoted(PLACE)} desc
        on conflict ({key}) do {action}
        returning 1
    )
    select count(*) as rows from written"""  # noqa: S608 - every name is quoted


def refusal(field: str, expected: str, got: object) -> errors.IngestInvalidSink:
    """Return the error that says what was expected and what was got."""
    told = "nothing" if got is None else ascii(got)[:60]
    return errors.IngestInvalidSink(f"{field}: expected {expected}, got {told}.", field=field)
