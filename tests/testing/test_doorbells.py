"""R8: the doorbells that misbehave do so in the way they say."""

import pytest

from ferryman.kernel.doorbell import NoDoorbell
from ferryman.testing import Late, Lossy
from tests.conformance.ear import Ear, opened


@pytest.mark.contract("R8")
async def test_a_lossy_doorbell_loses_its_share_and_the_same_for_one_seed() -> None:
    async def heard_with(seed: int) -> list[frozenset[str]]:
        bell = Lossy(NoDoorbell(), share=0.5, seed=seed)
        async with opened(bell):
            ear, witness = Ear(bell), Ear(bell.inner)
            for number in range(100):
                bell.ring("ready", [str(number)])
                await witness.until(lambda ear, number=number: len(ear.heard) > number)  # type: ignore[misc]
        return ear.heard

    first, again, other = await heard_with(1), await heard_with(1), await heard_with(2)

    assert first == again != other
    assert 30 < len(first) < 70


@pytest.mark.contract("R8")
async def test_a_late_doorbell_delivers_at_the_next_ring_or_when_released() -> None:
    bell = Late(NoDoorbell())
    async with opened(bell):
        ear, witness = Ear(bell), Ear(bell.inner)

        bell.ring("ready", ["first"])
        await witness.until(lambda ear: len(ear.heard) == 1)
        after_one = list(ear.heard)
        bell.ring("ready", ["second"])
        await witness.until(lambda ear: len(ear.heard) == 2)
        after_two = list(ear.heard)
        bell.release()

    assert after_one == []
    assert after_two == [frozenset({"first"})]
    assert ear.heard == [frozenset({"first"}), frozenset({"second"})]
