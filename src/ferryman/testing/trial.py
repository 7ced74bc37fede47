"""An app on a database of its own, whose work is done when the test says so (R9).

`run` lets a worker do everything that is due, in this process, and returns when nothing is due any more: what sleeps until
tomorrow sleeps on, until the test moves the time. What is then past its time (a call to the outside, a batch, a command) is
ended by the rules of the watchdog, and not only when that would next look. All comes in the order in which it would have come
in time: what is due before what is late, what was late first before what was late after it, and what follows from an end before
the next end. What is late and what no rule ends is not waited for.

With crashes the worker is a forked process that dies where the seed says; its leases are ended at once, as if their time had
passed, what it held is taken back, and the next life goes on. What handlers keep in memory dies with them: let them write to
the database or to a file, as in life. A trial with crashes in which nobody died has shown nothing of them, and says so at its
end.

A seed counts the places that the process passes, and should die at the same one again. So a worker with crashes does one thing
after another, in the order of the line: with several at once their durable calls share their trips, and which place comes next
is a matter of microseconds. What a dead worker held is taken back before the next life begins, and not by a watchdog beside it,
because the place in the line depends on when that is.
"""

from __future__ import annotations

import asyncio
import logging
import signal
from collections.abc import AsyncIterator, Iterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager, contextmanager
from dataclasses import replace
from datetime import timedelta
from typing import Any, Protocol

from ferryman.app import wiring
from ferryman.app.ferryman import Ferryman
from ferryman.kernel import watchdog
from ferryman.kernel.db import Statement, many
from ferryman.kernel.settings import Settings
from ferryman.testing import clock, life
from ferryman.testing.crashes import Crashes
from ferryman.testing.vigil import Vigil

LOOK = timedelta(milliseconds=20)
SWEEP = timedelta(milliseconds=100)

# What a worker would do something about now, each by the index that finds it; what is past its end is not claimed any more. And
# what is late: past the time by which a rule ends it. One statement, so that a rule which acts meanwhile cannot make both look
# empty.
_DUE = Statement(
    "due",
    """
    select what, n, handler, queue, false as late from (
        select 'task ' || name as what, name as handler, queue, count(*) as n from ferryman.tasks
        where finished_at is null
            and (leased_until is not null or (rank is not null or wake_at <= ferryman.clock()) and ends_at > ferryman.clock())
        group by name, queue
        union all
        select 'schedule ' || name, null, null, count(*) from ferryman.schedules where next_run_at <= ferryman.clock()
        group by name
        union all
        select 'turn of ' || agent_id, null, null, count(*) from ferryman.agent_state_head
        where status in ('dispatched', 'running') or (ready_at is not null and turn_deadline > ferryman.clock())
        group by agent_id
        union all
        select 'message to ' || message.agent_id, null, null, count(*) from ferryman.agent_inbox as message
        join ferryman.agent_state_head as head on head.tenant = message.tenant and head.agent_id = message.agent_id
        where message.status in ('queued', 'pending') and head.status = 'idle'
        group by message.agent_id
        union all
        select 'task of a batch', null, null, count(*) from ferryman.pmo_batch_tasks
        where status = 'pending' and next_retry_at <= ferryman.clock()
        union all
        select 'ingestion of ' || source, null, null, count(*) from ferryman.ingest_task
        where leased_until is not null
            or (rank is not null and scheduled_at <= ferryman.clock() and ends_at > ferryman.clock())
            or ferryman.is_undecided(ingest_task)
        group by source
    ) as due
    where n > 0
    union all
    select domain || ' past its time', count(*), null, null, true from ferryman.bounds
    where ends_by <= (select ferryman.clock())
    group by domain
    order by late, what
    """,
)
# What is late, the earliest first, and how many came to their time together with it.
_LATE = Statement(
    "late",
    """
    select rule, count(*) as n from (
        select domain, rule, ends_by, min(ends_by) over (partition by domain, rule) as since from ferryman.bounds
        where ends_by <= (select ferryman.clock())
    ) as late
    where ends_by < since + interval '1 second'
    group by since, domain, rule
    order by since, domain
    """,
)
_HELD = Statement(
    "held",
    """
    select 'the task ' || name as what from ferryman.tasks where leased_until is not null
    union all
    select 'a turn of ' || agent_id from ferryman.agent_state_head where leased_until is not null
    union all
    select 'a window of ' || source from ferryman.ingest_task where leased_until is not null
    """,
)
_LEASED = ("tasks", "agent_state_head", "ingest_task", "ingest_run", "webhook_deliveries")
_PASSED = "update ferryman.{} set leased_until = ferryman.clock() where leased_until is not null"
_END_LEASES = [Statement(f"end_{table}", _PASSED.format(table)) for table in _LEASED]
# Between two lives nobody watches; that is no outage after which leases were judged only after a grace.
_TICK = Statement(
    "tick",
    "update ferryman.watchdog set ticked_at = clock_timestamp(), grace_until = '-infinity'",
)


