"""The identity of an event: its number in the log and a token of its row (K10).

The number alone does not identify an event. When a standby is promoted, or a backup is restored, the log continues from an
earlier number, and later events get numbers that other events had before. A receiver that remembers numbers would drop them.

The token is the time at which the row was written (`logged_at`, in microseconds since 1970). It survives dump, restore and
replication, and an event that is written again after history went back has another one.
"""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from typing import Final, NamedTuple

NUMBER_MAX: Final = 2**63 - 1
PATTERN: Final = r"(?:evt_)?([0-9]{1,19})(?:-([0-9a-f]{1,14}))?"
_TEXT: Final = re.compile(PATTERN)
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND: Final = timedelta(microseconds=1)


class EventId(NamedTuple):
    """Identifies one event, as in `5263-654c08dd3a1c0`. Without a token it is a plain number, which any history may have."""

    number: int
    token: int | None = None

    @classmethod
    def parse(cls, text: str) -> EventId | None:
        """Read an identity or a plain number, with or without `evt_`; None if the text is neither."""
        found = _TEXT.fullmatch(text)
        if found is None or int(found[1]) > NUMBER_MAX:
            return None
        return cls(int(found[1]), None if found[2] is None else int(found[2], 16))

    @property
    def logged_at(self) -> datetime | None:
        """When the event was written; None for a plain number."""
        return None if self.token is None else _EPOCH + self.token * _MICROSECOND

    @property
    def name(self) -> str:
        """The identity as envelopes, webhooks and messages carry it."""
        return f"evt_{self.number}" if self.token is None else name(self.number, self.token)

    def __str__(self) -> str:
        return f"{self.number}" if self.token is None else f"{self.number}-{self.token:x}"


def name(number: int, token: int) -> str:
    """Return the identity of an event as envelopes, webhooks and messages carry it."""
    return f"evt_{number}-{token:x}"
