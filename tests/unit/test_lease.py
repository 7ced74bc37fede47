"""Leases and their length (K4, K5)."""

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ferryman.kernel import errors, ids, lease

NOON = datetime(2030, 1, 1, 12, tzinfo=UTC)
spans = st.timedeltas(timedelta(0), timedelta(days=30))


def second(number: float) -> timedelta:
    return timedelta(seconds=number)


@pytest.mark.contract("K4")
def test_a_holder_needs_both_the_owner_and_the_epoch() -> None:
    mine, other = ids.boot_id(), ids.boot_id()
    held = lease.Lease(owner=mine, epoch=7, until=NOON)

    assert held.held_by(mine, epoch=7)
    assert not held.held_by(mine, epoch=6)
    assert not held.held_by(mine, epoch=8)
    assert not held.held_by(other, epoch=7)


@pytest.mark.contract("K5")
def test_a_lease_is_over_at_its_end_and_not_before() -> None:
    held = lease.Lease(owner=ids.boot_id(), epoch=1, until=NOON)

    assert not held.expired(now=NOON - timedelta(microseconds=1))
    assert held.expired(now=NOON)


@pytest.mark.contract("K5")
def test_a_fresh_claim_lasts_one_lease() -> None:
    end = lease.until(NOON, lease=second(30), started=NOON, timeout=second(300))

    assert end == NOON + second(30)


@pytest.mark.contract("T6")
def test_a_renewal_never_reaches_beyond_the_timeout_and_its_margin() -> None:
    late = NOON + second(290)

    end = lease.until(late, lease=second(30), started=NOON, timeout=second(300), margin=second(5))

    assert end == NOON + second(305)


@given(spans, spans, spans, spans)
def test_no_renewal_pushes_the_end_of_an_attempt_away(
    later: timedelta, length: timedelta, timeout: timedelta, margin: timedelta
) -> None:
    end = lease.until(NOON + later, lease=length, started=NOON, timeout=timeout, margin=margin)

    assert end <= NOON + timeout + margin
    assert end <= NOON + later + length


@pytest.mark.contract("K5")
def test_a_lease_is_renewed_at_a_third() -> None:
    assert lease.renewal(second(30)) == second(10)


@pytest.mark.contract("K17")
def test_two_seconds_is_the_shortest_lease() -> None:
    assert lease.check(second(2)) == second(2)
    with pytest.raises(errors.SettingsInvalid, match=r"worker\.lease: expected at least 2 s, got"):
        lease.check(second(1.999))
