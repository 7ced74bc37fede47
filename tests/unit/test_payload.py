"""What may be stored as JSON, and what is refused at the door (K13, K25)."""

import json
import math
import uuid
from dataclasses import dataclass
from datetime import UTC, date, datetime, time
from enum import Enum, IntEnum
from typing import Any

import orjson
import pydantic
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ferryman.kernel import errors, payload
from tests.corpus import bad_payloads

whole = st.integers(-(2**63), 2**63 - 1)
text = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"))
leaves = st.none() | st.booleans() | whole | st.floats(allow_nan=False, allow_infinity=False) | text
good = st.recursive(leaves, lambda inner: st.lists(inner) | st.dictionaries(text, inner), max_leaves=30)
anything = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(st.characters()),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(st.characters()), inner),
    max_leaves=30,
)


def storable(value: Any) -> bool:
    """Say by the plainest means whether a value may pass: the rule the door is held to."""
    match value:
        case dict():
            return all(storable(key) and storable(item) for key, item in value.items())
        case list():
            return all(map(storable, value))
        case float():
            return math.isfinite(value)
        case bool() | None:
            return True
        case int():
            return -(2**63) <= value < 2**63
        case _:
            return "\0" not in value and not any("\ud800" <= c <= "\udfff" for c in value)


@pytest.mark.contract("K13")
@pytest.mark.parametrize(("value", "path"), [pytest.param(v, p, id=name) for name, v, p in bad_payloads.VALUES])
def test_a_bad_value_is_refused_and_its_path_named(value: Any, path: str) -> None:
    with pytest.raises(errors.TaskInvalidPayload) as refused:
        payload.encode(value)

    assert refused.value.details["path"] == path
    assert refused.value.message.encode()


@pytest.mark.contract("K13")
@pytest.mark.parametrize(("raw", "path"), [pytest.param(t, p, id=name) for name, t, p in bad_payloads.TEXTS])
def test_a_bad_text_is_refused_and_its_path_named(raw: str | bytes, path: str) -> None:
    with pytest.raises(errors.TaskInvalidPayload) as refused:
        payload.check_text(raw)

    assert refused.value.details["path"] == path
    assert refused.value.message.encode()


@pytest.mark.contract("K13")
@given(good)
def test_a_good_value_comes_back_the_same(value: Any) -> None:
    stored = payload.encode(value)

    assert payload.decode(stored) == value
    assert payload.check_text(stored) == stored


@pytest.mark.contract("K13")
@given(anything)
def test_the_door_refuses_exactly_what_may_not_be_stored(value: Any) -> None:
    try:
        payload.encode(value)
        passed = True
    except errors.TaskInvalidPayload:
        passed = False

    assert passed == storable(value)


@pytest.mark.contract("K13")
@given(anything)
def test_raw_text_is_held_to_the_same_rule(value: Any) -> None:
    try:
        payload.check_text(json.dumps(value))
        passed = True
    except errors.TaskInvalidPayload:
        passed = False

    assert passed == storable(value)


@given(st.text() | st.binary())
def test_no_text_whatever_breaks_the_door(raw: str | bytes) -> None:
    try:
        kept = payload.check_text(raw)
    except errors.TaskInvalidPayload:
        return
    assert json.loads(kept) == payload.decode(kept)


@pytest.mark.contract("K13")
def test_the_deepest_nesting_allowed_passes_and_one_more_does_not() -> None:
    deepest = bad_payloads.nested(128, inner="]" * 500 + "[" * 500)

    assert payload.check_text(payload.encode(deepest)) == payload.encode(deepest)
    with pytest.raises(errors.TaskInvalidPayload, match="deeper than 128"):
        payload.encode([deepest])
    with pytest.raises(errors.TaskInvalidPayload, match="deeper than 128"):
        payload.check_text(orjson.dumps([deepest]))


def test_many_brackets_side_by_side_or_in_text_are_not_depth() -> None:
    wide = [[{"a": "[[[{{{"}]] * 200

    assert payload.decode(payload.encode(wide)) == wide
    assert payload.check_text(payload.encode(wide))


