"""Whether anything grows in a long run at half the pace with mild faults: memory, descriptors, connections, dead rows, tables.

Each process is looked at in regular intervals, from a fifth of the run after its birth on; through what was seen of each that
lived long enough a line is fitted: the median of the slopes between all pairs of looks (Theil and Sen), which a death, a cut or
a vacuum now and then does not move. What grows faster in an hour than its bar fails the run. One worker is spared by the kills
(SPARED): of those that die every few minutes nobody could say whether they grow. That it works on all the time, and does not
stand there with all it holds, is asked of its history (chaos/checker/survivors.py).

Connections are counted for each process that lives: a worker dies every minute, and its next life begins with few of them.
Which of a hundred are there at a look would decide about a slope of four.

What has ended is kept for weeks, so rows grow with the run, and dead rows and bytes with them. Level must be what of the rows
is dead, and how many bytes a row takes, living or dead, by table: a table whose rows stay and whose bytes grow is what that
finds. The dead are judged by themselves: until the first visit of vacuum, at a fifth of a small table, they only grow. But
where nobody can vacuum, every row that comes leaves as many dead behind, and both are as level as can be. So how much of a
table is dead in the middle of the run has a bar of its own, by table (LEVELS), and so has the oldest transaction of ours at
any look: one that stays open is what keeps vacuum from the dead. What all of it takes at the end is put beside what it takes
when it is written anew, indexes too, which have no slope of their own (chaos/anew.py).

Where what has ended leaves after a minute or some (`--retention`) the bytes themselves must be level, by table, from when as
many leave as come and vacuum has been there. The log is kept for a day at least, and the moves of cursors for ever: of these
nothing dies, and they would thin out the dead of others (KEPT).

Work that gets slower shows in none of these, nor in the line: producers wait while it is long. So the tasks that ended between
two looks are counted, by the log, from which nothing leaves, and how many a second they were may not fall. That is seen when
work has become slower than the load, and not before.

In a run of minutes the hour's slope is what noise makes of it: the allocator takes its arenas, the first vacuums come, pools
fill up to what is wanted at once. So a run that is shorter than an hour may grow by as much as an hour may, and by its pools.
Where rows are few beside those that die between two visits of vacuum, in a run of minutes or where rows leave, the share of the
dead goes up and down by that: as much it may rise, and as high it may be.
"""

from __future__ import annotations

import statistics
import time
from collections import defaultdict
from collections.abc import Iterator, Sequence
from itertools import combinations
from pathlib import Path
from typing import Any, NamedTuple

from chaos.fleet import Fleet
from chaos.sea import Sea

LOOKS = 60
ENOUGH = LOOKS // 3  # looks at one thing, to judge it
WARM = 0.2  # of a run
SPARED = "worker-0"
HOUR = 3600.0
# By how much a thing may grow in an hour, or fall. Bytes and tasks: as a share of what they are in the middle of the run.
BARS = {
    "memory": float(8 << 20),
    "descriptors": 4.0,
    "connections": 2.0,
    "dead share": 0.05,
    "bytes a row": 0.05,
    "bytes": 0.1,
    "tasks ended a second": 0.25,
}
# How much of a table may be dead in the middle of the run, and how old a transaction of ours may be, in seconds. Vacuum comes
# at 5 % of tasks and at 20 % of other tables, which is a sixth of all; if it removes nothing, half or more is dead, for no row
# ends without an update. Nothing of ours may be idle in a transaction for more than seconds.
LEVELS = {"dead rows": 0.2, "oldest transaction": 30.0}
# What a row makes dead at most while it lives and when it leaves: it is claimed, settled and removed.
DEAD_OF_A_ROW = 3
OF_MIDDLE = ("bytes a row", "bytes", "tasks ended a second")
# What may not fall: of these the slope is how fast they do.
FALLING = ("tasks ended a second",)
# And by how much more in a run that is shorter: a pool has ten connections.
FILLS = {"descriptors": 10.0, "connections": 10.0}
# Of smaller tables a page more or less would decide.
TABLE_LEAST = 1 << 20
CONNECTIONS = """
    select count(*) as n, coalesce(max(extract(epoch from clock_timestamp() - xact_start)), 0)::float8 as oldest
    from pg_stat_activity
    where application_name like 'ferryman%%'
"""
ENDED = """
    select count(*) filter (where kind = 'task' and to_state = 'succeeded')::float8 as n, coalesce(max(id), %s) as last
    from ferryman.events
    where id > %s
"""
TABLES = """
    select relname as name, pg_table_size(oid)::float8 as bytes, pg_indexes_size(oid)::float8 as indexes,
           pg_stat_get_dead_tuples(oid)::float8 as dead
    from pg_class
    where relnamespace = 'ferryman'::regnamespace and relkind = 'r'
    order by relname
"""
# Tables that only grow, by how their names begin.
KEPT = ("events", "ingest_cursor_event")
# How often retention and vacuum come by themselves.
VISIT_SECONDS = 60.0
# Without these nothing is shown; the last is about tables whose rows stay, or leave.
WANTED = (
    ("memory", SPARED),
    ("descriptors", SPARED),
    ("connections", "a process"),
    ("dead share", "database"),
    ("tasks ended a second", "workers"),
    ("dead rows", "tasks"),
    ("oldest transaction", "all"),
    ("bytes a row", "tasks"),
)
WANTED_OF_LEAVING = (*WANTED[:-1], ("bytes", "tasks"))
Points = Sequence[tuple[float, float]]


