"""How the work is: who does it, what waits, what ends it, and whether what must be true is true."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from datetime import timedelta
from typing import Any
from uuid import UUID

from ferryman.app import wiring
from ferryman.app.doctor.report import BAD, GOOD, NOTE, Reading, counted, several
from ferryman.kernel import db, invariants
from ferryman.kernel import watchdog as dogs
from ferryman.kernel.db import Row, Tx
from ferryman.tasks.intake import read

STARTED = db.load("ferryman.app", "doctor/started")
GRACE = db.load("ferryman.app", "doctor/grace")
BOUNDS = db.load("ferryman.app", "doctor/bounds")
BOUNDS_ALL = db.load("ferryman.app", "doctor/bounds_all")
BOUND_OF = db.load("ferryman.app", "doctor/bound_of")
OVERDUE = db.load("ferryman.app", "doctor/overdue")

NOTHING_IS_OVERDUE = "nothing_is_overdue"
LIVE_MAX = 100_000
_SET_BACK = "No watchdog has ticked since the clock was set back"
# What all workers of one database should agree on; how much each takes at once is its own affair.
AGREED = ("lease_seconds",)


async def started(tx: Tx) -> bool:
    """Tell whether a worker has ever started on this database."""
    row = await db.one(tx, STARTED)
    assert row is not None
    return bool(row["started"])


async def watched(tx: Tx, *, interval: timedelta) -> bool:
    """Tell whether a watchdog has ticked lately."""
    return await dogs.late(tx, interval=interval) is None


async def none_started(tx: Tx) -> list[Reading]:
    """Say that no worker has started yet, and whether work waits for one."""
    says, advice = (
        "The database is migrated; no worker has started yet",
        "Start one: `ferryman worker --app MODULE:APP`.",
    )
    if await db.many(tx, BOUNDS):
        return [Reading("workers", BAD, f"{says}, and work waits.", advice)]
    return [Reading("workers", NOTE, f"{says}. Nothing waits.", advice)]


async def alarms(tx: Tx, *, interval: timedelta) -> list[Reading]:
    """Look at the workers and at what they should have done."""
    if not await started(tx):
        return await none_started(tx)
    alive = await watched(tx, interval=interval)
    return [
        *await watchdog(tx, interval=interval),
        *await workers(tx),
        *await orphans(tx),
        *await overdue(tx, watched=alive),
    ]


async def watchdog(tx: Tx, *, interval: timedelta) -> list[Reading]:
    """Look whether somebody watches."""
    row = await db.one(tx, GRACE)
    assert row is not None
    silent = row["silent_seconds"]
    last = f"The last tick of a watchdog was {silent:.0f} s ago" if silent >= 0 else _SET_BACK
    if await dogs.late(tx, interval=interval) is not None:
        advice = "Every worker brings one: start a worker, or look why those that run cannot reach the database."
        if await db.many(tx, BOUNDS):
            return [Reading("watchdog", BAD, f"{last}: nobody ends what hangs.", advice)]
        return [Reading("watchdog", NOTE, f"{last}; nothing is live that would need one.")]
    ago = f"{max(silent, 0.0):.0f} s ago"
    if row["grace_seconds"] > 0:
        says = f"It ticked {ago}; after an outage nothing is reaped for another {row['grace_seconds']:.0f} s."
        return [Reading("watchdog", NOTE, says)]
    return [Reading("watchdog", GOOD, f"It ticked {ago}.")]


async def workers(tx: Tx) -> list[Reading]:
    """Look who works, and whether they agree."""
    known = await read.workers(tx)
    alive = [each for each in known if each.alive]
    details = [each._asdict() for each in known]
    readings = []
    if alive:
        queues = sorted({queue for each in alive for queue in each.queues})
        says = f"{counted(len(alive), 'worker')} on {', '.join(queues)}."
        readings.append(Reading("workers", GOOD, says, details=details))
    elif await db.many(tx, BOUNDS):
        readings.append(
            Reading(
                "workers",
                BAD,
                "No worker is alive, and work waits.",
                "Start `ferryman worker --app MODULE:APP`.",
                details,
            )
        )
    else:
        readings.append(Reading("workers", NOTE, "No worker is alive; nothing waits.", details=details))
    if gone := len(known) - len(alive):
        says = f"{counted(gone, 'worker')} went without a word in the last day: killed, or cut off."
        readings.append(Reading("lost workers", NOTE, says, "Their tasks were taken over when their leases ended."))
    return readings + _short(alive) + _disagreements(alive)


def _short(alive: Sequence[read.WorkerRecord]) -> list[Reading]:
    """Name workers that have no room for some of their handlers."""
    advice = "Their attempts are over: let them look at ctx.ended, or run them in a child process, and start it anew."
    return [
        Reading(
            "threads",
            BAD,
            f"The worker {each.host}:{each.pid} takes no {', '.join(short)}: too many threads were left behind.",
            advice,
        )
        for each in alive
        if (short := each.settings.get("short_of"))
    ]


def _disagreements(alive: Sequence[read.WorkerRecord]) -> list[Reading]:
    said: dict[str, dict[str, list[str]]] = defaultdict(lambda: defaultdict(list))
    for each in alive:
        who = f"{each.host}:{each.pid}"
        said["version"][each.version].append(who)
        for name in AGREED:
            if name in each.settings:
                said[name][str(each.settings[name])].append(who)
    return [
        Reading(
            "agreement",
            BAD,
            f"Workers disagree on {name}: "
            + "; ".join(f"{value} ({', '.join(sorted(who))})" for value, who in sorted(values.items()))
            + ".",
            "Give all of them the same settings and release; during a rolling upgrade this passes by itself.",
        )
        for name, values in sorted(said.items())
        if len(values) > 1
    ]


async def queues(tx: Tx) -> list[Reading]:
    """Count what is live."""
    depths = await read.depth(tx)
    if not depths:
        return [Reading("queues", GOOD, "Nothing is live.")]
    told = ", ".join(f"{each.queue} {each.count} {each.state}" for each in depths)
    waited = max((each.oldest_seconds for each in depths if each.state == "ready"), default=0.0)
    behind = f"; the oldest has waited {waited:.0f} s" if waited > 1 else ""
    return [Reading("queues", GOOD, f"{told}{behind}.", details=[asdict(each) for each in depths])]


async def orphans(tx: Tx) -> list[Reading]:
    """Find waiting tasks that no living worker would take."""
    found = await read.orphans(tx)
    if not found:
        return [Reading("handlers", GOOD, "A living worker knows every handler that waiting tasks need.")]
    names = ", ".join(f"{each.name} ({each.count} in {each.queue})" for each in found[:8])
    more = f" and {len(found) - 8} more" if len(found) > 8 else ""
    unserved = sorted({each.queue for each in found if not each.queue_served})
    advice = f"Start a worker with --queues {','.join(unserved)}." if unserved else "Start a worker whose app has them."
    says = f"No living worker takes {names}{more}; T21 cancels the first at {found[0].ends_at:%Y-%m-%d %H:%M} UTC."
    return [Reading("handlers", BAD, says, advice, [asdict(each) for each in found])]


async def overdue(tx: Tx, *, watched: bool = True) -> list[Reading]:
    """Find what no rule has ended in time."""
    rows = await db.many(tx, OVERDUE)
    if not rows:
        return [Reading("overdue", GOOD, "Nothing is past the time by which a rule ends it.")]
    told = ", ".join(f"{row['count']} of {row['domain']} ({row['rule']})" for row in rows)
    advice = "This is a defect of ours: please report it." if watched else "Start a worker: its watchdog ends them."
    return [Reading("overdue", BAD, f"Past the time by which a rule ends them: {told}.", advice, _dicts(rows))]


async def bounds(tx: Tx) -> list[Reading]:
    """Say what ends everything that is live, and when (W21)."""
    rows = _dicts(await db.many(tx, BOUNDS))
    if not rows:
        return [Reading("bounds", GOOD, "Nothing is live.")]
    return [Reading("bounds", GOOD, "\n".join(_bounded(row) for row in rows), details=rows)]


NOUNS = {
    "agent": "turn", "wait": "call of a turn", "batch_task": "task of a batch", "async_task": "async task",
    "ingest_plan": "plan of ingestion", "ingest_slice": "slice", "ingest_task": "task of ingestion",
    "ingest_run": "run of ingestion", "ingest_batch": "page",
}  # fmt: skip


def _bounded(row: Mapping[str, Any]) -> str:
    """Say of live objects of one kind and state what ends the first of them, and by when the last has ended."""
    noun = NOUNS.get(row["domain"], row["domain"])
    first, rest = noun.split(" ", 1) if " of " in noun else (noun, "")
    if row["count"] != 1:
        first = several(first)
    does = row["does"] % f"{row['soonest']:%Y-%m-%d %H:%M:%S} UTC"
    last = "" if row["terminal_by"] is None else f"; all have ended by {row['terminal_by']:%Y-%m-%d %H:%M:%S} UTC"
    what = " ".join(filter(None, (str(row["count"]), first, rest)))
    return f"{what} {row['state']}, the first: {does}{last}."


async def live(tx: Tx) -> list[dict[str, Any]]:
    """List every live object with the rule that ends it and by when, the soonest first."""
    return _dicts(await db.many(tx, BOUNDS_ALL, limit=LIVE_MAX))


async def bound(tx: Tx, id: UUID) -> dict[str, Any] | None:
    """Return the rule that ends an object, and by when; None when it has ended."""
    row = await db.one(tx, BOUND_OF, id=id)
    return None if row is None else told(row)


async def truths(tx: Tx, *, deep: bool, watched: bool) -> list[Reading]:
    """Check what must always be true (K23). That nothing is overdue is true only where a watchdog runs."""
    declared = [each for each in wiring.invariants() if watched or each.name != NOTHING_IS_OVERDUE]
    broken = await invariants.check(tx, declared, deep=deep)
    checked = sum(1 for each in declared if deep or not each.deep)
    if not broken:
        left = len(declared) - checked
        says = f"All {checked} that were checked hold" + (f"; {left} deep ones were left out." if left else ".")
        return [Reading("invariants", GOOD, says)]
    advice = "This is a defect of ours: please report it, with the rows shown by --json."
    return [
        Reading("invariants", BAD, f"{each.name} is broken ({len(each.rows)} rows): {each.says}", advice, each.rows)
        for each in broken
    ]


def _dicts(rows: Sequence[Row]) -> list[dict[str, Any]]:
    return [told(row) for row in rows]


def told(row: Row) -> dict[str, Any]:
    """Return a row as a mapping."""
    given: Mapping[str, Any] = row  # type: ignore[assignment]  # a row gives its columns like a mapping
    return dict(given.items())
