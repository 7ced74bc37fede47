"""The pure rules under a source: paths, positions, circles, what headers say, slots."""

from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ferryman.ingest import ports
from ferryman.ingest.rules import limits, pace, paging, position
from ferryman.ingest.rules.chain import Chain
from ferryman.ingest.rules.pace import Pace
from ferryman.ingest.rules.path import MISSING, Path, compile_path
from ferryman.ingest.work.lot import Lot
from ferryman.kernel import errors

# Paths

keys = st.text(max_size=8)
steps = st.lists(keys | st.integers(-3, 3), max_size=5).map(tuple)


@pytest.mark.contract("I14")
@given(steps)
def test_a_path_is_read_back_as_it_is_written(way: tuple[str | int, ...]) -> None:
    path = Path(way)
    if len(str(path)) <= 500:
        assert compile_path(str(path), "items") == path


@given(st.lists(keys, min_size=1, max_size=5).map(tuple))
def test_a_pointer_is_read_back_as_it_is_written(way: tuple[str, ...]) -> None:
    path = Path(way, loose=True)
    assert compile_path(str(path), "items") == path


@given(steps, st.integers())
def test_a_path_finds_what_was_put_there(way: tuple[str | int, ...], treasure: int) -> None:
    value: Any = treasure
    for step in reversed(way):
        value = {step: value} if isinstance(step, str) else [value] * (abs(step) + 1)

    assert Path(way).read(value) == treasure


@given(st.text(max_size=30))
def test_any_text_is_a_path_or_is_refused_with_its_field(text: str) -> None:
    refused = None
    try:
        path = compile_path(text, "items")
    except errors.IngestInvalidSource as error:
        refused = error
    if refused is None:
        assert compile_path(str(path), "items").read({}) == path.read({})
    else:
        assert refused.details["field"] == "items"


BODY = {"data": {"items": [{"id": 1}, {"id": 2}], "odd.key": None, "0": "zero"}}


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("$", BODY),
        ("data.items[0].id", 1),
        ("$.data.items[-1].id", 2),
        ("data.items[2]", MISSING),
        ('data["odd.key"]', None),
        ("/data/items/1/id", 2),
        ("/data/0", "zero"),
        ("/data/odd.key", None),
        ("data.items.id", MISSING),
        ("data[0]", MISSING),
        ("/data/items/01", MISSING),
    ],
)
def test_a_path_leads_where_it_says(text: str, found: Any) -> None:
    assert compile_path(text, "items").read(BODY) == found


@pytest.mark.parametrize(
    ("text", "at"),
    [(".a", 1), ("a..b", 2), ("a.", 2), ("a[", 2), ("a[01]", 2), ("a b", 2), ("a]", 2), ("/a~2", 3), ("a.$b", 2)],
)
def test_a_path_that_cannot_be_read_says_where(text: str, at: int) -> None:
    with pytest.raises(errors.IngestInvalidSource, match=f"at character {at} "):
        compile_path(text, "items")


# Positions

moments = st.integers(-(10**15), 7 * 10**15).map(
    lambda at: datetime(1970, 1, 1, tzinfo=UTC) + timedelta(microseconds=at)
)


@pytest.mark.contract("I4")
def test_the_first_page_has_one_name() -> None:
    assert str(position.read(ports.START)) == ports.START


@pytest.mark.contract("I4")
@given(st.integers(0, 10**17), st.sampled_from(["page", "offset"]))
def test_a_number_has_one_position(number: int, kind: str) -> None:
    text = position.numbered(kind, number)

    assert position.read(text) == (kind, str(number))
    assert str(position.read(text)) == text
    with pytest.raises(ValueError, match="no position"):
        position.read(f"{kind}:0{number}")


@pytest.mark.contract("I4")
@given(moments, st.integers(-12, 12))
def test_a_time_has_one_position_whatever_its_zone(moment: datetime, hours: int) -> None:
    elsewhere = moment.astimezone(timezone(timedelta(hours=hours)))

    assert position.at_time(elsewhere) == position.at_time(moment)
    assert position.moment(position.read(position.at_time(moment)).place) == moment


@pytest.mark.contract("I4")
@given(st.text(min_size=1, max_size=50) | st.integers())
def test_a_token_is_kept_as_it_is(token: str | int) -> None:
    text = position.at_token(token)

    assert text is not None
    assert position.read(text) == ("token", str(token))


@pytest.mark.parametrize("token", [None, "", True, 1.5, [], {}])
def test_what_is_no_token_has_no_position(token: Any) -> None:
    assert position.at_token(token) is None


# Circles