class Growth(NamedTuple):
    """How one thing grew, or fell (FALLING): its middle, its slope an hour, and what of that would be too much."""

    kind: str
    who: str
    middle: float
    slope: float
    bar: float

    @property
    def share(self) -> float:
        """How much of the bar it has used."""
        return self.slope / self.bar if self.bar > 0 else 0.0


class Gauge:
    """What was seen, and what it comes to."""

    def __init__(self, sea: Sea, fleet: Fleet, seconds: float, *, retention: float | None = None) -> None:
        """Look every sixtieth of the run, once it is warm; `retention` is how long what has ended is kept, if rows leave."""
        self._sea = sea
        self._fleet = fleet
        self._seconds = seconds
        self._every = seconds / LOOKS
        self._leaves = retention is not None
        self._visit = visit(seconds, retention)
        # Until the first have left, retention has gone its round, and vacuum has been there twice.
        self._warm = seconds * WARM if retention is None else max(seconds * WARM, retention + 3 * VISIT_SECONDS)
        self._next = time.monotonic() + self._warm
        self._counted: tuple[float, int] | None = None  # when the log was looked at, and up to where
        self.seen: dict[tuple[str, str], list[tuple[float, float]]] = defaultdict(list)

    def look(self, now: float) -> None:
        """Look, if it is time."""
        if now < self._next:
            return
        self._next = now + self._every
        living = self._fleet.of("worker", "dog", "producer", "reader")
        for slot in living:
            if now >= slot.born_at + self._warm:
                for kind, value in _sizes(slot.pid).items():
                    self.seen[kind, f"{slot.name}.{slot.nth}"].append((now, value))
        for row in self._sea.ask(CONNECTIONS):
            self.seen["connections", "a process"].append((now, row["n"] / max(1, len(living))))
            self.seen["oldest transaction", "all"].append((now, row["oldest"]))
        self._look_at_work(now)
        self._look_at_tables(now)

    def _look_at_work(self, now: float) -> None:
        """Count what has ended since the last look; the first says only where the log is."""
        if self._counted is None:
            for row in self._sea.ask("select coalesce(max(id), 0) as last from ferryman.events"):
                self._counted = now, row["last"]
            return
        before, place = self._counted
        for row in self._sea.ask(ENDED, place, place):  # where it is away, the next counts for both
            self.seen["tasks ended a second", "workers"].append((now, row["n"] / (now - before)))
            self._counted = now, row["last"]

    def _look_at_tables(self, now: float) -> None:
        tables = self._sea.ask(TABLES)
        # Rows are counted, not estimated: the server forgets its estimates when it is killed.
        counted = self._sea.ask(
            " union all ".join(
                f"select '{table['name']}' as name, count(*)::float8 as n from ferryman.{table['name']}" for table in tables
            )
        ) if tables else []  # fmt: skip
        if not counted:
            return
        rows = {row["name"]: row["n"] for row in counted}
        dying = [table for table in tables if not table["name"].startswith(KEPT)]
        dead = sum(table["dead"] for table in dying)
        whole = dead + sum(rows[table["name"]] for table in dying)
        self.seen["dead share", "database"].append((now, dead / max(1.0, whole)))
        for table in dying:
            if table["bytes"] >= TABLE_LEAST:
                share = table["dead"] / max(1.0, table["dead"] + rows[table["name"]])
                self.seen["dead rows", table["name"]].append((now, share))
        for table in dying if self._leaves else tables:
            name = table["name"]
            if not self._leaves:
                if table["bytes"] >= TABLE_LEAST:
                    self.seen["bytes a row", name].append((now, table["bytes"] / max(1.0, rows[name] + table["dead"])))
                continue
            # Apart: vacuum gives room back to rows of any kind, and to an index only page by page.
            for who, size in ((name, table["bytes"]), (f"{name} by its indexes", table["indexes"])):
                if size >= TABLE_LEAST:
                    self.seen["bytes", who].append((now, size))

    def growths(self) -> Iterator[Growth]:
        """Say of each thing that was looked at long enough how it grew."""
        for (kind, who), points in self.seen.items():
            if kind in BARS and len(points) >= ENOUGH:
                middle = statistics.median(value for _, value in points)
                risen = -slope(points) if kind in FALLING else slope(points)
                yield Growth(kind, who, middle, risen, self._bar(kind, middle))

    def _bar(self, kind: str, middle: float) -> float:
        """Return how fast a thing may grow, for an hour; what an hour may grow by, a shorter run may, and by its pools."""
        least = BARS[kind] * (middle if kind in OF_MIDDLE else 1.0)
        if kind == "dead share" and (self._leaves or self._seconds < HOUR):
            least += self._visit
        return least if self._seconds >= HOUR else (least + FILLS.get(kind, 0.0)) * HOUR / self._seconds

    def levels(self) -> dict[str, Any]:
        """Return what was highest of each kind that has a level, beside its bar: by its middle, a transaction by its worst."""
        found: dict[str, Any] = {}
        for kind, least in LEVELS.items():
            judged = {
                who: [value for _, value in points]
                for (each, who), points in self.seen.items()
                if each == kind and len(points) >= ENOUGH
            }
            heights = {
                who: statistics.median(values) if kind == "dead rows" else max(values) for who, values in judged.items()
            }
            if heights:
                worst = max(heights, key=lambda who: heights[who])
                bar = max(least, self._visit) if kind == "dead rows" else least
                found[kind] = {
                    "who": worst, "value": heights[worst], "bar": bar, "judged": len(heights), "looks": len(judged[worst]),
                }  # fmt: skip
        return found

    def unseen(self) -> list[str]:
        """Name what should have been looked at and was not."""
        judged = {(kind, who.partition(".")[0]) for (kind, who), points in self.seen.items() if len(points) >= ENOUGH}
        wanted = WANTED_OF_LEAVING if self._leaves else WANTED
        return [
            f"the {kind} of {who} was not looked at long enough" for kind, who in wanted if (kind, who) not in judged
        ]

    def told(self) -> dict[str, Any]:
        """Return what grew most of each kind, beside its bar, and how many were judged."""
        found: dict[str, Any] = {}
        for kind in BARS:
            judged = [each for each in self.growths() if each.kind == kind]
            if judged:
                worst = max(judged, key=lambda each: each.share)
                found[kind] = {
                    "who": worst.who,
                    "middle": worst.middle,
                    "an_hour": worst.slope,
                    "bar": worst.bar,
                    "judged": len(judged),
                }
        return found


def slope(points: Points) -> float:
    """Return the median of the slopes between all pairs of looks, for an hour."""
    return HOUR * statistics.median(
        (later - earlier) / (after - before) for (before, earlier), (after, later) in combinations(points, 2)
    )


def visit(seconds: float, retention: float | None) -> float:
    """Return which share of a table may die between two visits of vacuum: beside the rows of the middle, or those not left."""
    dead = VISIT_SECONDS * DEAD_OF_A_ROW
    return dead / (dead + (seconds * (1 + WARM) / 2 if retention is None else retention))


def _sizes(pid: int) -> dict[str, float]:
    """Return how much a process has of memory and descriptors; nothing if it is just dying."""
    try:
        memory = _memory(pid)
        return {"memory": memory, "descriptors": len(list(Path(f"/proc/{pid}/fd").iterdir()))} if memory else {}
    except OSError:
        return {}


def _memory(pid: int) -> float:
    for line in Path(f"/proc/{pid}/status").read_text(encoding="utf-8").splitlines():
        if line.startswith("VmRSS:"):
            return float(line.split()[1]) * 1024
    return 0.0
