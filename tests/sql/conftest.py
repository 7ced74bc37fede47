"""One database for the tests of a module that roll back all they do: a test then costs a connection, not a database."""

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import suppress

import pytest

from ferryman.kernel.pool import Database, Session
from ferryman.testing import Cluster


@pytest.fixture(scope="module")
def shared_url(cluster: Cluster) -> Iterator[str]:
    """A migrated database that the tests of one module share."""
    url = asyncio.run(cluster.lend())
    yield url
    asyncio.run(cluster.take_back(url))


class _Undo(Exception):
    pass


@pytest.fixture
async def given(shared_url: str) -> AsyncIterator[Session]:
    """A transaction on the shared database, rolled back at the end."""
    database = Database(shared_url, size=1)
    await database.open()
    with suppress(_Undo):
        async with database.transaction() as transaction:
            yield transaction
            raise _Undo
    await database.close()
