"""One run: the fleet under the plan of faults, then calm, then quiet, then the question what became of everything."""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Callable, Coroutine
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import psycopg
from psycopg.types.json import Jsonb

from chaos.alone import Alone
from chaos.bell import Bell
from chaos.fleet import Fleet, Slot
from chaos.history import History
from chaos.lookout import Lookout
from chaos.plan import Fault
from chaos.sea import BARS, GRIPS, Sea
from chaos.short_lives import ShortLives
from chaos.soak import Gauge

TICK_SECONDS = 0.01
# After the last death everybody is born again, producers finish, a lease passes, and the hundred that may stand in line are
# done: some seconds. What takes longer than this, however slowly it goes on, has not come to rest.
QUIET_SECONDS = 120.0
LEAVE_SECONDS = 20.0
BIRTH_SECONDS = 60.0
AT_BIRTH = 0.15  # of the strikes: anybody, also who has only just been born
HOPELESS = 10  # so many deaths of nobody's making: no use to go on
SAID_SECONDS = 10.0
LOOK_PATIENCE_SECONDS = 60.0
SPARE_SECONDS = 2.0
PROGRESS_SECONDS = 15.0
OWED_SECONDS = 0.1

# What effects go into.
TABLES = (
    "ledger (key text primary key)",
    "owed (ref text primary key, ends integer not null default 0)",
    "cargo (id bigint primary key, batch text not null, writes integer not null default 1)",
    "witnessed (seq bigint generated always as identity, event bigint primary key)",
)

Say = Callable[[str], object]


@dataclass
class Outcome:
    """What a run says of itself, before it is checked."""

    struck: list[tuple[float, str]] = field(default_factory=list)
    wrong: list[str] = field(default_factory=list)
    quiet_seconds: float = 0.0
    seconds: float = 0.0


def crew(*, workers: int, dogs: int, producers: int, **more: float) -> list[Slot]:
    """Say who takes part; `more` is what producers are told: their pace, their load, how long leases are."""
    return [
        *(Slot(f"worker-{n}", "worker") for n in range(workers)),
        *(Slot(f"dog-{n}", "dog") for n in range(dogs)),
        *(Slot(f"producer-{n}", "producer", dict(more)) for n in range(producers)),
        Slot("reader-0", "reader"),
    ]


