"""A house of agents on a database of its own."""

import pytest

from ferryman.kernel.pool import Database
from tests.agents.house import House


@pytest.fixture
def house(db: Database) -> House:
    return House(db)
