"""R8: ships have the doorbell that TEST_DOORBELL asks for, so that these tests can be run with each of them."""

import pytest

from ferryman.kernel.doorbell import NoDoorbell
from ferryman.kernel.doorbell_nats import NatsDoorbell
from ferryman.kernel.doorbell_pg import PostgresDoorbell
from ferryman.testing import Doubled, Late, Lossy
from tests.conformance.ear import NOWHERE
from tests.crash import cargo, judge
from tests.crash.conftest import Launch
from tests.crash.yard import BELLS

MADE = {
    "pg": PostgresDoorbell,
    "nats": NatsDoorbell,
    "none": NoDoorbell,
    "lossy": Lossy,
    "doubled": Doubled,
    "late": Late,
}


@pytest.mark.contract("R8", "K2")
@pytest.mark.parametrize("asked", BELLS)
async def test_a_ship_has_the_doorbell_that_is_asked_for_and_works(asked: str, database_url: str, ship: Launch) -> None:
    """Also when its server is not there: that of NATS is nowhere here."""
    worker = ship(database_url).start(
        TEST_DOORBELL=asked, **{"FERRYMAN_DOORBELL": "postgres", "FERRYMAN_NATS_URL": NOWHERE["nats"]} | BELLS[asked]
    )
    begun = await worker.seen("working")

    acknowledged = await cargo.load(database_url, 5)
    await judge.all_ended(database_url)

    assert begun["doorbell"] == MADE[asked].__name__
    await judge.judge(database_url, acknowledged, worker.lines())
