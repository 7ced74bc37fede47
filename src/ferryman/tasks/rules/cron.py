"""Cron expressions, in any time zone (T10).

Five fields: minute, hour, day of month, month, day of week; each a list of `*`, numbers, names and ranges, with steps. As in
Vixie cron, a day matches by its day of month OR its day of week when both are given, and by both when one of them begins
with `*`.

Where clocks change, two kinds of expression part ways. With fixed hours each time of the calendar is fired exactly once: a
repeated one at its first pass, a skipped one at the end of the gap. With hours that begin with `*` real time is followed:
whatever the clock on the wall shows is compared, minute by minute, so that a repeated hour fires again and a skipped one not.

A local day is the stretch of real time from its midnight (or from the end of the gap that swallowed it) to the next. On
nearly every day the offset from UTC does not change, and arithmetic on the calendar is enough; the one or two others of a
year are resolved time by time.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta
from functools import lru_cache
from typing import Final, NamedTuple
from zoneinfo import ZoneInfo

LONGEST: Final = 200
# The rarest that exists, 29 February on one day of the week around a century without a leap year, comes within 40 years.
YEARS_AHEAD: Final = 50
YEAR_MAX: Final = 8999

MINUTE: Final = timedelta(minutes=1)
SECOND: Final = timedelta(seconds=1)
DAY: Final = timedelta(days=1)
NOON: Final = timedelta(hours=12)

_MONTHS: Final = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
_DAYS: Final = ("sun", "mon", "tue", "wed", "thu", "fri", "sat")
_PART = re.compile(r"(?:(?P<star>\*)|(?P<low>[a-z0-9]+)(?:-(?P<high>[a-z0-9]+))?)(?:/(?P<step>[0-9]{1,3}))?")


class _Field(NamedTuple):
    """What one place of an expression may hold."""

    told: str
    least: int
    most: int
    names: tuple[str, ...] = ()

    @property
    def last(self) -> int:
        """The last value of its own: day of week 7 is 0 again."""
        return 6 if self.names is _DAYS else self.most


_FIELDS: Final = (
    _Field("minute", 0, 59),
    _Field("hour", 0, 23),
    _Field("day of month", 1, 31),
    _Field("month", 1, 12, _MONTHS),
    _Field("day of week", 0, 7, _DAYS),
)
_ALIASES: Final = {
    "@hourly": "0 * * * *",
    "@daily": "0 0 * * *",
    "@midnight": "0 0 * * *",
    "@weekly": "0 0 * * 0",
    "@monthly": "0 0 1 * *",
    "@yearly": "0 0 1 1 *",
    "@annually": "0 0 1 1 *",
}


@dataclass(frozen=True)
class Cron:
    """One expression, understood."""

    text: str
    minutes: tuple[int, ...]
    hours: tuple[int, ...]
    days: frozenset[int]
    months: frozenset[int]
    weekdays: frozenset[int]  # 0 is Sunday
    either_day: bool
    follows_real_time: bool

    def fits(self, day: date) -> bool:
        """Tell whether it may fire on a day of the calendar."""
        if day.month not in self.months:
            return False
        by_date, by_week = day.day in self.days, day.isoweekday() % 7 in self.weekdays
        return (by_date or by_week) if self.either_day else (by_date and by_week)

    def matches(self, wall: datetime) -> bool:
        """Tell whether it fits what a clock on the wall shows."""
        return (
            wall.second == wall.microsecond == 0
            and wall.minute in self.minutes
            and wall.hour in self.hours
            and self.fits(wall.date())
        )

    def after(self, moment: datetime, zone: ZoneInfo) -> datetime | None:
        """Return the first firing after a moment, in UTC; None if there is none to come."""
        return next(self.firings(moment, zone), None)

    def firings(self, moment: datetime, zone: ZoneInfo) -> Iterator[datetime]:
        """Give the firings after a moment, in order, each once."""
        last = moment.astimezone(UTC)
        today = last.astimezone(zone).date()
        # A day earlier: by the calendar it may be a day later than the stretch of real time that the moment is in.
        for day in self._days(today - DAY, min(today.year + YEARS_AHEAD, YEAR_MAX)):
            for fired in self._of(day, zone, last):
                if fired > last:
                    yield fired
                    last = fired

    def _days(self, day: date, last_year: int) -> Iterator[date]:
        """Give the days to look at; real time may show a day again that the calendar has passed."""
        while day.year <= last_year:
            if self.fits(day) or (self.follows_real_time and self.fits(day - DAY)):
                yield day
            elif day.month not in self.months and day.day > 1:
                day = _next_month(day)
                continue
            day += DAY

    def _of(self, day: date, zone: ZoneInfo, after: datetime) -> Iterator[datetime]:
        midnight = datetime.combine(day, time())
        offset = _steady(midnight, zone)
        if offset is None:
            yield from self._in_real_time(midnight, zone) if self.follows_real_time else self._by_calendar(day, zone)
            return
        if not self.fits(day):
            return
        begin = midnight.replace(tzinfo=UTC) - offset
        # Hours that are over are passed by, not walked through.
        past = (after - begin) // MINUTE if after > begin else -1
        for hour in self.hours:
            if hour * 60 + 59 >= past:
                for minute in self.minutes:
                    yield begin + timedelta(minutes=hour * 60 + minute)

    def _by_calendar(self, day: date, zone: ZoneInfo) -> Iterator[datetime]:
        for hour in self.hours if self.fits(day) else ():
            for minute in self.minutes:
                yield first_pass(datetime.combine(day, time(hour, minute)), zone)

    def _in_real_time(self, midnight: datetime, zone: ZoneInfo) -> Iterator[datetime]:
        moment, end = first_pass(midnight, zone), first_pass(midnight + DAY, zone)
        while moment < end:
            if self.matches(moment.astimezone(zone).replace(tzinfo=None)):
                yield moment
            moment += MINUTE


def first_pass(wall: datetime, zone: ZoneInfo) -> datetime:
    """Return when a clock on the wall first shows this; where it never does, the end of the gap that skips it."""
    early, late = (wall.replace(tzinfo=zone, fold=fold).astimezone(UTC) for fold in (0, 1))
    if early.astimezone(zone).replace(tzinfo=None) == wall:
        return early
    # In a gap the two readings stand on its two sides, the one by the old offset behind it.
    before, behind = late, early
    new = behind.astimezone(zone).utcoffset()
    while behind - before > SECOND:
        middle = before + (behind - before) // SECOND // 2 * SECOND
        if middle.astimezone(zone).utcoffset() == new:
            behind = middle
        else:
            before = middle
    return behind


def _steady(midnight: datetime, zone: ZoneInfo) -> timedelta | None:
    """Return the offset of a day on which it does not change."""
    first = midnight.replace(tzinfo=zone).utcoffset()
    same = all((midnight + later).replace(tzinfo=zone).utcoffset() == first for later in (NOON, DAY))
    return first if same else None


def _next_month(day: date) -> date:
    return date(day.year + day.month // 12, day.month % 12 + 1, 1)


@lru_cache(maxsize=4096)
def parse(text: str) -> Cron:
    """Understand an expression; raise ValueError, with what is wrong in words, if it cannot be."""
    if len(text) > LONGEST:
        raise ValueError(f"expected at most {LONGEST} characters, got {len(text)}")
    spaced = " ".join(text.split())
    parts = _ALIASES.get(spaced.lower(), spaced).lower().split(" ")
    if len(parts) != len(_FIELDS):
        raise ValueError(
            f"expected five fields (minute, hour, day of month, month, day of week), got {len(parts) if spaced else 0}"
        )
    minutes, hours, days, months, weekdays = (_values(part, field) for part, field in zip(parts, _FIELDS, strict=True))
    return Cron(
        text=spaced,
        minutes=tuple(sorted(minutes)),
        hours=tuple(sorted(hours)),
        days=frozenset(days),
        months=frozenset(months),
        weekdays=frozenset(day % 7 for day in weekdays),
        either_day=not parts[2].startswith("*") and not parts[4].startswith("*"),
        follows_real_time=parts[1].startswith("*"),
    )


def _values(text: str, field: _Field) -> set[int]:
    values: set[int] = set()
    for part in text.split(","):
        found = _PART.fullmatch(part)
        if found is None:
            raise ValueError(f"{field.told}: expected *, a number, a name, a range or a step, got {part!a}")
        values.update(_range(found, field))
    return values


def _range(found: re.Match[str], field: _Field) -> range:
    step = int(found["step"] or 1)
    if not 1 <= step <= field.most:
        raise ValueError(f"{field.told}: expected a step from 1 to {field.most}, got {step}")
    if found["star"]:
        return range(field.least, field.last + 1, step)
    low = _number(found["low"], field)
    if found["high"] is None:
        return range(low, max(low, field.last if found["step"] else low) + 1, step)
    high = _number(found["high"], field)
    if field.names is _DAYS and high == 0 < low:
        high = 7  # fri-sun
    if high < low:
        raise ValueError(f"{field.told}: the range {found['low']}-{found['high']} runs backwards")
    return range(low, high + 1, step)


def _number(text: str, field: _Field) -> int:
    if text in field.names:
        return field.names.index(text) + field.least
    if text.isdecimal() and len(text) <= 2 and field.least <= int(text) <= field.most:
        return int(text)
    names = f" or {field.names[0]} to {field.names[-1]}" if field.names else ""
    raise ValueError(f"{field.told}: expected {field.least} to {field.most}{names}, got {text!a}")
