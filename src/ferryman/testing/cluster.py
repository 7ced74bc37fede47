"""A fresh, migrated database for every test, in some tens of milliseconds.

One database is migrated once and kept as a template, one for each schema that is asked for; a test gets a copy of its files.
Copying files wants a checkpoint, which is cheap because the server does not wait for the disk. The files are kept in memory
where there is room: ext4 looks long for a place for a new file when many were deleted in the last minutes (47 ms of CPU for a
database, and 323 ms on ext4).

Readers of the event log wait for the oldest open transaction of the whole server, not of one database. Tests that run in
parallel therefore have a server each.
"""

from __future__ import annotations

import asyncio
import hashlib
import itertools
import os
import secrets
import shutil
from collections.abc import AsyncIterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from datetime import UTC, date, datetime
from pathlib import Path
from types import TracebackType
from typing import NamedTuple, Self
from urllib.parse import urlsplit, urlunsplit

from ferryman.app.embedded import Embedded
from ferryman.kernel import migrate
from ferryman.kernel.db import SCHEMA
from ferryman.kernel.pool import Line

_MEMORY = Path("/dev/shm")
_ROOM = 4 << 30


class Template(NamedTuple):
    """A migrated database that others are copies of, and the day of its migration."""

    name: str
    day: date


class Cluster:
    """A PostgreSQL server for tests: a throwaway one of our own, or the one whose address is given."""

    def __init__(self, directory: str | os.PathLike[str], *, url: str | None = None, schema: str = SCHEMA) -> None:
        """Choose where a server of our own keeps its data if memory has no room for it, or name one that runs already."""
        self.schema = schema
        self._embedded = None if url else Embedded(_roomy(Path(directory)), durable=False, keep=False)
        self._url = url
        # On a server that others use too, those of another machine may have our number.
        mine = f"{os.getpid()}_{secrets.token_hex(3)}"
        self._names = (f"ferryman_test_{mine}_{number}" for number in itertools.count())
        self._templates: dict[str, Template] = {}  # by schema

    def start(self) -> None:
        """Start the server."""
        if self._embedded is not None:
            self._url = self._embedded.start()

    def stop(self) -> None:
        """Stop the server and forget its data; leave nothing on one that stays."""
        if self._embedded is not None:
            self._embedded.stop()
        elif self._templates:
            # The caller's loop may be running.
            with ThreadPoolExecutor(1) as thread:
                thread.submit(asyncio.run, self.close()).result()

    def address(self, database: str) -> str:
        """Return where to connect to one of its databases."""
        if self._url is None:
            raise RuntimeError("The cluster has not been started.")
        return urlunsplit(urlsplit(self._url)._replace(path=f"/{database}"))

    @asynccontextmanager
    async def database(self, *, migrated: bool = True, schema: str | None = None) -> AsyncIterator[str]:
        """Lend a database of one's own, with the tables in the cluster's schema or in another; it is dropped afterwards.

        Whoever is still connected then is thrown out.
        """
        async with self._admin() as admin:
            name = await self._lend(admin, schema, migrated=migrated)
            try:
                yield self.address(name)
            finally:
                await admin.fetch(f"drop database {name} with (force)")

    async def lend(self, *, migrated: bool = True, schema: str | None = None) -> str:
        """Make a database and return its address, for whoever cannot hold a block open."""
        async with self._admin() as admin:
            return self.address(await self._lend(admin, schema, migrated=migrated))

    async def take_back(self, url: str) -> None:
        """Drop a database that was lent, whoever is still connected."""
        name = urlsplit(url).path.removeprefix("/")
        async with self._admin() as admin:
            await admin.fetch(f"drop database {name} with (force)")

    async def close(self) -> None:
        """Drop the templates; needed only on a server that stays."""
        templates, self._templates = self._templates, {}
        if templates and self._embedded is None:
            async with self._admin() as admin:
                for template in templates.values():
                    await admin.fetch(f"drop database {template.name} with (force)")

    async def _lend(self, admin: Line, schema: str | None, *, migrated: bool) -> str:
        template = await self._migrated(admin, schema or self.schema) if migrated else "template0"
        return await self._create(admin, template)

    async def _migrated(self, admin: Line, schema: str) -> str:
        """Return the template of this day: the log of a new database has a partition for the day of its migration alone."""
        former, today = self._templates.get(schema), datetime.now(UTC).date()
        if former is not None and former.day == today:
            return former.name
        name = await self._create(admin, "template0")
        await migrate.migrate(self.address(name), schema=schema)
        self._templates[schema] = Template(name, today)
        if former is not None:
            await admin.fetch(f"drop database if exists {former.name} with (force)")
        return name

    async def _create(self, admin: Line, template: str) -> str:
        name = next(self._names)
        await admin.fetch(f"create database {name} template {template} strategy file_copy")
        return name

    @asynccontextmanager
    async def _admin(self) -> AsyncIterator[Line]:
        line = Line(self.address("postgres"))
        try:
            yield line
        finally:
            await line.close()

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()


def _roomy(directory: Path) -> Path:
    try:
        free = shutil.disk_usage(_MEMORY).free if os.access(_MEMORY, os.W_OK) else 0
    except OSError:
        free = 0
    name = hashlib.sha256(os.fsencode(directory.absolute())).hexdigest()[:20]
    return _MEMORY / f"ferryman-{os.geteuid()}-{name}" if free >= _ROOM else directory
