"""What a measurement of stalls may say: a machine that is late hides nothing for ever."""

from collections.abc import Awaitable, Callable

import pytest

from tests.migration import stalls
from tests.migration.stalls import MEASUREMENTS, NOISE_SECONDS, STALL_SECONDS, Stall

LONG = STALL_SECONDS + NOISE_SECONDS
LATE = Stall(LONG, noise=NOISE_SECONDS * 1.1)
IN_TIME = Stall(LONG, noise=NOISE_SECONDS)
WITHIN = Stall(STALL_SECONDS - 0.001, noise=NOISE_SECONDS * 5)


def one_after_another(*found: Stall) -> Callable[[], Awaitable[Stall]]:
    left = iter(found)

    async def measure() -> Stall:
        return next(left)

    return measure


@pytest.mark.contract("K15")
async def test_what_was_measured_on_a_machine_that_was_late_is_measured_again() -> None:
    assert await stalls.steady(one_after_another(*[LATE] * (MEASUREMENTS - 1), IN_TIME)) is IN_TIME


@pytest.mark.contract("K15")
async def test_a_machine_that_is_always_late_proves_nothing_and_the_proof_says_so() -> None:
    with pytest.raises(stalls.Inconclusive, match=r"^Inconclusive: the machine was late by (110(, )?){5} ms in 5 "):
        await stalls.steady(one_after_another(*[LATE] * MEASUREMENTS, IN_TIME))


@pytest.mark.contract("K15")
async def test_a_stall_on_a_machine_that_was_in_time_is_not_measured_again() -> None:
    found = await stalls.steady(one_after_another(IN_TIME, WITHIN))

    assert (found, found.short) == (IN_TIME, False)


@pytest.mark.contract("K15")
async def test_what_is_within_the_aim_needs_no_quiet_machine() -> None:
    found = await stalls.steady(one_after_another(WITHIN))

    assert (found, found.short) == (WITHIN, True)
