"""When a schedule fires: by a calendar or at an interval; and what is made up for after everything was down (T8, T10)."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from difflib import get_close_matches
from itertools import takewhile
from typing import Final, NamedTuple, Protocol
from zoneinfo import ZoneInfo, available_timezones

from ferryman.tasks.rules import cron

# With `all`, so many of the newest missed firings are made up for; what is older counts as missed.
CATCH_UP_MAX: Final = 1000
# With `none`, a firing that is no later than this was not missed: workers are never on time to the second.
ON_TIME: Final = timedelta(seconds=60)

TICK: Final = timedelta(microseconds=1)
_WIDER: Final = 4
_ZONE = re.compile(r"[A-Za-z0-9_+-]+(?:/[A-Za-z0-9_+-]+)*")
# Files beside the zones: what they say depends on the machine, or counts leap seconds.
_NO_ZONES: Final = frozenset({"localtime", "posixrules", "Factory"})
_NO_FOLDERS: Final = ("posix/", "right/")


class Rhythm(Protocol):
    """The times at which a schedule fires."""

    def firings(self, after: datetime) -> Iterator[datetime]:
        """Give the times after a moment, in order."""

    def newest(self, due: datetime, now: datetime, most: int) -> list[datetime]:
        """Return the newest times from the one that is due up to now, in order."""


@dataclass(frozen=True)
class Calendar:
    """Fires by a cron expression in a time zone."""

    cron: cron.Cron
    zone: ZoneInfo

    def firings(self, after: datetime) -> Iterator[datetime]:
        """Give the times after a moment, in order."""
        return self.cron.firings(after, self.zone)

    def newest(self, due: datetime, now: datetime, most: int) -> list[datetime]:
        """Return the newest times from the one that is due up to now, in order.

        The due one was promised when it was stored: it is among them though the rules of its zone may have changed since.
        """
        span = timedelta(minutes=1)
        while True:
            begin = max(due, now - span)
            times = list(takewhile(lambda each: each <= now, self.firings(begin)))
            if begin == due:
                times.insert(0, due)
            if begin == due or len(times) >= most:
                return times[-most:]
            span *= _WIDER


@dataclass(frozen=True)
class Every:
    """Fires at an interval of real time, counted from a moment."""

    interval: timedelta
    since: datetime

    def firings(self, after: datetime) -> Iterator[datetime]:
        """Give the times after a moment, in order."""
        time = self.since + max(1, (after - self.since) // self.interval + 1) * self.interval
        while time.year < cron.YEAR_MAX:
            yield time
            time += self.interval

    def newest(self, due: datetime, now: datetime, most: int) -> list[datetime]:
        """Return the newest times from the one that is due up to now, in order."""
        last = (now - due) // self.interval
        return [due + place * self.interval for place in range(max(0, last - most + 1), last + 1)]


def rhythm(
    *, cron_expr: str | None, timezone: str | None, interval_ms: int | None, since: datetime
) -> Calendar | Every:
    """Return the rhythm of a schedule as it is stored; raise ValueError if it cannot be understood here."""
    if interval_ms is not None:
        return Every(timedelta(milliseconds=interval_ms), since)
    if cron_expr is None or timezone is None:
        raise ValueError("expected an interval, or a cron expression and its timezone")
    return Calendar(cron.parse(cron_expr), zone(timezone))


def zone(name: str) -> ZoneInfo:
    """Find a time zone by its name; raise ValueError if there is none."""
    found = _find(name)
    if found is not None:
        return found
    shown = ascii(name) if len(name) <= 60 else f"{name[:60]!a}…"
    near = get_close_matches(name[:60], available_timezones(), n=1)
    hint = f" (did you mean {near[0]}?)" if near else ""
    raise ValueError(f"expected a time zone such as Europe/Berlin or UTC, got {shown}{hint}")


def _find(name: str) -> ZoneInfo | None:
    if not _ZONE.fullmatch(name) or name in _NO_ZONES or name.startswith(_NO_FOLDERS):
        return None
    try:
        return ZoneInfo(name)
    except (KeyError, ValueError, OSError):  # unknown, or the name of a folder
        return None


class Plan(NamedTuple):
    """What a due schedule does now."""

    fire: list[datetime]
    missed: int
    skipped: int
    next_run_at: datetime | None


def plan(
    when: Rhythm, *, due: datetime, now: datetime, catch_up: str, overlap: str, ends_at: datetime | None, room: int
) -> Plan:
    """Decide what a due schedule fires, at most `room` tasks, and when it is due again; None means never."""
    until = now if ends_at is None else min(now, ends_at - TICK)
    times = when.newest(due, until, CATCH_UP_MAX + 1) if due <= until else []
    if catch_up == "all":
        fire = times[-CATCH_UP_MAX:]
    elif catch_up == "none":
        fire = [each for each in times[-1:] if now - each <= ON_TIME]
    else:
        fire = times[-1:]
    missed = len(times) - len(fire)
    # Of those that would overlap each other only the newest can be meant.
    skipped = 0 if overlap == "allow" else max(0, len(fire) - 1)
    fire = fire[skipped:]
    if len(fire) > room:
        return Plan(fire[:room], missed, skipped, fire[room])
    following = next(when.firings(now), None)
    ended = following is None or (ends_at is not None and following >= ends_at)
    return Plan(fire, missed, skipped, None if ended else following)


def first(when: Rhythm, *, now: datetime, ends_at: datetime | None) -> datetime | None:
    """Return when a schedule fires first, seen from now; None means never."""
    following = next(when.firings(now), None)
    return None if following is None or (ends_at is not None and following >= ends_at) else following


def upcoming(when: Rhythm, *, due: datetime, ends_at: datetime | None, count: int) -> list[datetime]:
    """Return the next firings, beginning with the one that is due."""
    times = [due]
    for each in when.firings(due.astimezone(UTC)):
        if len(times) >= count or (ends_at is not None and each >= ends_at):
            break
        times.append(each)
    return times[:count]
