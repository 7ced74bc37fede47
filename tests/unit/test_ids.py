"""Ids and names (K11, K12)."""

from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ferryman.kernel import errors, ids

PLAIN = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_.:-"


def test_an_id_is_a_plain_uuid_of_version_seven() -> None:
    made = ids.new_id()

    assert type(made) is UUID
    assert made.version == 7


def test_ids_made_in_a_burst_are_distinct_and_in_order() -> None:
    burst = [ids.new_id() for _ in range(10_000)]

    assert len(set(burst)) == len(burst)
    assert burst == sorted(burst)


@pytest.mark.contract("K5")
def test_every_start_has_its_own_boot_id() -> None:
    assert ids.boot_id() != ids.boot_id()


@given(st.text(PLAIN, min_size=1, max_size=200))
def test_plain_names_pass_unchanged(name: str) -> None:
    assert ids.check_name(name, "queue") == name
    assert ids.check_key(name, "idempotency_key") == name


@pytest.mark.parametrize(
    "bad",
    ["", "a b", "a/b", "é", "a\n", "a\x00", "\uff55", "\ud800", "x" * 201, None, 7, b"a", ["a"]],
)
def test_a_bad_name_is_refused_and_the_field_is_named(bad: object) -> None:
    with pytest.raises(errors.TaskInvalidRequest) as refused:
        ids.check_name(bad, "tenant")

    assert refused.value.details == {"field": "tenant"}
    assert refused.value.message.startswith("tenant: expected 1 to 200 characters of letters")
    refused.value.message.encode()


@pytest.mark.parametrize("good", ["order 17/2030", "заказ", "👩‍🚀", "a" * 200, "\u00a0x"])
def test_a_key_may_be_any_printable_text(good: str) -> None:
    assert ids.check_key(good, "idempotency_key") == good


@pytest.mark.parametrize("bad", ["", "   ", "a\x00", "a\nb", "\x7f", "\u2028", "\ud800", "a" * 201, None, 7])
def test_a_bad_key_is_refused(bad: object) -> None:
    with pytest.raises(errors.TaskInvalidRequest, match="idempotency_key: expected") as refused:
        ids.check_key(bad, "idempotency_key")

    refused.value.message.encode()


def test_a_long_name_is_not_repeated_whole() -> None:
    with pytest.raises(errors.TaskInvalidRequest, match="got 5000 characters"):
        ids.check_name("x" * 5000, "queue")
    with pytest.raises(errors.TaskInvalidRequest, match="…"):
        ids.check_name("x " * 50, "queue")
