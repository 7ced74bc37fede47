"""The doctor: everything that is worth knowing at 3 a.m., looked at once (W21, K23).

Each check stands alone: one that cannot be made is a finding itself and does not keep the others from being made. It reads
through a connection of its own and changes nothing.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from ferryman.app import wiring
from ferryman.app.doctor import event_log, ground, keeping, outside, privileges, work
from ferryman.app.doctor.report import BAD, GOOD, Reading, Report, Verdict, plain
from ferryman.kernel import errors
from ferryman.kernel.pool import Line
from ferryman.kernel.settings import Settings

__all__ = ["Reading", "Report", "Verdict", "examine", "plain"]

Check = Callable[[], Awaitable[list[Reading]]]

# A doctor reads whole tables, and may take its time for it.
PATIENT = {"enable_seqscan": "on", "idle_in_transaction_session_timeout": "60s"}


async def examine(settings: Settings, *, deep: bool = True, everything: bool = False) -> Report:
    """Look at everything; `deep` reads whole tables too, `everything` lists each live object."""
    try:
        url = await wiring.address(settings)
        line = Line(url, schema=settings.schema, settings=PATIENT)
        await line.open()
    except (errors.DatabaseUnavailable, errors.DatabaseRefused, errors.EmbeddedUnavailable) as error:
        refused = isinstance(error, errors.DatabaseRefused)
        advice = error.advice if refused else "Look whether the server runs and the address is right."
        unreachable = Reading("database", BAD, error.message, advice)
        return Report((unreachable,), reachable=False)
    try:
        return await _examine(settings, url, line, deep=deep, everything=everything)
    finally:
        await line.close()


async def _examine(settings: Settings, url: str, line: Line, *, deep: bool, everything: bool) -> Report:
    schema = settings.schema
    readings = [Reading("database", GOOD, "It answers.")]
    readings += await _look("version", lambda: ground.server(line))
    readings += await _look("isolation", lambda: ground.isolation(line, url, schema))
    readings += await _look("pooler", lambda: ground.pooler(line, url, schema))
    role = await privileges.read(line)
    readings.append(privileges.judge(role))
    if not role.may_examine:
        return Report(tuple(readings))
    tables = await _look("migrations", lambda: ground.migrations(url, schema))
    readings += tables
    if any(each.verdict is BAD for each in tables):
        return Report(tuple(readings))  # nothing below can be read without the tables
    started, watched = await work.started(line), await work.watched(line, interval=settings.worker.watchdog_pace)
    checks: list[tuple[str, Check]] = [
        ("indexes", lambda: ground.valid(line)),
        ("clock", lambda: ground.clock(line)),
        ("doorbell", lambda: ground.doorbell(settings, url)),
        *(_of_workers(line, settings, watched=watched) if started else [("workers", lambda: work.none_started(line))]),
        ("queues", lambda: work.queues(line)),
        ("bounds", lambda: work.bounds(line)),
        ("retention", lambda: keeping.retention(line, settings)),
        ("sequences", lambda: event_log.ids(line)),
        ("open transactions", lambda: event_log.transactions(line)),
        ("relays", lambda: outside.relays(line, settings.relays)),
        ("invariants", lambda: work.truths(line, deep=deep, watched=started and watched)),
    ]
    for name, check in checks:
        readings += await _look(name, check)
    return Report(tuple(readings), live=await work.live(line) if everything else ())


def _of_workers(line: Line, settings: Settings, *, watched: bool) -> list[tuple[str, Check]]:
    """Return the checks that mean something once a worker has started."""
    return [
        ("watchdog", lambda: work.watchdog(line, interval=settings.worker.watchdog_pace)),
        ("workers", lambda: work.workers(line)),
        ("handlers", lambda: work.orphans(line)),
        ("overdue", lambda: work.overdue(line, watched=watched)),
    ]


async def _look(name: str, check: Check) -> list[Reading]:
    try:
        return await check()
    except errors.FerrymanError as error:
        return [Reading(name, BAD, f"It could not be looked at: {error.message}", error.advice)]
    except Exception as error:  # noqa: BLE001 - the other checks are wanted all the more
        return [
            Reading(name, BAD, f"It could not be looked at: {type(error).__name__}: {error}", "Please report this.")
        ]
