"""How pages call things, and how they read what is typed into their forms."""

from datetime import UTC, datetime
from typing import Any

import pytest

from ferryman.dashboard import forms, names
from ferryman.kernel import errors

pytestmark = pytest.mark.contract("S5")


@pytest.mark.parametrize(
    ("name", "shown"),
    [
        ("ada", "ada"),
        ("shop_01a1e33bf8fa73c5926dd4eb00fc886e", "shop …fc886e"),
        ("my_shop_01a1e33bf8fa73c5926dd4eb00fc886e", "my_shop …fc886e"),
        ("_01a1e33bf8fa73c5926dd4eb00fc886e", "_01a1e33bf8fa73c5926dd4eb00fc886e"),
        ("shop_01a1e33b", "shop_01a1e33b"),
    ],
)
def test_an_agent_that_was_made_for_a_task_is_called_by_its_profile(name: str, shown: str) -> None:
    assert names.agent(name) == shown


@pytest.mark.parametrize(
    ("first", "last", "shown"),
    [
        ("2026-01-05T00:00:00.000000Z", "2026-01-05T01:00:00.000000Z", "2026-01-05 00:00 to 01:00"),
        ("2026-01-05T23:00:00.000000Z", "2026-01-06T00:00:30.500000Z", "2026-01-05 23:00 to 2026-01-06 00:00:30.5"),
        (0, 500, "0 to 500"),
        ("a", "m", "a to m"),
        ("2026-01-05", "2026-01-06", "2026-01-05 to 2026-01-06"),
        (None, None, "None to None"),
    ],
)
def test_a_window_is_spelled_with_no_more_than_is_needed(first: object, last: object, shown: str) -> None:
    assert names.window(first, last) == shown


@pytest.mark.parametrize(
    ("typed", "value"),
    [
        ("", None), ("  ", None), ("hello there", "hello there"), (" 42 ", 42), ("-1.5", -1.5), ('{"a": [1]}', {"a": [1]}),
        ("[]", []), ("true", True), ("null", None), ('"7"', "7"), ("7 apples", "7 apples"), ("-", "-"),
    ],
)  # fmt: skip
def test_what_looks_like_json_is_read_as_json_and_else_it_is_text(typed: str, value: Any) -> None:
    assert forms.value(typed, "result") == value


@pytest.mark.parametrize("typed", ["{oh", "[1,", '"', "9" * 40, '{"a": "\\u0000"}'])
def test_json_that_cannot_be_kept_is_refused_by_the_name_of_its_field(typed: str) -> None:
    with pytest.raises(errors.RequestInvalid, match=r"^result: "):
        forms.value(typed, "result")


def test_times_are_utc_unless_they_say_otherwise() -> None:
    assert forms.instant("2026-01-31T12:00", "since") == datetime(2026, 1, 31, 12, tzinfo=UTC)
    assert forms.instant("2026-01-31T12:00+02:00", "since") == datetime(2026, 1, 31, 10, tzinfo=UTC)
    assert forms.instant(" ", "since") is None
    with pytest.raises(errors.RequestInvalid, match="since: expected a time such as"):
        forms.instant("soon", "since")


def test_an_address_keeps_only_the_filters_that_say_something() -> None:
    assert forms.address("/agents", {"status": "", "profile": "a&b"}) == "/agents?profile=a%26b"
    assert forms.address("/agents", {}) == "/agents"
    assert forms.tabs("/agents", {"profile": "x"}, "status", ["idle"]) == [
        ("", "All", "/agents?profile=x"), ("idle", "Idle", "/agents?profile=x&status=idle"),
    ]  # fmt: skip
