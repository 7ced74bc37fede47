"""What the product stands on: the server, what lies between it and us, the tables, the clock, the doorbell."""

from __future__ import annotations

import asyncio
import time
from contextlib import AsyncExitStack
from typing import Any

from ferryman.app import wiring
from ferryman.app.doctor.report import BAD, GOOD, NOTE, Reading
from ferryman.kernel import db, indexes, migrate
from ferryman.kernel.db import READ_COMMITTED
from ferryman.kernel.doorbell import NoDoorbell
from ferryman.kernel.pool import LINE_SETTINGS, Line
from ferryman.kernel.settings import Settings
from ferryman.kernel.timed import timed

SERVER = db.load("ferryman.app", "doctor/server")
BACKEND = db.load("ferryman.app", "doctor/backend")
ISOLATION = db.load("ferryman.app", "doctor/isolation")
CLOCK = db.load("ferryman.app", "doctor/clock")

HEARD_WITHIN_SECONDS = 1.0
CROWDED = 0.9
# Where the server begins to warn, and from where no create takes its ring along.
FILLING = 0.5
# Of what our connections ask for, one that no server has by default.
ASKED = "plan_cache_mode"

# No topic of the product's: nobody but the doctor listens.
TOPIC = "doctor"


async def server(line: Line) -> list[Reading]:
    """Ask who answers: its version, whether it takes writes, whether it has room."""
    row = await db.one(line, SERVER)
    assert row is not None
    readings = [
        version(row["version_number"], row["version"]),
        durable(row["synchronous_commit"], row["fsync"], row["standbys"]),
    ]
    if row["standby"]:
        readings.append(
            Reading("standby", BAD, "This server is a standby: it takes no writes.", "Name the address of the primary.")
        )
    elif row["read_only"]:
        says = "default_transaction_read_only is on: PostgreSQL refuses every write, and all work waits."
        advice = "If nobody stopped the writes on purpose: alter database … set default_transaction_read_only = off."
        readings.append(Reading("read only", BAD, says, advice))
    readings.append(notifications(row["notifications"]))
    used, most = row["connections"], row["max_connections"]
    if used > most * CROWDED:
        advice = "Put PgBouncer in front, or raise max_connections."
        readings.append(Reading("connections", BAD, f"{used} of {most} connections are in use.", advice))
    else:
        readings.append(Reading("connections", GOOD, f"{used} of {most} connections are in use."))
    return readings


def version(number: int, told: str) -> Reading:
    """Judge the server's version."""
    if number < migrate.OLDEST_POSTGRESQL:
        return Reading("version", BAD, f"PostgreSQL {told} is older than 15.", "Use PostgreSQL 15 or later.")
    return Reading("version", GOOD, f"PostgreSQL {told}")


def durable(synchronous_commit: str, fsync: str, standbys: str = "") -> Reading:
    """Judge whether what was told is done would outlive a crash of the server, and say whether its loss (K1)."""
    if synchronous_commit == "off":
        says = "synchronous_commit is off: a crash of the server can lose what callers were told is done."
        advice = "A pooler keeps our connections from asking for it: alter database … set synchronous_commit = on."
        return Reading("commits", BAD, says, advice)
    if fsync == "off":
        return Reading("commits", NOTE, "fsync is off: this server may lose everything in a crash. That is for tests.")
    if synchronous_commit == "remote_apply" and not standbys:
        says = "What is told done is on the disk. synchronous_commit is remote_apply, and no standby is waited for."
        return Reading("commits", NOTE, says, "Name those to wait for: synchronous_standby_names.")
    there = {"on": " here and at a standby", "remote_apply": " here, and shown by a standby"} if standbys else {}
    return Reading("commits", GOOD, f"What is told done is on the disk{there.get(synchronous_commit, '')}.")


def notifications(used: float) -> Reading:
    """Judge whether the server's queue of notifications is read as fast as it is written."""
    says = f"{used:.0%} of the server's queue of notifications is in use."
    if used < FILLING:
        return Reading("notifications", GOOD, says)
    advice = (
        "A session that listens stays in a transaction and keeps the queue from being emptied. PostgreSQL names its process "
        "in its log; in pg_stat_activity its xact_start is among the oldest. End it: pg_terminate_backend(pid)."
    )
    return Reading(
        "notifications", BAD, f"{says} Creates leave their rings out, and work waits for the next poll.", advice
    )


async def isolation(line: Line, url: str, schema: str) -> list[Reading]:
    """Read the default isolation level over a connection that does not ask for ours."""
    plain = Line(url, schema=schema, settings={"default_transaction_isolation": None})
    try:
        server, default = await db.one(line, SERVER), await db.one(plain, ISOLATION)
    finally:
        await plain.close()
    assert server is not None
    assert default is not None
    return [isolated(server["isolation"], default=default["level"])]


def isolated(ours: str, *, default: str) -> Reading:
    """Judge the isolation level of our transactions, and say what the default means for a caller's."""
    if ours != READ_COMMITTED:
        return Reading(
            "isolation",
            BAD,
            f"Our transactions are {ours}: claims and renewals fail when two of them meet.",
            "A pooler drops our settings. Take them out of its ignore_startup_parameters, or run "
            "alter database … set default_transaction_isolation = 'read committed'.",
        )
    if default != READ_COMMITTED:
        return Reading(
            "isolation",
            NOTE,
            f"The default isolation level is {default}. Our own connections use {READ_COMMITTED} all the same.",
            "A transaction lent to a create (connection=…) may fail with a serialization failure: run it again from its "
            "start. It cannot cancel tasks, or create them in a queue with max_depth.",
        )
    return Reading("isolation", GOOD, f"Transactions are {default}.")


