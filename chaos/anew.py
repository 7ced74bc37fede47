"""How many bytes a soak has left in tables and indexes, beside what the same rows take when they are written anew.

No row leaves in an hour, so that no size is level; and what a row takes in an index need not be: entries that come at any place
fill all pages alike, and when those are full all of them are split within a short time. Between one such wave and the next the
bytes a row rise and fall by a half, and nothing is lost by it. What is lost can be told at the end: everything is written anew
(VACUUM FULL, which keeps the room that a table leaves in its pages), and none may have taken so many times that.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from chaos.checker.evidence import Connection

# Of a table: what died since the last visit of vacuum, and pages that are not quite full again. Of an index: a task is written
# three times, and each leaves an entry; where keys run up, as those of a producer do, a page is split by a new one while two
# of three in it are dead, and nobody comes back to fill what vacuum then leaves. A plain table whose rows are written three
# times takes 2.3 times as much in such an index, from its first minute on; where keys come at any place, 1.3 times.
TABLE_TIMES, INDEX_TIMES = 1.5, 3.0
# Of smaller ones a few pages would decide.
LEAST = 1 << 20
SIZES = """
    select class.relname as name, class.relkind::text as kind,
           case class.relkind when 'r' then pg_table_size(class.oid) else pg_relation_size(class.oid) end as bytes
    from pg_class as class
    where class.relnamespace = 'ferryman'::regnamespace and class.relkind in ('r', 'i')
    order by class.relname
"""


class Width(NamedTuple):
    """What one table or index took, and takes when it is written anew."""

    name: str
    is_index: bool
    bytes: int
    anew: int

    @property
    def times(self) -> float:
        """How many times as many it took."""
        return self.bytes / max(1, self.anew)

    @property
    def bar(self) -> float:
        """How many times it may."""
        return INDEX_TIMES if self.is_index else TABLE_TIMES


def widths(connection: Connection, *, least: int = LEAST) -> list[Width]:
    """Write everything anew, and tell what it took before; whoever works has gone home."""
    # Autovacuum gives way to whoever wants its table, in a second.
    connection.execute(b"set lock_timeout = '60s'")
    before = {row["name"]: row for row in connection.execute(SIZES.encode()).fetchall() if row["bytes"] >= least}
    for name in [name for name, row in before.items() if row["kind"] == "r"]:
        connection.execute(f"vacuum full ferryman.{name}".encode())
    for name in [name for name, row in before.items() if row["kind"] == "i"]:  # also where its table is a small one
        connection.execute(f"reindex index ferryman.{name}".encode())
    after = {row["name"]: row["bytes"] for row in connection.execute(SIZES.encode()).fetchall()}
    return [Width(name, row["kind"] == "i", row["bytes"], after[name]) for name, row in before.items()]


def told(found: list[Width]) -> dict[str, Any]:
    """Return the widest table and the widest index, each beside its bar, and how many there were."""
    worst: dict[str, Any] = {}
    for what, is_index in (("a table", False), ("an index", True)):
        kind = [each for each in found if each.is_index == is_index]
        if kind:
            widest = max(kind, key=lambda each: each.times)
            worst[what] = {**widest._asdict(), "times": widest.times, "bar": widest.bar, "judged": len(kind)}
    return worst
