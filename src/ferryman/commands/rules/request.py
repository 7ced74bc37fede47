"""What may be asked for: every field of a send, a message and a result from outside, checked before anything is stored."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta
from typing import Any
from uuid import UUID

from ferryman.commands.model import CommandRecord, NewCommand
from ferryman.kernel import errors, ids

# A type is also the name of a handler, behind a prefix.
TYPE_LONGEST = 180
SECONDS_MAX = 10 * 365 * 24 * 3600
PERCENT_MAX = 100
FIELDS = ("command_type", "payload", "session_id", "idempotency_key", "scope", "deadline_seconds")
_SHOWN = 60


def refusal(message: str, field: str) -> errors.CommandInvalidRequest:
    """Make the refusal of a field."""
    return errors.CommandInvalidRequest(f"{field}: {message}.", field=field)


def fields(asked: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return a request in the form of the source if every field of it is known."""
    for name in asked:
        if name not in FIELDS:
            raise refusal(f"is not known here; expected {', '.join(FIELDS)}", str(name)[:_SHOWN])
    return asked


def check_type(given: object, field: str) -> str:
    """Return a type if it is one: segments of plain characters, with dots between them."""
    expected = f"expected 1 to {TYPE_LONGEST} characters of letters, digits, _ - and single dots between segments"
    if not isinstance(given, str) or len(given) > TYPE_LONGEST or ":" in given or not all(given.split(".")):
        raise refusal(f"{expected}, got {shown(given)}", field)
    try:
        return ids.check_name(given, field)
    except errors.TaskInvalidRequest:
        raise refusal(f"{expected}, got {shown(given)}", field) from None


def check_id(given: object, field: str) -> UUID:
    """Return an id of ours, given as such or as text."""
    if isinstance(given, UUID):
        return given
    try:
        return UUID(given)  # type: ignore[arg-type]  # whatever it is, it is refused
    except (ValueError, AttributeError, TypeError):
        raise refusal(f"expected the UUID of a command or a task of ours, got {shown(given)}", field) from None


def check_key(given: object, field: str) -> str | None:
    """Return a key or a session's id, if there is one."""
    if given is None:
        return None
    try:
        return ids.check_key(str(given) if isinstance(given, UUID) else given, field)
    except errors.TaskInvalidRequest as error:
        raise errors.CommandInvalidRequest(error.message, field=field) from None


def seconds(given: Any, field: str, *, zero: bool = False) -> float | None:
    """Return a length of time, a timedelta or seconds, as seconds."""
    if given is None:
        return None
    number = given.total_seconds() if isinstance(given, timedelta) else given
    known = isinstance(number, int | float) and not isinstance(number, bool)
    if not known or not (number >= 0 if zero else number > 0) or number > SECONDS_MAX:
        raise refusal(f"expected {'0' if zero else 'more than 0'} to {SECONDS_MAX} seconds, got {shown(given)}", field)
    return float(number)


def percent(given: Any) -> float:
    """Return how far something is."""
    if isinstance(given, bool) or not isinstance(given, int | float) or not 0 <= given <= PERCENT_MAX:
        raise refusal(f"expected 0 to {PERCENT_MAX}, got {shown(given)}", "progress")
    return float(given)


def reason(given: object) -> str | None:
    """Return why somebody cancels."""
    if given is not None and not isinstance(given, str):
        raise refusal(f"expected text, got {shown(given)}", "reason")
    return given


def conflicts(asked: NewCommand, existing: CommandRecord) -> list[str]:
    """Name the compared fields in which a send differs from the command it met (K11): its type and its session."""
    return [field for field in ("command_type", "session_id") if getattr(asked, field) != getattr(existing, field)]


def shown(value: object) -> str:
    """Return how a value that is refused is shown."""
    text = ascii(value)
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}…"