class NobodyDied(AssertionError):
    """No life of the worker came to the place at which its seed would have ended it."""

    def __init__(self, drawn: Crashes) -> None:
        """Name the seed, and the place."""
        place = drawn.lives()[0]
        super().__init__(f"Seed {drawn.seed} killed nobody: the handlers that ran here never came to a place {place}.")


class Trial:
    """One test's app, opened on a database of its own."""

    def __init__(self, app: Ferryman, *, crashes: Crashes | None = None) -> None:
        """Take an app that is open."""
        self.app = app
        self.crashes = crashes
        self.died: list[str] = []
        self.vigil = Vigil(app)

    @property
    def deaths(self) -> int:
        """How often its worker has died."""
        return len(self.died)

    async def run(self, *, timeout: float = 30.0) -> None:
        """Let everything be done that is due, end what is late, and return; in vain: TimeoutError, which says what is left."""
        try:
            with self.vigil.at_work():
                async with asyncio.timeout(timeout):
                    if self.crashes is None:
                        await _work(self.app)
                    else:
                        await self._die_and_live(self.crashes)
        except TimeoutError:
            left = ", ".join(_tell(self.app, row) for row in await _due(self.app)) or "nothing"
            raise TimeoutError(f"After {timeout:g} s there is still due: {left}.") from None

    async def travel(self, by: timedelta | float = timedelta(0), **units: float) -> None:
        """Move the time, by seconds, a timedelta, or `hours=2`."""
        given = by if isinstance(by, timedelta) else timedelta(seconds=by)
        async with self.app.database.session() as tx:
            await clock.travel(tx, given + timedelta(**units))

    async def _die_and_live(self, drawn: Crashes) -> None:
        for place in drawn.lives():
            code, name = await life.live(self.app, place, _work)
            if code == -signal.SIGKILL:
                held = await _bury(self.app)
                self.died.append(f"place {place}, {name}, with {' and '.join(held) or 'nothing'} in hand")
            elif code != 0:
                raise RuntimeError(f"The worker ended with {code}; what it said is above.")
            else:
                return


class Trials(Protocol):
    """What the fixtures give: `async with trials(app) as trial`."""

    def __call__(self, app: Ferryman) -> AbstractAsyncContextManager[Trial]:
        """Open an app on the database of this test."""


@asynccontextmanager
async def opened(app: Ferryman, url: str, *, crashes: Crashes | None = None) -> AsyncIterator[Trial]:
    """Open an app on a database, whatever its settings say, and close it afterwards; then it is as it was.

    No other address of the settings is used; a doorbell that was made by hand stays, and rings where it rings. With crashes of
    which none came about: NobodyDied, when all else went well.
    """
    if app._opened is not None:  # noqa: SLF001
        # It would stay where it is, which may be where people work: there the trial would run, and move the time.
        raise RuntimeError(
            "The app is open already, on another database: a trial opens it itself, and wants it closed."
        )
    before = app.settings
    worker, ingest = replace(before.worker, poll=LOOK, lease_sweep=SWEEP), before.ingest
    if crashes is not None:
        worker, ingest = replace(worker, concurrency=1, lanes=1), replace(ingest, concurrency=1)
    app.settings = replace(_secluded(before, url), worker=worker, ingest=ingest)
    try:
        async with app:
            made = Trial(app, crashes=crashes)
            keeping = asyncio.create_task(made.vigil.keep())
            try:
                with _outspoken():
                    yield made
            finally:
                keeping.cancel()
                await asyncio.gather(keeping, return_exceptions=True)
        if crashes is not None and not made.deaths:
            raise NobodyDied(crashes)
    finally:
        app.settings = before


