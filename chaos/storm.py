"""One run: the fleet under the plan of faults, then calm, then quiet, then the question what became of everything."""

from __future__ import annotations

import asyncio
import os
import random
import time
from collections import Counter
from collections.abc import Callable, Coroutine, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psycopg
from psycopg.types.json import Jsonb

from chaos import terms
from chaos.fleet import Fleet, Slot
from chaos.history import History
from chaos.plan import Fault
from chaos.sea import Sea
from chaos.soak import Gauge

TICK_SECONDS = 0.01
LOOK_SECONDS = 1.0
# After the last fault: a lease, the grace after an outage, the retries, and what is still in line.
QUIET_SECONDS = 90.0
LEAVE_SECONDS = 20.0
BIRTH_SECONDS = 60.0
HOPELESS = 10  # so many deaths of nobody's making: no use to go on
# So many leases long somebody must have watched without a break before anything counts as late.
JUDGED_LEASES = 2

# For whoever must find out why a run did not come to rest.
ACTIVITY = """
    select pid, state, wait_event_type || ' ' || wait_event as waits, pg_blocking_pids(pid) as behind,
           round(extract(epoch from clock_timestamp() - xact_start)::numeric, 1)::float8 as age, left(query, 120) as query
    from pg_stat_activity
    where datname = current_database() and state <> 'idle' and pid <> pg_backend_pid()
    order by xact_start
    limit 20
"""
SAID_SECONDS = 10.0
# Whether somebody watches: a tick within three intervals, and no grace after an outage.
TICKED = """
    select from ferryman.watchdog
    where ticked_at > clock_timestamp() - make_interval(secs => %s) and grace_until < clock_timestamp()
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


@dataclass
class Outcome:
    """What a run says of itself, before it is checked."""

    struck: list[tuple[float, str]] = field(default_factory=list)
    wrong: list[str] = field(default_factory=list)
    overdue: int = 0
    late: Counter[str] = field(default_factory=Counter)
    looks: int = 0
    quiet_seconds: float = 0.0
    seconds: float = 0.0


def crew(*, workers: int, dogs: int, producers: int, pace: float, load: float) -> list[Slot]:
    """Say who takes part."""
    return [
        *(Slot(f"worker-{n}", "worker") for n in range(workers)),
        *(Slot(f"dog-{n}", "dog") for n in range(dogs)),
        *(Slot(f"producer-{n}", "producer", {"pace": pace, "load": load}) for n in range(producers)),
        Slot("reader-0", "reader"),
    ]


class Storm:
    """The run of one plan."""

    def __init__(self, sea: Sea, fleet: Fleet, told: History, *, seed: int, lease: float) -> None:
        """Bring together who breaks and who is broken."""
        self._sea = sea
        self._fleet = fleet
        self._told = told
        self._dice = random.Random(f"{seed} strikes")
        self._looked = 0.0
        self._lease = lease
        self._unwatched = time.monotonic()
        self.outcome = Outcome()

    def rage(self, faults: list[Fault], seconds: float, gauge: Gauge | None = None) -> None:
        """Strike as planned, and look every second whether anything is overdue."""
        began = time.monotonic()
        coming = list(faults)
        while (now := time.monotonic()) < began + seconds and len(self._fleet.unexpected) < HOPELESS:
            self._step(now)
            while coming and began + coming[0].at <= now:
                self._strike(coming.pop(0))
            if gauge is not None:
                gauge.look(now)
            time.sleep(TICK_SECONDS)
        self.outcome.seconds = time.monotonic() - began

    def _step(self, now: float) -> None:
        self._sea.release(now)
        self._fleet.tend(now)
        if now >= self._looked + LOOK_SECONDS:
            self._looked = now
            self._look(now)

    def _look(self, now: float) -> None:
        """Nothing may be late; a promise that holds while the database answers and somebody watches."""
        if not self._sea.ask(TICKED, self._lease * terms.INTERVAL_OF_LEASE * 3):
            self._unwatched = now
        if now < self._unwatched + self._lease * JUDGED_LEASES:
            return
        found = self._sea.ask("select domain, id::text, state, rule, ends_by::text from ferryman.overdue limit 20")
        self.outcome.looks += 1
        if found:
            self.outcome.overdue += len(found)
            self.outcome.late.update(f"{row['domain']} {row['state']} by {row['rule']}" for row in found)
            self._told.write("overdue", rows=found)

    def _strike(self, fault: Fault) -> None:
        """Break something; a fault that met nobody is not counted."""
        done = self._act(fault, time.monotonic() + fault.seconds)
        if done is not None:
            self.outcome.struck.append((time.monotonic(), fault.kind))
            self._told.write(
                "struck", **{**fault.told(), "planned": round(fault.at, 3), "at": time.monotonic()}, **done
            )

    def _act(self, fault: Fault, until: float) -> dict[str, Any] | None:  # noqa: PLR0911 - one for each kind
        match fault.kind:
            case "kill" | "freeze" | "pause":
                return self._hit(fault, until, "worker")
            case "strike":
                return self._hit(fault, until, "producer", "reader")
            case "watch":
                return self._hit(fault, until, "dog")
            case "cut":
                ended = self._sea.cut(self._dice)
                return {"ended": ended} if ended else None
            case "hold":
                return self._hold(until)
            case "hog":
                return self._hog(fault)
            case "crash":
                pid = self._sea.crash(self._dice)
                return None if pid is None else {"child": pid}
            case "outage":
                return self._outage(fault)
        raise LookupError(fault.kind)

    def _hit(self, fault: Fault, until: float, *roles: str) -> dict[str, Any] | None:
        found = self._fleet.of(*roles)
        if not found:
            return None
        slot = found[int(fault.whom * len(found))]
        if fault.kind in ("freeze", "pause") or (fault.kind == "watch" and fault.whom < 0.5):
            self._fleet.freeze(slot, max(until, time.monotonic() + 0.5))
        else:
            self._fleet.kill(slot)
        return {"who": f"{slot.name}.{slot.nth:04}", "child": slot.pid}

    def _hold(self, until: float) -> dict[str, Any] | None:
        try:
            return {"locked": self._sea.hold(until)}
        except psycopg.OperationalError:
            return None

    def _hog(self, fault: Fault) -> dict[str, Any] | None:
        """Put tasks into the line that take the connections of whoever runs them."""
        key = f"hog:{fault.at:.3f}"
        rows = [
            {"name": "hog", "payload": {"key": f"{key}:{n}", "hold": fault.seconds}, "idempotency_key": f"{key}:{n}"}
            for n in range(4)
        ]
        made = self._sea.ask("select * from ferryman.create_tasks(%s)", Jsonb(rows))
        return {"made": len(made)} if made else None

    def _outage(self, fault: Fault) -> dict[str, Any]:
        pid = self._sea.kill()
        killed = time.monotonic()
        time.sleep(fault.seconds)
        self._sea.start()
        self._unwatched = time.monotonic()
        self._told.write("back", killed=killed)
        return {"child": pid, "killed": killed}

    def await_all(self, seconds: float) -> None:
        """Wait until everybody works."""
        began = time.monotonic()
        self._step(began)
        while (
            not self._fleet.all_working()
            and time.monotonic() < began + seconds
            and len(self._fleet.unexpected) < HOPELESS
        ):
            time.sleep(TICK_SECONDS * 5)
            self._step(time.monotonic())

    # The end of it

    def settle(self) -> None:
        """Let the storm pass: nobody is hampered any more, producers finish, and all that lives comes to its end."""
        fleet = self._fleet
        fleet.calm = True
        self._sea.release(float("inf"))
        self.outcome.wrong += fleet.unexpected
        fleet.unexpected.clear()
        for slot in fleet.slots:
            if slot.frozen_until is not None:
                fleet.thaw(slot)
        for slot in fleet.of("worker", "dog", "producer", "reader"):
            fleet.kill(slot)  # so that all are born again without faults of their own
        self.await_all(BIRTH_SECONDS)
        self.outcome.wrong += fleet.dismiss("producer", seconds=LEAVE_SECONDS * 2)
        self.outcome.wrong += fleet.errand("herald")
        self._await_quiet()
        self.outcome.wrong += fleet.dismiss("worker", "dog", "reader", seconds=LEAVE_SECONDS)
        self.outcome.wrong += fleet.unexpected
        self.outcome.wrong += fleet.errand("auditor")

    def _await_quiet(self) -> None:
        began = said = time.monotonic()
        live: Mapping[str, int] = {"unknown": 1}
        while live and time.monotonic() < began + QUIET_SECONDS and len(self._fleet.unexpected) < HOPELESS:
            self._step(time.monotonic())
            rows = self._sea.ask(LIVE)
            live = {row["kind"]: row["n"] for row in rows if row["n"]} if rows else {"unknown": 1}
            if time.monotonic() > said + SAID_SECONDS:
                said = time.monotonic()
                self._told.write("waits", live=live, load=os.getloadavg(), activity=self._sea.ask(ACTIVITY))
            time.sleep(0.1)
        self.outcome.quiet_seconds = time.monotonic() - began
        if live:
            self.outcome.wrong.append(f"{QUIET_SECONDS:g} s after the last fault there lives {dict(live)}")


def migrated(url: str, migrate: Callable[..., Coroutine[Any, Any, object]]) -> None:
    """Make the product's tables, in a loop that is gone before anybody is forked."""
    asyncio.run(migrate(url))


def prepare(sea: Sea) -> None:
    """Make the tables that effects go into."""
    with sea.connect() as connection:
        for table in (
            "ledger (key text primary key)",
            "owed (ref text primary key, ends integer not null default 0)",
            "cargo (id bigint primary key, batch text not null, writes integer not null default 1)",
            "witnessed (seq bigint generated always as identity, event bigint primary key)",
        ):
            connection.execute(f"create table public.{table}".encode())


def folder_of(place: Path) -> Path:
    """Make the folder of the histories."""
    made = place / "histories"
    made.mkdir(parents=True, exist_ok=True)
    return made
