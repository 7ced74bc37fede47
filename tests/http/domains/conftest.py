"""A server of an app that has something of every domain."""

from collections.abc import AsyncIterator

import pytest

from ferryman import Ferryman
from tests.http.domains.fleet import fleet


@pytest.fixture
async def app(database_url: str) -> AsyncIterator[Ferryman]:
    async with fleet(database_url) as opened:
        yield opened