@pytest.mark.contract("K13")
def test_the_limit_counts_bytes_and_is_itself_allowed() -> None:
    value = "é" * 50

    assert payload.encode(value, limit=102)
    assert payload.check_text(f'"{value}"', limit=102)
    with pytest.raises(errors.TaskInvalidPayload, match="102 bytes; 101") as refused:
        payload.encode(value, limit=101)
    assert refused.value.details == {"path": "$", "size": 102, "limit": 101}
    with pytest.raises(errors.TaskInvalidPayload, match="102 bytes; 101"):
        payload.check_text(f'"{value}"', limit=101)


@pytest.mark.contract("K13")
def test_one_mebibyte_is_the_default_limit() -> None:
    assert payload.encode("x" * (1024 * 1024 - 2))
    with pytest.raises(errors.TaskInvalidPayload):
        payload.encode("x" * (1024 * 1024 - 1))


@pytest.mark.contract("K13")
@pytest.mark.parametrize("edge", [2**63 - 1, -(2**63), 2**53, 2**53 + 1, 10**18, 0])
def test_integers_of_64_bits_pass(edge: int) -> None:
    assert payload.decode(payload.encode({"n": edge})) == {"n": edge}
    assert payload.check_text(f"[{edge}]") == f"[{edge}]"


def test_what_only_looks_suspicious_passes() -> None:
    value = {
        "null": "null",
        "escaped": "\\u0000",
        "digits": "12345678901234567890123",
        "number": "1e999",
        "none": None,
        "big": 2**62,
        "float": 1e300,
        "small": 5e-324,
    }

    assert payload.decode(payload.encode(value)) == value
    assert payload.check_text(payload.encode(value)) == payload.encode(value)


def test_raw_text_is_kept_as_it_is_written() -> None:
    raw = '{ "a" : 1.10, "a": 0.12345678901234567890, "b": 1E2 }'

    assert payload.check_text(raw) == raw
    assert payload.check_text(raw.encode()) == raw


class Colour(Enum):
    RED = "red"


class Size(IntEnum):
    LARGE = 3


@dataclass
class Order:
    number: int
    note: str | None
    _private: object = object()


class Customer(pydantic.BaseModel):
    name: str
    born: date
    score: float | None = None


def test_what_orjson_writes_natively_and_pydantic_models_are_taken() -> None:
    value = {
        "at": datetime(2030, 1, 2, 3, tzinfo=UTC),
        "day": date(2030, 1, 2),
        "time": time(3, 4),
        "id": uuid.UUID(int=1),
        "enums": (Colour.RED, Size.LARGE),
        "order": Order(2**60, None),
        "customer": Customer(name="Ada", born=date(1815, 12, 10)),
    }

    assert payload.decode(payload.encode(value)) == {
        "at": "2030-01-02T03:00:00+00:00",
        "day": "2030-01-02",
        "time": "03:04:00",
        "id": "00000000-0000-0000-0000-000000000001",
        "enums": ["red", 3],
        "order": {"number": 2**60, "note": None},
        "customer": {"name": "Ada", "born": "1815-12-10", "score": None},
    }


def test_a_number_inside_a_model_is_checked_too() -> None:
    with pytest.raises(errors.TaskInvalidPayload) as refused:
        payload.encode({"c": [Customer(name="Ada", born=date(1815, 12, 10), score=math.nan)]})

    assert refused.value.details["path"] == "$.c[0].score"


@pytest.mark.contract("K13")
def test_a_result_is_refused_as_a_result() -> None:
    with pytest.raises(errors.TaskInvalidResult):
        payload.encode({1, 2}, error=errors.TaskInvalidResult)


@pytest.mark.contract("K25")
def test_an_unreadable_stored_text_is_refused_with_its_position() -> None:
    with pytest.raises(errors.TaskInvalidPayload) as refused:
        payload.decode('{"a": }')

    assert refused.value.details == {"path": "$", "position": 6}
