"""What an app stands on: where the database is, whether it fits, who rings."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from functools import cache
from pathlib import Path

from ferryman.kernel import errors, migrate
from ferryman.kernel.doorbell import Doorbell, NoDoorbell
from ferryman.kernel.doorbell_pg import PostgresDoorbell
from ferryman.kernel.patience import outlast
from ferryman.kernel.settings import Settings

log = logging.getLogger("ferryman")

EMBEDDED_FOLDER = Path(".ferryman") / "postgres"
SAID_EVERY = 15


async def address(settings: Settings) -> str:
    """Return where the database is; without an address, start the embedded one of this directory."""
    if settings.database_url is not None:
        return settings.database_url
    from ferryman.app.embedded import Embedded

    _say_embedded(EMBEDDED_FOLDER.absolute())
    return await asyncio.to_thread(Embedded(EMBEDDED_FOLDER).start)


@cache
def _say_embedded(folder: Path) -> None:
    """Say it once for a process: who opens an app again and again has read it."""
    log.warning("no database_url is set: using the embedded PostgreSQL in %s", folder)


async def patiently(attempt: Callable[[], Awaitable[object]], stop: asyncio.Event) -> bool:
    """Try until it is done, while the database is away; false when told to stop before (K24)."""
    failures = 0

    def told(count: int, error: errors.FerrymanError) -> None:
        nonlocal failures
        failures = count
        # Said at once, and again every half a minute or so.
        level = logging.WARNING if failures % SAID_EVERY == 1 else logging.DEBUG
        log.log(level, "waiting for the database: %s", error.message, extra={"failures": failures})

    try:
        await outlast(attempt, unless=stop, told=told)
    except errors.DatabaseUnavailable:
        return False
    if failures:
        log.info("the database is there", extra={"failures": failures})
    return True


async def check(url: str, schema: str) -> None:
    """Refuse a database that does not have the tables this version needs."""
    missing = await migrate.pending(url, schema=schema)
    if missing:
        raise errors.DatabaseNotMigrated(f"The database lacks {', '.join(missing)}.", missing=missing)


def make_doorbell(settings: Settings, url: str) -> Doorbell:
    """Return the doorbell that the settings ask for."""
    if settings.doorbell == "none":
        return NoDoorbell()
    if settings.doorbell == "nats":
        from ferryman.kernel.doorbell_nats import NatsDoorbell

        if settings.nats_url is None:
            raise errors.SettingsInvalid("doorbell: 'nats' needs nats_url.", field="nats_url")
        return NatsDoorbell(settings.nats_url, schema=settings.schema)
    return PostgresDoorbell(url, listen_url=settings.listen_url, schema=settings.schema)


def rings_within(settings: Settings) -> bool:
    """Say whether a create inside a caller's transaction rings when that commits."""
    return settings.doorbell == "postgres" and settings.ring_within == "on"
