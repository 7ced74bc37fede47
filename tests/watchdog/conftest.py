"""A ward with a table of its own, and a line to look over it."""

from collections.abc import AsyncIterator

import pytest

from ferryman.kernel.pool import Database, Line
from tests.watchdog.ward import lines


@pytest.fixture
async def ward(db: Database) -> Database:
    async with db.session() as session:
        await session.fetch(
            "create table patients (id bigint primary key, sick boolean not null default true,"
            " healed integer not null default 0, cure integer not null default 1)"
        )
    return db


@pytest.fixture
async def line(database_url: str) -> AsyncIterator[Line]:
    async with lines(database_url) as [made]:
        yield made
