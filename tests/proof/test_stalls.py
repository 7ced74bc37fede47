"""K15: how long the longest claim takes while migrations are applied, on a machine that is quiet enough to tell."""

from functools import partial
from pathlib import Path

import pytest

from ferryman.testing import Cluster
from tests.migration import stalls
from tests.migration.test_rolling import IN_THE_WAY, stall_of_a_new_one, stall_of_all


@pytest.mark.contract("K15", "K24")
@pytest.mark.parametrize("what", IN_THE_WAY)
async def test_a_migration_that_waits_for_a_table_holds_up_no_claim_for_long(
    cluster: Cluster, tmp_path: Path, what: str
) -> None:
    assert (await stalls.steady(partial(stall_of_a_new_one, cluster, tmp_path, what))).short


@pytest.mark.contract("K15", "K24")
async def test_no_claim_waits_long_for_any_of_the_migrations_there_are(cluster: Cluster, tmp_path: Path) -> None:
    assert (await stalls.steady(partial(stall_of_all, cluster, tmp_path))).short
