"""Cron expressions against a walk through every minute, in zones whose clocks do strange things (T10)."""

from datetime import UTC, date, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ferryman.tasks.rules import cron

MINUTE = timedelta(minutes=1)
BERLIN = ZoneInfo("Europe/Berlin")

# A zone and a day near which its clocks change: an hour, half an hour, at midnight, backwards over midnight, a whole day.
CHANGES = [
    ("Europe/Berlin", date(2026, 3, 29)),
    ("Europe/Berlin", date(2026, 10, 25)),
    ("America/New_York", date(2026, 3, 8)),
    ("America/New_York", date(2026, 11, 1)),
    ("Australia/Lord_Howe", date(2026, 4, 5)),
    ("Australia/Lord_Howe", date(2026, 10, 4)),
    ("America/Havana", date(2026, 3, 8)),
    ("America/Havana", date(2026, 11, 1)),
    ("America/Sao_Paulo", date(2018, 11, 4)),
    ("America/Sao_Paulo", date(2018, 2, 18)),
    ("America/St_Johns", date(2010, 11, 7)),
    ("Africa/Casablanca", date(2026, 2, 15)),
    ("Africa/Casablanca", date(2026, 3, 22)),
    ("Pacific/Apia", date(2011, 12, 30)),
    ("Africa/Cairo", date(2026, 4, 24)),
    ("Antarctica/Troll", date(2026, 3, 29)),
    ("Asia/Kathmandu", date(2026, 6, 1)),
    ("UTC", date(2024, 2, 29)),
]


def field(least: int, most: int, names: tuple[str, ...] = ()) -> st.SearchStrategy[str]:
    """Any spelling of one field."""
    number = st.integers(least, most)
    step = st.integers(1, most)
    words = number.map(str)
    if names:
        words = words | st.sampled_from(names)
    part = st.one_of(
        st.just("*"),
        words,
        step.map(lambda n: f"*/{n}"),
        st.tuples(number, number).map(lambda pair: f"{min(pair)}-{max(pair)}"),
        st.tuples(number, number, step).map(lambda pair: f"{min(pair[:2])}-{max(pair[:2])}/{pair[2]}"),
    )
    return st.lists(part, min_size=1, max_size=3).map(",".join)


def expressions() -> st.SearchStrategy[str]:
    hours = field(0, 23) | st.sampled_from(["*", "0", "1", "2", "3", "0-3", "23", "*/2", "1,2"])
    minutes = field(0, 59) | st.sampled_from(["0", "30", "*/15", "*"])
    return st.tuples(
        minutes, hours, st.just("*") | field(1, 31), st.just("*") | field(1, 12, ("jan", "DEC")),
        st.just("*") | field(0, 7, ("mon", "SUN")),
    ).map(" ".join)  # fmt: skip


def shows(zone: ZoneInfo, begin: datetime, end: datetime) -> list[tuple[datetime, datetime]]:
    """What the clock on the wall shows at each minute of real time."""
    walk = []
    moment = begin
    while moment < end:
        walk.append((moment, moment.astimezone(zone).replace(tzinfo=None)))
        moment += MINUTE
    return walk


def real_time(when: cron.Cron, zone: ZoneInfo, begin: datetime, end: datetime) -> list[datetime]:
    """Fire whenever the wall clock fits."""
    return [moment for moment, wall in shows(zone, begin, end) if when.matches(wall)]


def once_each(when: cron.Cron, zone: ZoneInfo, begin: datetime, end: datetime) -> list[datetime]:
    """Walk the calendar behind the clock: what it reaches or jumps over fires now, what it shows again does not."""
    fired = []
    reached: datetime | None = None
    for moment, wall in shows(zone, begin - timedelta(days=2), end):
        if reached is None:
            reached = wall - MINUTE
        due = False
        while reached < wall:
            reached += MINUTE
            due = due or when.matches(reached)
        if due and moment >= begin:
            fired.append(moment)
    return fired


