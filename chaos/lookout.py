"""Who looks while the storm goes on: whether anything is late, how much is in line, and what still lives at the end.

That nothing is late is promised while the database answers and somebody watches. Whether somebody watched is known here
by the processes themselves and not by what they wrote: all of them may be dead between two ticks.
"""

from __future__ import annotations

import os
import time
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from chaos import terms
from chaos.fleet import Fleet
from chaos.history import History
from chaos.sea import Sea

LOOK_SECONDS = 1.0
# So many leases long somebody must have watched without a break before anything counts as late.
JUDGED_LEASES = 2
# So many tasks may stand in line: a line that grows for as long as a run lasts says nothing of how soon work is begun anew.
CROWD = 100
MEASURE_SECONDS = 0.25

# For whoever must find out why something was late, or a run did not come to rest.
ACTIVITY = """
    select pid, state, wait_event_type || ' ' || wait_event as waits, pg_blocking_pids(pid) as behind,
           round(extract(epoch from clock_timestamp() - xact_start)::numeric, 1)::float8 as age, left(query, 120) as query
    from pg_stat_activity
    where datname = current_database() and state <> 'idle' and pid <> pg_backend_pid()
    order by xact_start
    limit 20
"""
# Whether somebody watches: a tick within three intervals, and no grace after an outage.
TICKED = """
    select from ferryman.watchdog
    where ticked_at > clock_timestamp() - make_interval(secs => %s) and grace_until < clock_timestamp()
"""
# What is late, in one row: that there is none is an answer, and no row is none.
OVERDUE = """
    select coalesce(json_agg(late), '[]') as late
    from (select domain, id::text, state, rule, ends_by::text from ferryman.overdue limit 100) as late
"""
# All that waits to be begun, and what of it nobody has to wait for. By the state alone the whole table would be read, four
# times a second: of 330,000 tasks that took most of a core, and a soak got slower by its own looks.
LINE = """
    select count(*) as n, count(rank) as due
    from ferryman.tasks
    where state = 'ready' and finished_at is null and leased_until is null
"""
# Everything that lives, by the checker's own reckoning.
LIVE = """
    select 'task' as kind, count(*) as n from ferryman.tasks where finished_at is null
    union all select 'command', count(*) from ferryman.command_inbox where finished_at is null
    union all select 'async_task', count(*) from ferryman.async_tasks where completed_at is null
    union all select 'message', count(*) from ferryman.agent_inbox where archived_at is null
    union all select 'batch', count(*) from ferryman.pmo_batches where finished_at is null
    union all select 'ingest', count(*) from ferryman.ingest_task where finished_at is null
    union all select 'unread', (select coalesce(max(id), 0) from ferryman.events)
        - (select coalesce(max(event), 0) from public.witnessed)
"""
UNKNOWN = {"unknown": 1}


@dataclass
class Seen:
    """What was late, in how many looks."""

    overdue: int = 0
    late: Counter[str] = field(default_factory=Counter)
    looks: int = 0


class Lookout:
    """Looks once a second, and is told when nobody can be judged."""

    def __init__(self, sea: Sea, fleet: Fleet, told: History, *, lease: float, folder: Path) -> None:
        """Look at this database, and at these processes."""
        self._sea = sea
        self._fleet = fleet
        self._told = told
        self._lease = lease
        self._crowded = folder / terms.CROWDED
        self._looked = self._measured = 0.0
        self._unwatched = self._watched = time.monotonic()
        self._held: dict[int, set[str]] = {}  # rows that a stranger has locked
        self._freed: list[tuple[float, set[str]]] = []
        self.seen = Seen()

    def excuse(self) -> None:
        """Judge nobody for some leases: the database was away, or a table was locked."""
        self._unwatched = time.monotonic()

    def excuse_rows(self, stranger: int, rows: Iterable[str]) -> None:
        """Judge none of these rows while a stranger has them locked: nobody can move them."""
        self._held[stranger] = set(rows)

    def judge_rows(self, stranger: int) -> None:
        """Judge them again some leases after they were let go."""
        self._freed.append((time.monotonic(), self._held.pop(stranger, set())))

    def _excused(self, now: float) -> set[str]:
        self._freed = [each for each in self._freed if now < each[0] + self._lease * JUDGED_LEASES]
        return {row for rows in (*self._held.values(), *(rows for _, rows in self._freed)) for row in rows}

    def step(self, now: float) -> None:
        """Look at the processes, and once a second at the database."""
        # A gap of less than three intervals is no outage: lives may be short, and nothing may be late all the same.
        if self._fleet.watched():
            self._watched = now
        elif now > self._watched + self._lease * terms.INTERVAL_OF_LEASE * 3:
            self._unwatched = now
        if now >= self._measured + MEASURE_SECONDS:
            self._measured = now
            self._measure()
        if now >= self._looked + LOOK_SECONDS:
            self._looked = now
            self._look(now)

    def _measure(self) -> None:
        """Write down what is in line, and let producers wait while it is too much."""
        rows = self._sea.ask(LINE)
        if rows:
            self._told.write("line", due=rows[0]["due"])
        if rows and rows[0]["n"] > CROWD:
            self._crowded.touch()
        else:
            self._crowded.unlink(missing_ok=True)

    def _look(self, now: float) -> None:
        """Nothing may be late."""
        if not self._sea.ask(TICKED, self._lease * terms.INTERVAL_OF_LEASE * 3):
            self._unwatched = now
        if now < self._unwatched + self._lease * JUDGED_LEASES:
            return
        answer = self._sea.ask(OVERDUE)
        if not answer:
            return  # nobody could look
        excused = self._excused(now)
        found = [row for row in answer[0]["late"] if row["id"] not in excused]
        self.seen.looks += 1
        if found:
            self.seen.overdue += len(found)
            self.seen.late.update(f"{row['domain']} {row['state']} by {row['rule']}" for row in found)
            frozen = [slot.name for slot in self._fleet.slots if slot.frozen_until is not None]
            self._told.write("overdue", rows=found, frozen=frozen, **self.circumstances())

    def circumstances(self) -> dict[str, Any]:
        """Say what the database and the machine are busy with."""
        return {"load": os.getloadavg(), "activity": self._sea.ask(ACTIVITY)}

    def live(self) -> Mapping[str, int]:
        """Count what lives, by kind."""
        rows = self._sea.ask(LIVE)
        return {row["kind"]: row["n"] for row in rows if row["n"]} if rows else UNKNOWN

    def progress(self) -> str:
        """Say what has come of it so far."""
        rows = self._sea.ask("select count(*) as tasks, count(finished_at) as ended from ferryman.tasks")
        tasks = f"{rows[0]['tasks']:,} tasks, {rows[0]['ended']:,} ended" if rows else "the database is away"
        return f"{tasks}; {self.seen.overdue} overdue; {len(self._fleet.unexpected)} unasked deaths"