class Storm:
    """The run of one plan."""

    def __init__(
        self, sea: Sea, bell: Bell, fleet: Fleet, told: History, lookout: Lookout, *, seed: int, say: Say = print
    ) -> None:
        """Bring together who breaks and who is broken; `say` tells a person how far it is."""
        self._sea = sea
        self._bell = bell
        self._fleet = fleet
        self._told = told
        self._lookout = lookout
        self._dice = random.Random(f"{seed} strikes")
        self._say = say
        self._said = 0.0
        self._short = ShortLives(fleet, told)
        self._barring: set[int] = set()
        self._killed = False
        self._owed: Fault | None = None  # a kill that met nobody
        self._tried = 0.0
        self.outcome = Outcome()

    def rage(self, faults: list[Fault], seconds: float, gauge: Gauge | None = None) -> None:
        """Strike as planned, and look every second whether anything is overdue."""
        began = time.monotonic()
        coming = list(faults)
        while (now := time.monotonic()) < began + seconds and len(self._fleet.unexpected) < HOPELESS:
            self._step(now)
            self._short.step(now)
            while coming and began + coming[0].at <= now:
                self._strike(coming.pop(0))
            self._kill_at_last(now)
            if gauge is not None:
                gauge.look(now)
            if now >= self._said + max(PROGRESS_SECONDS, seconds / 60):
                self._said = now
                struck = f"{len(self.outcome.struck):,} faults from outside"
                self._say(f"{now - began:.0f} of {seconds:.0f} s: {struck}; {self._lookout.progress()}")
            time.sleep(TICK_SECONDS)
        self.outcome.seconds = time.monotonic() - began

    def _step(self, now: float) -> None:
        self._release(now)
        self._bell.heal(now)
        self._fleet.tend(now)
        self._lookout.step(now)

    def _release(self, now: float) -> None:
        for stranger in self._sea.release(now):
            self._told.write("released", child=stranger)
            self._lookout.judge_rows(stranger)
            if stranger in self._barring:
                self._barring.remove(stranger)
                self._lookout.excuse()

    def _strike(self, fault: Fault) -> None:
        """Break something; a fault that met nobody is not counted, and a kill stays owed while none has met anybody.

        So even a run of seconds kills a worker. In a longer one they are as many as they were: each is a start more for some.
        """
        done = self._act(fault, time.monotonic() + fault.seconds)
        if fault.kind == "kill" and not self._killed:
            self._killed, self._owed = done is not None, fault if done is None else None
        if done is not None:
            self.outcome.struck.append((time.monotonic(), fault.kind))
            self._told.write(
                "struck", **{**fault.told(), "planned": round(fault.at, 3), "at": time.monotonic()}, **done
            )

    def _kill_at_last(self, now: float) -> None:
        """Try the kill again that is owed, now and then: who works is asked of its file."""
        if self._owed is not None and now >= self._tried + OWED_SECONDS:
            self._tried = now
            self._strike(self._owed)

    def _act(self, fault: Fault, until: float) -> dict[str, Any] | None:  # noqa: C901, PLR0911 - one for each kind
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
                return self._hold(partial(self._sea.hold, until))
            case "grip":
                kind = list(GRIPS)[int(fault.whom * len(GRIPS))]
                return self._hold(partial(self._sea.grip, kind, until), of=kind)
            case "bar":
                return self._bar(BARS[int(fault.whom * len(BARS))], until)
            case "hog":
                return self._hog(fault)
            case "crash":
                return self._crash()
            case "outage":
                return self._outage(fault)
            case "short":
                self._short.begin(until)
                return {}
            case "hush":
                pid = self._bell.kill(until)
                return None if pid is None else {"child": pid}
        raise LookupError(fault.kind)

    def _hit(self, fault: Fault, until: float, *roles: str) -> dict[str, Any] | None:
        # Few are struck before they have begun: on a busy machine nobody would ever come to do anything.
        found = [slot for slot in self._fleet.prey(*roles) if fault.whom < AT_BIRTH or self._fleet.works(slot)]
        if not found:
            return None
        slot = found[int(fault.whom * len(found))]
        if fault.kind in ("freeze", "pause") or (fault.kind == "watch" and fault.whom < 0.5):
            self._fleet.freeze(slot, max(until, time.monotonic() + 0.5))
        else:
            self._fleet.kill(slot)
        return {"who": f"{slot.name}.{slot.nth:04}", "child": slot.pid}

    def _hold(self, take: Callable[[], tuple[int, list[str]]], **more: str) -> dict[str, Any] | None:
        try:
            stranger, rows = take()
        except psycopg.OperationalError:
            return None
        self._lookout.excuse_rows(stranger, rows)
        return {"child": stranger, "locked": len(rows), "rows": rows, **more}

    def _bar(self, table: str, until: float) -> dict[str, Any] | None:
        """Lock a whole table; whoever comes waits already while it is asked for."""
        since = time.monotonic()
        try:
            stranger = self._sea.bar(table, until)
        except psycopg.OperationalError:
            return None
        finally:
            self._lookout.excuse()
        self._barring.add(stranger)
        return {"child": stranger, "table": table, "since": since}

    def _hog(self, fault: Fault) -> dict[str, Any] | None:
        """Put tasks into the line that take the connections of whoever runs them."""
        key = f"hog:{fault.at:.3f}"
        rows = [
            {"name": "hog", "payload": {"key": f"{key}:{n}", "hold": fault.seconds}, "idempotency_key": f"{key}:{n}"}
            for n in range(4)
        ]
        made = self._sea.ask("select * from ferryman.create_tasks(%s)", Jsonb(rows))
        return {"made": len(made)} if made else None

    def _crash(self) -> dict[str, Any] | None:
        pid = self._sea.crash(self._dice)
        if pid is None:
            return None
        self._release(float("inf"))  # strangers are thrown out with everybody
        return {"child": pid}

    def _outage(self, fault: Fault) -> dict[str, Any]:
        pid = self._sea.kill()
        killed = time.monotonic()
        self._release(float("inf"))  # what strangers held died with the database
        time.sleep(fault.seconds)
        self._sea.start()
        self._lookout.excuse()
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

    def linger(self, seconds: float, *, alone: float | None = None) -> None:
        """Strike nobody for a while, once a kill that is owed is done: who has survived must go on, and nothing may be late.

        Long enough that one that stands idle is told, and that somebody has looked for what is late. Then some are left alone,
        if it is said by which lease.
        """
        self._say("no more strikes: those who have survived are watched before they are relieved")
        self._release(float("inf"))
        self._thaw_all()
        began = now = time.monotonic()
        while self._owed is not None and now < began + BIRTH_SECONDS and len(self._fleet.unexpected) < HOPELESS:
            self._step(now)
            self._kill_at_last(now)
            time.sleep(TICK_SECONDS)
            now = time.monotonic()
        began = now
        least, most = began + seconds + SPARE_SECONDS, began + seconds + LOOK_PATIENCE_SECONDS
        while (now := time.monotonic()) < least or (not self._lookout.seen.looks and now < most):
            self._step(now)
            if len(self._fleet.unexpected) >= HOPELESS:
                return
            time.sleep(TICK_SECONDS)
        if alone is not None:
            self._leave_alone(alone)

    def _leave_alone(self, lease: float) -> None:
        """Let some of those who have survived show one by one that every part of them goes on."""
        self._say("some who have survived are left alone, one after another: everybody else stands still")
        self.await_all(BIRTH_SECONDS)
        one_by_one = Alone(self._sea, self._fleet, self._told, lease=lease, step=self._step)
        self.outcome.wrong += one_by_one.each()

    def _thaw_all(self) -> None:
        for slot in self._fleet.slots:
            if slot.frozen_until is not None:
                self._fleet.thaw(slot)

    def settle(self) -> None:
        """Let the storm pass: nobody is hampered any more, producers finish, and all that lives comes to its end."""
        self._say(
            "the storm is over: everybody is born again unhampered, producers finish, what lives comes to its end"
        )
        fleet = self._fleet
        fleet.calm = True
        self._release(float("inf"))
        self.outcome.wrong += fleet.unexpected
        fleet.unexpected.clear()
        self._thaw_all()
        self._told.write("relieved")
        for slot in fleet.of("worker", "dog", "producer", "reader"):
            fleet.finish(slot)  # so that all are born again without faults of their own
        over = time.monotonic()
        self.await_all(BIRTH_SECONDS)
        self._told.write("restored")
        self.outcome.wrong += fleet.dismiss("producer", seconds=LEAVE_SECONDS * 2)
        self.outcome.wrong += fleet.errand("herald")
        self._await_quiet(over)
        self.outcome.wrong += fleet.dismiss("worker", "dog", "reader", seconds=LEAVE_SECONDS)
        self.outcome.wrong += fleet.unexpected
        self.outcome.wrong += fleet.errand("auditor")

    def _await_quiet(self, over: float) -> None:
        """Wait until nothing lives, for so long at most since the storm was over."""
        said = time.monotonic()
        live = self._lookout.live()
        while live and time.monotonic() < over + QUIET_SECONDS and len(self._fleet.unexpected) < HOPELESS:
            now = time.monotonic()
            self._step(now)
            live = self._lookout.live()
            if now > said + SAID_SECONDS:
                said = now
                self._told.write("waits", live=live, **self._lookout.circumstances())
                self._say(f"{now - over:.0f} s of calm: there lives {dict(live)}")
            time.sleep(0.1)
        self.outcome.quiet_seconds = time.monotonic() - over
        if live:
            self.outcome.wrong.append(
                f"{self.outcome.quiet_seconds:.0f} s after the last death there lives {dict(live)}"
            )


def migrated(url: str, migrate: Callable[..., Coroutine[Any, Any, object]]) -> None:
    """Make the product's tables, in a loop that is gone before anybody is forked."""
    asyncio.run(migrate(url))


def prepare(sea: Sea) -> None:
    """Make the tables that effects go into."""
    with sea.connect() as connection:
        for table in TABLES:
            connection.execute(f"create table public.{table}".encode())


def folder_of(place: Path) -> Path:
    """Make the folder of the histories."""
    made = place / "histories"
    made.mkdir(parents=True, exist_ok=True)
    return made
