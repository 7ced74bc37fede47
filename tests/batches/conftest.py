"""A yard of batches on a database of its own."""

import pytest

from ferryman.kernel.pool import Database
from tests.batches.yard import Yard


@pytest.fixture
def yard(db: Database) -> Yard:
    return Yard(db)