async def pooler(line: Line, url: str, schema: str) -> list[Reading]:
    """Find out whether something stands between us and the server.

    A second connection opens a transaction between two statements of ours. In transaction mode it may be given the server
    process that served us, and we another; a server of our own stays the same.
    """
    other = Line(url, schema=schema)
    try:
        row = await db.one(line, SERVER)
        before = await db.one(line, BACKEND)
        async with other.transaction() as held:
            await db.one(held, BACKEND)
            after = await db.one(line, BACKEND)
        assert row is not None
        assert before is not None
        assert after is not None
        taken, moved = row[ASKED] == LINE_SETTINGS[ASKED], before["pid"] != after["pid"]
        return [between(taken, moved=moved, refused=line.refused)]
    finally:
        await other.close()


def between(settings_taken: bool, *, moved: bool, refused: bool) -> Reading:
    """Say what stands between, and what that means."""
    if not settings_taken and not refused:
        return Reading(
            "pooler",
            BAD,
            "A pooler stands between that drops our settings without a word: who freezes in a transaction hides its rows "
            "for as long as it is frozen, and the published bounds do not hold.",
            "Take our settings out of its ignore_startup_parameters: where they are refused, each transaction brings them.",
        )
    if settings_taken and not moved:
        return Reading("pooler", GOOD, "The connection is direct.")
    seen = "a statement was served by another process than the one before" if moved else "our settings did not arrive"
    return Reading(
        "pooler",
        NOTE,
        f"A pooler stands between: {seen}. Work goes on as usual; plans are left to the server.",
        "PgBouncer must be 1.21 or later with max_prepared_statements above 0: older ones mix up prepared statements and "
        "return wrong rows. LISTEN needs a direct address: set FERRYMAN_LISTEN_URL.",
    )


async def migrations(url: str, schema: str) -> list[Reading]:
    """Compare the tables with what this version needs."""
    missing = await migrate.pending(url, schema=schema)
    if missing:
        return [Reading("migrations", BAD, f"The database lacks {', '.join(missing)}.", "Run `ferryman migrate`.")]
    return [Reading("migrations", GOOD, f"All {len(migrate.read())} are applied.")]


async def valid(line: Line) -> list[Reading]:
    """Look for indexes that every write pays for and no read uses."""
    found = await indexes.invalid(line)
    broken = [each for each in found if not each["under_way"]]
    if broken:
        names = ", ".join(each["name"] for each in broken)
        says = f"Not valid: {names}. Every write pays for what no read uses, because its making was broken off."
        mending = "; ".join(indexes.mending(each) for each in broken)
        return [Reading("indexes", BAD, says, f"In psql, with the rights of whoever migrates: {mending};")]
    if found:
        return [Reading("indexes", NOTE, f"Being made just now: {', '.join(each['name'] for each in found)}.")]
    return [Reading("indexes", GOOD, "All are valid.")]


async def clock(line: Line) -> list[Reading]:
    """Look whether somebody has moved the time of this database."""
    row = await db.one(line, CLOCK)
    assert row is not None
    if row["seconds"]:
        advice = (
            "That is for tests. Set ferryman.clock_shift back to 0; what was due meanwhile has been treated as due."
        )
        return [Reading("clock", BAD, f"The clock of this database is moved by {row['shift']}.", advice)]
    return [Reading("clock", GOOD, "The time is the server's own.")]


async def doorbell(settings: Settings, url: str) -> list[Reading]:
    """Ring, and listen from another process's place."""
    ringing, listening = wiring.make_doorbell(settings, url), wiring.make_doorbell(settings, url)
    if isinstance(ringing, NoDoorbell):
        return [
            Reading(
                "doorbell", NOTE, f"None is used: everybody looks every {settings.worker.poll.total_seconds():g} s."
            )
        ]
    heard: asyncio.Event = asyncio.Event()
    async with AsyncExitStack() as opened:
        opened.callback(listening.listen(TOPIC, lambda _hints: heard.set()))
        for each in (listening, ringing):
            await each.open()
            opened.push_async_callback(each.close)
        began = time.monotonic()
        ringing.ring(TOPIC)
        return [await _heard(heard, settings, began)]


async def _heard(heard: asyncio.Event, settings: Settings, began: float) -> Reading:
    try:
        await timed(heard.wait(), HEARD_WITHIN_SECONDS)
    except TimeoutError:
        says = (
            f"No ring was heard within {HEARD_WITHIN_SECONDS:g} s ({settings.doorbell}): work waits for the next poll."
        )
        return Reading("doorbell", BAD, says, _DEAF[settings.doorbell])
    took: Any = round((time.monotonic() - began) * 1000, 1)
    return Reading("doorbell", GOOD, f"A ring was heard after {took} ms ({settings.doorbell}).")


_DEAF = {
    "postgres": "Behind a pooler in transaction mode, set FERRYMAN_LISTEN_URL to a direct address.",
    "nats": "Look whether the server at FERRYMAN_NATS_URL answers.",
}
