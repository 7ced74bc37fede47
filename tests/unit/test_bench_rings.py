"""Creates are measured while somebody listens, and it is counted that they rang."""

import pytest

from bench.measure import due_rings
from bench.peers.ferryman import Ferryman
from bench.peers.pgqueuer import PgQueuer
from ferryman.kernel.doorbell_pg import PACE_SECONDS


@pytest.mark.parametrize(
    ("peer", "op", "seconds", "least"),
    [
        (Ferryman, "single", 1.0, 100), (Ferryman, "single", 1000.0, 2000), (Ferryman, "flight", 1.0, 1),
        (PgQueuer, "single", 1.0, 2000),
    ],
)  # fmt: skip
def test_so_many_rings_are_due(peer: type, op: str, seconds: float, least: int) -> None:
    assert due_rings(peer, op, 2000, seconds) == least  # type: ignore[arg-type]


def test_the_pace_is_that_of_the_product() -> None:
    assert Ferryman.pace == PACE_SECONDS