@pytest.mark.contract("I8")
@given(st.integers(0, 20), st.integers(1, 30))
def test_every_circle_is_found_and_no_other_walk_is_one(tail: int, length: int) -> None:
    def place(step: int) -> str:
        return str(step if step < tail else tail + (step - tail) % length)

    chain = Chain()
    found = [chain.follow(place(step), place(step + 1), [step]) for step in range(4 * (tail + length) + 4)]
    assert any(found)

    straight = Chain()
    assert not any(straight.follow(str(step), str(step + 1), [step]) for step in range(200))


# Headers

NOW = datetime(2026, 11, 16, tzinfo=UTC)


@pytest.mark.contract("I9")
@pytest.mark.parametrize(
    ("headers", "left", "lasts"),
    [
        ({"X-RateLimit-Remaining": "3", "X-RateLimit-Reset": "60"}, 3, 60),
        ({"x-ratelimit-remaining": "3", "x-ratelimit-reset": str(int(NOW.timestamp()) + 90)}, 3, 90),
        ({"RateLimit-Remaining": "0", "RateLimit-Reset": str((int(NOW.timestamp()) + 5) * 1000)}, 0, 5),
        ({"RateLimit": "limit=100, remaining=50, reset=30"}, 50, 30),
        ({"RateLimit": '"default";r=9;t=12'}, 9, 12),
        ({"X-RateLimit-Remaining": "3", "X-RateLimit-Reset": "Mon, 16 Nov 2026 00:01:00 GMT"}, 3, 60),
        ({"X-RateLimit-Remaining": "3", "X-RateLimit-Reset": "5"}, 3, 5),
        ({"X-RateLimit-Remaining": "1", "X-RateLimit-Reset": "86400000"}, 1, 86400),
        ({"X-RateLimit-Remaining": "1", "X-RateLimit-Reset": "1000000001"}, 1, 0),
    ],
)
def test_what_is_left_is_read_as_it_is_told(headers: dict[str, str], left: int, lasts: float) -> None:
    assert limits.quota(headers, now=NOW) == (left, timedelta(seconds=lasts))


@pytest.mark.contract("I9")
@given(st.dictionaries(st.sampled_from(sorted(limits.NAMES)), st.text(max_size=30)))
def test_headers_that_cannot_be_read_say_nothing(headers: dict[str, str]) -> None:
    for told in (limits.retry_after(headers, now=NOW), (limits.quota(headers, now=NOW) or (0, None))[1]):
        assert told is None or timedelta(0) <= told <= limits.LONGEST


@pytest.mark.parametrize(
    ("header", "found"),
    [
        ('<https://a/2>; rel="next"', "https://a/2"),
        ('<https://a/1>; rel=prev , <https://a/2>;rel = "last next"', "https://a/2"),
        ('<https://a/2>; title="<https://evil/>; rel=next, "; rel="next"', "https://a/2"),
        ("<https://a/1>; x= ; rel=next", "https://a/1"),
        ('<https://a/1>; rel="next', MISSING),
        ("<<https://a/1>; rel=next", "https://a/1"),
    ],
)
def test_a_link_is_found_by_its_relation(header: str, found: object) -> None:
    assert paging.linked(header, "next") == found


@given(st.text(max_size=60))
def test_a_link_that_cannot_be_read_leads_nowhere(header: str) -> None:
    assert paging.linked(header, "next") is MISSING or "<" in header


# Paces and slots


@pytest.mark.parametrize(("rate", "field"), [("fast", "rate"), (5, "rate"), ("0/s", "rate"), ("9999999/s", "rate")])
def test_a_rate_that_cannot_be_meant_is_refused(rate: Any, field: str) -> None:
    with pytest.raises(errors.IngestInvalidSource) as caught:
        pace.agree(rate)
    assert caught.value.details["field"] == field


def test_a_rate_is_read_as_people_write_it() -> None:
    assert pace.agree() == Pace(top=100, burst=100, step=5)
    assert pace.agree("100/minute", burst=3) == Pace(top=100 / 60, burst=3, step=100 / 60 / 20)
    assert pace.agree("3/h").floor == pytest.approx(3 / 3600)


@pytest.mark.contract("I9")
@given(st.floats(0.001, 20), st.integers(1, 50), st.lists(st.floats(0, 5), max_size=100))
def test_slots_are_used_in_their_time_or_not_at_all(every: float, count: int, pauses: list[float]) -> None:
    lot, now, used = Lot(0.0, every, count, begun=0.0), 0.0, []
    for pause in pauses:
        now += pause
        if lot.take(now):
            used.append(now)

    late = max(0.1, every / 4)
    for begun in used:
        # In any stretch no more than the slots that lie in it, or a little before it.
        assert sum(begun <= each <= begun + 1 for each in used) <= (1 + late + 0.005) / every + 1.001
    assert len(used) <= count
