"""Where in a slice a page begins, as one canonical text (I4).

`start`, `page:3`, `offset:200`, `token:…`, `url:…`, `time:2026-11-16T00:00:00Z`. The same place always has the same
text, so that it can be the key of a batch. A number has no leading zeros, a time is in UTC with no more digits than it needs.
"""

from __future__ import annotations

import re
from datetime import UTC, datetime
from typing import Final, NamedTuple

from ferryman.ingest.window import START

KINDS: Final = ("page", "offset", "token", "url", "time")
# It becomes part of an index, which has no room for more.
LONGEST: Final = 2000

_NUMBER = re.compile(r"0|[1-9][0-9]{0,17}")


class Position(NamedTuple):
    """A kind, and the place as text; of `start` the place is empty."""

    kind: str
    place: str = ""

    def __str__(self) -> str:
        return START if self.kind == START else f"{self.kind}:{self.place}"


def numbered(kind: str, number: int) -> str:
    """Return the position of a page or an offset."""
    return f"{kind}:{number}"


def at_token(token: object) -> str | None:
    """Return the position of a token; None where there is none. Numbers are as good as texts."""
    if token is None or token == "" or isinstance(token, bool) or not isinstance(token, str | int):
        return None
    return f"token:{token}"


def at_time(moment: datetime) -> str:
    """Return the position of a time."""
    return f"time:{spell(moment)}"


def spell(moment: datetime) -> str:
    """Write a time in UTC, with fractions of a second only where there are some."""
    return moment.astimezone(UTC).replace(tzinfo=None).isoformat() + "Z"


def read(text: str) -> Position:
    """Read a position; ValueError if it is not canonical."""
    if text == START:
        return Position(START)
    kind, colon, place = text.partition(":")
    if not colon or kind not in KINDS or not place or len(text) > LONGEST:
        raise ValueError(f"{text[:80]!r} is no position")
    if kind in ("page", "offset") and not _NUMBER.fullmatch(place):
        raise ValueError(f"{text[:80]!r} is no position: expected a whole number")
    if kind == "time" and at_time(moment(place)) != text:
        raise ValueError(f"{text[:80]!r} is no position: expected a time in UTC")
    return Position(kind, place)


def moment(text: str) -> datetime:
    """Read a time with its offset; ValueError otherwise."""
    at = datetime.fromisoformat(text)
    if at.tzinfo is None:
        raise ValueError(f"{text[:80]!r} has no offset")
    return at.astimezone(UTC)