@contextmanager
def _outspoken() -> Iterator[None]:
    """Let the log tell what handlers raise with its traceback: at work that is for those who debug, and here one does."""
    logs = [(log, log.level) for log in map(logging.getLogger, ("ferryman.tasks", "ferryman.agents"))]
    for log, _ in logs:
        log.setLevel(logging.DEBUG)
    try:
        yield
    finally:
        for log, level in logs:
            log.setLevel(level)


def _secluded(given: Settings, url: str) -> Settings:
    """Return the settings with this address alone: others lead to where the app lives when it is no test."""
    return replace(
        given,
        database_url=url,
        listen_url=None,
        nats_url=None,
        doorbell="postgres" if given.doorbell == "nats" else given.doorbell,
        relays=replace(given.relays, nats="off"),
    )


async def _due(app: Ferryman) -> list[Any]:
    async with app.database.session() as tx:
        return list(await many(tx, _DUE))


def _tell(app: Ferryman, due: Any) -> str:
    """Name something that is due, with the reason if no worker of this app would ever do it."""
    opened = app._opened  # noqa: SLF001
    assert opened is not None
    why = ""
    if due["handler"] is not None:
        if due["handler"] not in opened.handlers.handlers:
            why = " (this app has no handler of that name)"
        elif due["queue"] not in opened.handlers.served(app.settings.worker.queues):
            why = f" (this app's worker does not serve the queue {due['queue']})"
    return f"{due['n']} x {due['what']}{why}"


async def _work(app: Ferryman) -> None:
    stop = asyncio.Event()
    working = asyncio.create_task(app.work(stop=stop))
    try:
        await _rest(app, working)
        stop.set()
        await working
    finally:
        working.cancel()  # out of time: what still runs is handed back without any grace
        await asyncio.gather(working, return_exceptions=True)


async def _rest(app: Ferryman, working: asyncio.Task[None]) -> None:
    """Return when nothing is due, and what is late is what no rule ends."""
    in_vain = False
    while not working.done():
        due = await _due(app)
        if not all(row["late"] for row in due):
            in_vain = False
            await asyncio.sleep(LOOK.total_seconds())
        elif due and not in_vain:
            in_vain = not await _end_late(app)
        else:
            return


async def _end_late(app: Ferryman) -> bool:
    """Let a rule end what is late for longest; say whether one did. Leases are left to the watchdog of the worker."""
    rules = [rule for rule in app.rules() if rule.only_bound and not rule.reaps]
    async with app.database.session() as tx:
        for row in await many(tx, _LATE):
            named = [rule for rule in rules if rule.name.partition("-")[0] == row["rule"].partition("-")[0]]
            if sum([await _act(tx, rule, row["n"]) for rule in named]):
                return True
        # A turn, or a message, may be ended by another rule than the one that is to bring it on.
        return (await watchdog.tick(tx, rules)).acted() > 0


async def _act(tx: watchdog.Ground, rule: watchdog.Rule, most: int) -> int:
    async with tx.transaction():
        found = await rule.find(tx, min(most, rule.limit))
        acted = await rule.act(tx, found) if found else 0
    if acted and rule.after is not None:
        rule.after(found)
    return acted


async def _bury(app: Ferryman) -> list[str]:
    """End the leases of a worker that has died, take back what it held, and say what that was."""
    opened = app._opened  # noqa: SLF001
    assert opened is not None
    async with app.database.session() as tx:
        held = [row["what"] for row in await many(tx, _HELD)]
        for statement in (*_END_LEASES, _TICK):
            await many(tx, statement)
        await watchdog.tick(tx, [rule for rule in wiring.rules(opened) if rule.reaps])
    return held