@pytest.mark.contract("T10")
@settings(max_examples=60, deadline=None)
@given(expression=expressions(), change=st.sampled_from(CHANGES), hours=st.integers(-50, 20))
def test_every_expression_fires_when_a_walk_through_all_minutes_says_so(
    expression: str, change: tuple[str, date], hours: int
) -> None:
    name, day = change
    zone, when = ZoneInfo(name), cron.parse(expression)
    begin = datetime(day.year, day.month, day.day, tzinfo=UTC) + timedelta(hours=hours)
    end = begin + timedelta(hours=60)

    fired = []
    for moment in when.firings(begin - timedelta(microseconds=1), zone):
        if moment >= end:
            break
        fired.append(moment)

    walk = real_time if when.follows_real_time else once_each
    assert fired == walk(when, zone, begin, end)


@pytest.mark.contract("T10")
@settings(max_examples=60, deadline=None)
@given(expression=expressions(), change=st.sampled_from(CHANGES), minutes=st.integers(0, 100_000))
def test_the_next_firing_is_the_same_wherever_one_begins_to_look(
    expression: str, change: tuple[str, date], minutes: int
) -> None:
    name, day = change
    zone, when = ZoneInfo(name), cron.parse(expression)
    begin = datetime(day.year, day.month, day.day, tzinfo=UTC) - timedelta(minutes=minutes)
    found = when.after(begin, zone)
    if found is not None:
        assert when.after(found - MINUTE, zone) == found
        assert when.after(found - timedelta(microseconds=1), zone) == found
        later = when.after(found, zone)
        assert later is None or later > found


def local(expression: str, begin: str, count: int, zone: ZoneInfo = BERLIN) -> list[str]:
    times = cron.parse(expression).firings(datetime.fromisoformat(begin).replace(tzinfo=zone), zone)
    return [f"{next(times).astimezone(zone):%d %H:%M %z}" for _ in range(count)]


@pytest.mark.contract("T10")
@pytest.mark.parametrize(
    ("expression", "begin", "expected"),
    [
        ("30 2 * * *", "2026-03-28 00:00", ["28 02:30 +0100", "29 03:00 +0200", "30 02:30 +0200"]),
        ("0,30 2 * * *", "2026-03-28 12:00", ["29 03:00 +0200", "30 02:00 +0200"]),
        ("0 3 * * *", "2026-03-28 12:00", ["29 03:00 +0200", "30 03:00 +0200"]),
        ("30 2 * * *", "2026-10-24 12:00", ["25 02:30 +0200", "26 02:30 +0100"]),
        ("30 1-3 * * *", "2026-03-29 00:00", ["29 01:30 +0100", "29 03:00 +0200", "29 03:30 +0200"]),
        ("30 * * * *", "2026-03-29 01:00", ["29 01:30 +0100", "29 03:30 +0200"]),
        ("30 * * * *", "2026-10-25 02:00", ["25 02:30 +0200", "25 02:30 +0100", "25 03:30 +0100"]),
        ("0 */2 * * *", "2026-10-25 01:00", ["25 02:00 +0200", "25 02:00 +0100", "25 04:00 +0100"]),
    ],
    ids=["skipped", "skipped twice", "after the gap", "repeated", "around the gap", "real", "again", "every other hour"],
)  # fmt: skip
def test_fixed_times_fire_once_and_wildcard_hours_follow_real_time(
    expression: str, begin: str, expected: list[str]
) -> None:
    assert local(expression, begin, len(expected)) == expected


@pytest.mark.contract("T10")
def test_a_time_on_a_day_that_was_lost_fires_when_the_next_begins() -> None:
    assert local("0 8 * * *", "2011-12-29 12:00", 2, ZoneInfo("Pacific/Apia")) == [
        "31 00:00 +1400",
        "31 08:00 +1400",
    ]


