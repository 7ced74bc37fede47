"""What an examination says: one reading per thing looked at."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from enum import StrEnum
from typing import Any
from uuid import UUID


class Verdict(StrEnum):
    """How a thing was found."""

    GOOD = "good"
    NOTE = "note"  # worth knowing, nothing to do
    BAD = "bad"  # a finding: somebody should do something


GOOD, NOTE, BAD = Verdict.GOOD, Verdict.NOTE, Verdict.BAD


@dataclass(frozen=True)
class Reading:
    """One thing looked at: how it was found, in a sentence, and what to do about it."""

    name: str
    verdict: Verdict
    says: str
    advice: str = ""
    details: Sequence[Mapping[str, Any]] = ()

    def as_dict(self) -> dict[str, Any]:
        """Return what a program reads."""
        return {
            "name": self.name,
            "verdict": self.verdict.value,
            "says": self.says,
            "advice": self.advice,
            "details": [{key: plain(value) for key, value in row.items()} for row in self.details],
        }


@dataclass(frozen=True)
class Report:
    """All readings of one examination."""

    readings: tuple[Reading, ...]
    reachable: bool = True
    live: Sequence[Mapping[str, Any]] = field(default=())  # every live object, when asked for

    @property
    def findings(self) -> list[Reading]:
        """Those that somebody should do something about."""
        return [each for each in self.readings if each.verdict is BAD]

    @property
    def healthy(self) -> bool:
        """Whether there is nothing to do."""
        return not self.findings

    def as_dict(self) -> dict[str, Any]:
        """Return what a program reads."""
        told: dict[str, Any] = {
            "healthy": self.healthy,
            "reachable": self.reachable,
            "readings": [each.as_dict() for each in self.readings],
        }
        if self.live:
            told["live"] = [{key: plain(value) for key, value in row.items()} for row in self.live]
        return told


def plain(value: Any) -> Any:
    """Return a value as JSON can hold it."""
    if isinstance(value, datetime):
        return value.astimezone(UTC).isoformat().replace("+00:00", "Z")
    if isinstance(value, UUID):
        return str(value)
    if isinstance(value, tuple | set | frozenset):
        return [plain(each) for each in value]
    return value


PLURALS = {"batch": "batches", "delivery": "deliveries"}


def several(noun: str) -> str:
    """Return the plural of a noun."""
    return PLURALS.get(noun, f"{noun}s")


def counted(number: int, noun: str) -> str:
    """Return so many of something."""
    return f"{number} {noun if number == 1 else several(noun)}"
