"""A scene that is laid once, kept, and laid again as it was before each order: rows, and the time that it is.

The rows are put back past guards and foreign keys, by a connection of its own that fires no triggers; the product's clock is
set back to the moment in which they were kept. That takes some milliseconds, and to lead a batch there fifty statements.
"""

from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping
from contextlib import asynccontextmanager

from ferryman.kernel.db import Tx
from ferryman.kernel.invariants import Invariant
from ferryman.kernel.pool import Line

PAST_GUARDS = {"session_replication_role": "replica"}
# What is no part of a scene: what the database is, not what happened in it.
STAYS = ("clock_shift", "migrations", "settings")
# A server for tests does not tidy up by itself, and what was put back and deleted thousands of times is read over and over.
TIDIED_AFTER = 100

_TABLES = """
select class.oid::regclass::text as name, class.relname as short,
       (select string_agg(quote_ident(attname), ', ' order by attnum)
        from pg_attribute
        where attrelid = class.oid and attnum > 0 and not attisdropped and attgenerated = '') as columns
from pg_class as class
where class.relkind in ('r', 'p')
  and not class.relispartition
  and (class.relnamespace = 'ferryman'::regnamespace and class.relname <> all($1)
       or class.oid = any($2::text[]::regclass[]))
order by class.relname
"""


class Stage:
    """The scene of one database."""

    def __init__(self, line: Line) -> None:
        self._line = line
        self._tables: list[str] = []
        self._resets = 0

    async def keep(self, *beside: str) -> None:
        """Keep what is there now, in the product's tables and in those beside them."""
        tables = await self._line.fetch(_TABLES, list(STAYS), list(beside))
        self._tables = [row["name"] for row in tables]
        asked = (f"select '{name}' as name where exists (select from {name})" for name in self._tables)
        filled = {row["name"] for row in await self._line.fetch(" union all ".join(asked))}
        made = ["create schema kept;", "create table kept.at as select ferryman.clock() as now;"]
        lines = []
        for row in tables:
            name, kept, columns = row["name"], f"kept.{row['short']}", row["columns"]
            lines.append(f"delete from {name};")
            if name in filled:
                made.append(f"create table {kept} as select {columns} from {name};")
                lines.append(f"insert into {name} ({columns}) overriding system value select {columns} from {kept};")
        await self._line.execute(
            " ".join(made)
            + " create function kept.reset() returns void language plpgsql as $$ begin "
            + " ".join(lines)
            + " update ferryman.clock_shift set shift = (select now from kept.at) - clock_timestamp(); end $$"
        )

    async def reset(self) -> None:
        """Lay the scene again."""
        await self._line.fetch("select kept.reset()")
        self._resets += 1
        if self._resets % TIDIED_AFTER == 0:
            await self._line.fetch(f"vacuum {', '.join(self._tables)}, ferryman.clock_shift")

    async def moves(self, *acts: Callable[[], Awaitable[object]]) -> list[bool]:
        """Lay the scene, and tell of each of those who act there one after another whether it changed anything."""
        await self.reset()
        before, moved = await self._rows(), []
        for act in acts:
            await act()
            after = await self._rows()
            moved.append(after != before)
            before = after
        return moved

    async def _rows(self) -> list[tuple[str, str]]:
        asked = (f"select '{name}' as name, (one.*)::text as row from {name} as one" for name in self._tables)
        rows = await self._line.fetch(" union all ".join(asked))
        return sorted((row["name"], row["row"]) for row in rows)


# A statement that is longer is not kept prepared, and planned each time: that takes longer than all the rest.
LONGEST = 12_000


async def each_has_something_to_do(
    stage: Stage, acts: Mapping[str, Callable[[], Awaitable[object]]], follows: Mapping[str, str | None]
) -> None:
    """See that each act changes something when it is alone, but for followers: those do after the one that is named there.

    What finds nothing to do meets nobody. Who follows none (None) is there to do nothing.
    """
    assert {name for name, act in acts.items() if await stage.moves(act) == [False]} == follows.keys()
    for name, leader in follows.items():
        assert leader is None or await stage.moves(acts[leader], acts[name]) == [True, True], name


class Sound:
    """What must be true of a scene, asked in a few round trips."""

    def __init__(self, invariants: Iterable[Invariant]) -> None:
        self._asked: list[str] = []
        for each in invariants:
            asks = f"(select '{each.name}' as name, found.row from ({each.statement.sql()}) as found)"
            if self._asked and len(self._asked[-1]) + len(asks) < LONGEST:
                self._asked[-1] += f" union all {asks}"
            else:
                self._asked.append(asks)

    async def broken(self, tx: Tx) -> list[str]:
        """Name what is not true, with the rows that say so."""
        rows = [row for asked in self._asked for row in await tx.fetch(asked, 10)]
        return [f"{row['name']}: {row['row']}" for row in rows]


@asynccontextmanager
async def staging(url: str) -> AsyncIterator[Stage]:
    """Connect a stage."""
    line = Line(url, settings=PAST_GUARDS)
    try:
        yield Stage(line)
    finally:
        await line.close()