@pytest.mark.contract("T10")
@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        ("0 0 13 * 5", ["2026-01-02", "2026-01-09", "2026-01-13", "2026-01-16"]),
        ("0 0 13 * *", ["2026-01-13", "2026-02-13"]),
        ("0 0 * * 5", ["2026-01-02", "2026-01-09"]),
        ("0 0 */10 * 5", ["2026-05-01", "2026-07-31"]),
        ("0 0 1,15 * */3", ["2026-02-01", "2026-02-15", "2026-03-01"]),
        ("0 0 * * 7", ["2026-01-04", "2026-01-11"]),
        ("0 0 * * fri-sun", ["2026-01-02", "2026-01-03", "2026-01-04", "2026-01-09"]),
        ("0 0 29 2 *", ["2028-02-29", "2032-02-29"]),
        ("0 0 31 * *", ["2026-01-31", "2026-03-31"]),
        ("@monthly", ["2026-02-01", "2026-03-01"]),
        ("0 0 5/10 JAN *", ["2026-01-05", "2026-01-15", "2026-01-25", "2027-01-05"]),
    ],
)
def test_days_match_by_date_or_by_weekday_as_in_vixie_cron(expression: str, expected: list[str]) -> None:
    times = cron.parse(expression).firings(datetime(2026, 1, 1, tzinfo=UTC), ZoneInfo("UTC"))

    assert [f"{next(times):%Y-%m-%d}" for _ in expected] == expected


@pytest.mark.contract("T10", "T8")
@pytest.mark.parametrize("expression", ["0 0 30 2 *", "0 0 31 2,4,6,9,11 *", "0 0 31 feb *"])
def test_what_never_comes_is_known_to_never_come(expression: str) -> None:
    assert cron.parse(expression).after(datetime(2026, 1, 1, tzinfo=UTC), BERLIN) is None


@pytest.mark.contract("T10")
def test_the_rarest_day_is_found_across_a_century_without_a_leap_year() -> None:
    found = cron.parse("0 0 29 2 */6").after(datetime(2096, 3, 1, tzinfo=UTC), ZoneInfo("UTC"))

    assert found == datetime(2116, 2, 29, tzinfo=UTC)


@pytest.mark.contract("T8", "K20")
@pytest.mark.parametrize(
    ("expression", "told"),
    [
        ("", "five fields"),
        ("* * * *", "got 4"),
        ("* * * * * *", "got 6"),
        ("60 * * * *", "minute: expected 0 to 59"),
        ("* 24 * * *", "hour"),
        ("* * 0 * *", "day of month: expected 1 to 31"),
        ("* * * 13 *", "month: expected 1 to 12 or jan to dec"),
        ("* * * * 8", "day of week"),
        ("* * * * fry", "day of week"),
        ("*/0 * * * *", "step from 1 to 59"),
        ("*/60 * * * *", "step from 1 to 59"),
        ("5-1 * * * *", "5-1 runs backwards"),
        ("1- * * * *", "minute: expected"),
        ("-1 * * * *", "minute: expected"),
        (", * * * *", "minute: expected"),
        ("1,,2 * * * *", "minute: expected"),
        ("? * * * *", "minute: expected"),
        ("* * L * *", "day of month"),
        ("* * * * 1#2", "day of week"),
        ("@reboot", "five fields"),
        ("1.5 * * * *", "minute: expected"),
        ("٣ * * * *", "minute: expected"),
        ("* * * * *" * 30, "200 characters"),
    ],
)
def test_what_is_no_expression_is_refused_in_words(expression: str, told: str) -> None:
    with pytest.raises(ValueError, match=told.replace("*", r"\*")):
        cron.parse(expression)


@settings(max_examples=120, deadline=None)
@given(text=st.text(max_size=30) | st.text(alphabet="0123456789*/,- @LW#?", max_size=30))
def test_any_text_is_understood_or_refused(text: str) -> None:
    try:
        when = cron.parse(text)
    except ValueError:
        return
    when.after(datetime(2026, 1, 1, tzinfo=UTC), BERLIN)
