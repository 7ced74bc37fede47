"""A server whose disk fills up under load: run inside a mount of its own, with the folder that is the disk.

The disk is filled by a file beside the data. First tables cannot grow, then the log cannot, and the server ends itself. When
the file is removed the server is started again, and all that was acknowledged must be there. Prints what it met, as JSON.
"""

import asyncio
import json
import os
import random
import sys
from dataclasses import asdict, dataclass, field
from pathlib import Path

import asyncpg

from ferryman import Ferryman
from ferryman.app.embedded import Embedded
from ferryman.kernel import errors, migrate
from tests.crash import cargo, judge

KEYS_BEFORE, KEYS_AFTER = 60, 60
REFUSALS = 10
SWITCHES = 12
WORDS = 12_000
SMALL = ("alter system set max_wal_size = '64MB'", "alter system set min_wal_size = '32MB'", "select pg_reload_conf()")


@dataclass
class Met:
    """What a run met."""

    acknowledged: dict[str, str] = field(default_factory=dict)
    refused: list[str] = field(default_factory=list)
    server_died: bool = False
    free_bytes: int = -1
    lost: list[str] = field(default_factory=list)
    unfinished: list[str] = field(default_factory=list)
    attempts: list[int] = field(default_factory=list)
    broken: list[str] = field(default_factory=list)


class Disk:
    """The folder, and the file that fills it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._ballast = folder / "ballast"

    def fill(self) -> int:
        with self._ballast.open("wb", buffering=0) as file:
            for size in (1 << 20, 4096):
                try:
                    while True:
                        file.write(b"\0" * size)
                except OSError:
                    continue
        known = os.statvfs(self.folder)
        return known.f_bavail * known.f_frsize

    def free(self) -> None:
        self._ballast.unlink()


async def create(app: Ferryman, met: Met, key: str) -> bool:
    """Create a task that needs room of its own; say whether it was acknowledged."""
    try:
        handle = await app.tasks.create(
            "job", {"key": key, "words": random.randbytes(WORDS // 2).hex()}, idempotency_key=key
        )
    except errors.DatabaseUnavailable as error:
        met.refused.append(error.message)
        return False
    met.acknowledged[key] = str(handle.id)
    return True


async def exhaust(url: str) -> bool:
    """Ask for new files of the log until the server ends; say whether it did."""
    for _ in range(SWITCHES):
        try:
            connection = await asyncpg.connect(url, timeout=5)
        except (OSError, asyncpg.PostgresError, TimeoutError):
            return True
        try:
            await connection.execute("create table if not exists public.scratch (n integer)")
            await connection.execute("insert into public.scratch values (1); select pg_switch_wal()")
        except asyncpg.DiskFullError:
            continue
        except (OSError, asyncpg.PostgresError, asyncpg.InterfaceError):
            return True
        finally:
            connection.terminate()
    return False


async def run(disk: Disk) -> Met:
    met = Met()
    shares = [Embedded(disk.folder / "pg", keep=False)]
    url = shares[0].start()
    try:
        for statement in SMALL:
            await judge.read(url, statement)
        await migrate.migrate(url)
        app = Ferryman(url, worker={"poll": "50ms", "lease": "60s"}, tasks={"max_retries": 0})

        @app.task
        async def job(key: str, words: str) -> str:
            return key

        async with app, app.worker():
            await fill_and_free(app, disk, met, shares, url)
            for key in [f"after-{n}" for n in range(KEYS_AFTER)]:
                while not await create(app, met, key):  # noqa: ASYNC110 - until the database says yes
                    await asyncio.sleep(0.05)
            await judge.all_ended(url)
        await look(url, met)
    finally:
        for share in shares:
            share.stop()
    return met


async def fill_and_free(app: Ferryman, disk: Disk, met: Met, shares: list[Embedded], url: str) -> None:
    for n in range(KEYS_BEFORE):
        await create(app, met, f"before-{n}")
    met.free_bytes = disk.fill()
    number = 0
    while len(met.refused) < REFUSALS:
        await create(app, met, f"during-{number % REFUSALS}-{number}")
        number += 1
    met.server_died = await exhaust(url)
    disk.free()
    shares.append(Embedded(disk.folder / "pg", keep=False))
    await asyncio.to_thread(shares[-1].start)


async def look(url: str, met: Met) -> None:
    """Compare what was acknowledged with what is there."""
    rows = {row["key"]: row for row in await judge.read(
        url, "select id::text, idempotency_key as key, state, attempt from ferryman.tasks"
    )}  # fmt: skip
    met.lost = [key for key, id in met.acknowledged.items() if key not in rows or rows[key]["id"] != id]
    met.unfinished = [key for key, row in rows.items() if row["state"] != "succeeded"]
    met.attempts = sorted({row["attempt"] for row in rows.values()})
    met.broken = [each.name for each in await cargo.broken(url)]


if __name__ == "__main__":
    print(json.dumps(asdict(asyncio.run(run(Disk(Path(sys.argv[1])))))))
