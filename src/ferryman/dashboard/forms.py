"""What people type into forms, read as what doors take."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Annotated, Any
from urllib.parse import urlencode

from fastapi import Form, Query

from ferryman.kernel import errors, payload

Text = Annotated[str, Query(max_length=200)]
Back = Annotated[str, Form(alias="back", max_length=2000)]
Typed = Annotated[str, Form(max_length=1_000_000)]

PAGE = 50


def value(text: str, field: str) -> Any:
    """Return JSON where the text looks like it, else the text itself; None for nothing."""
    told = text.strip()
    if not told:
        return None
    looks = told[0] in '{["' or told in {"true", "false", "null"} or told.lstrip("-").replace(".", "", 1).isdigit()
    if not looks:
        return told
    try:
        return payload.decode(
            payload.check_text(told.encode(), error=errors.RequestInvalid), error=errors.RequestInvalid
        )
    except errors.RequestInvalid as wrong:
        raise errors.RequestInvalid(f"{field}: {wrong.message}", field=field) from None


def instant(text: str, field: str) -> datetime | None:
    """Return a time as a form gives it, in UTC unless it says otherwise; None for nothing."""
    told = text.strip()
    if not told:
        return None
    try:
        found = datetime.fromisoformat(told)
    except ValueError:
        raise errors.RequestInvalid(
            f"{field}: expected a time such as 2026-01-31T12:00, got {told[:40]!r}.", field=field
        ) from None
    return found if found.tzinfo is not None else found.replace(tzinfo=UTC)


def address(path: str, asked: dict[str, Any]) -> str:
    """Return the address of a list with these filters; those that are empty are left out."""
    query = urlencode({name: each for name, each in asked.items() if each})
    return f"{path}?{query}" if query else path


def tabs(path: str, asked: dict[str, Any], name: str, states: list[str]) -> list[tuple[str, str, str]]:
    """Return the tabs of a list, one for all and one for each state: the value, the label, the address."""
    found = [("", "All", address(path, {**asked, name: ""}))]
    return found + [(each, each.lower().capitalize(), address(path, {**asked, name: each})) for each in states]
