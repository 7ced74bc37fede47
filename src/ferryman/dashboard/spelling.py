"""How values are spelled on pages."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

from markupsafe import Markup, escape

from ferryman.kernel.events import Event
from ferryman.tasks.rules.envelope import data

JUST_NOW = 1.0
SHOWN_MAX = 200_000
BRIEF = 160
NOTHING = "\N{EN DASH}"
_ID = re.compile(r"\b([0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12})\b")
_PART = re.compile(r"[^.:_-]*[.:_-]|[^.:_-]+")


def now() -> datetime:
    """Return the time by which pages say how long ago something was."""
    return datetime.now(UTC)


def exact(value: datetime) -> str:
    """Return a time to the millisecond, in UTC."""
    utc = value.astimezone(UTC)
    return f"{utc:%Y-%m-%d %H:%M:%S}.{utc.microsecond // 1000:03} UTC"


def clock(value: datetime) -> str:
    """Return the time of day to the millisecond, in UTC."""
    utc = value.astimezone(UTC)
    return f"{utc:%H:%M:%S}.{utc.microsecond // 1000:03}"


def length(value: timedelta | float | None) -> str:
    """Return a length of time in one or two units."""
    if value is None:
        return NOTHING
    seconds = value.total_seconds() if isinstance(value, timedelta) else float(value)
    if seconds < 0.9995:
        return f"{max(0.0, seconds) * 1000:.0f} ms"
    if seconds < 59.95:
        return f"{seconds:.1f} s" if seconds < 10 else f"{seconds:.0f} s"
    whole = round(seconds)
    for size, unit, smaller, below in ((86400, "d", 3600, "h"), (3600, "h", 60, "min"), (60, "min", 1, "s")):
        if whole >= size:
            rest = whole % size // smaller
            return f"{whole // size} {unit}" + (f" {rest} {below}" if rest else "")
    return f"{whole} s"


def ago(value: datetime, at: datetime | None = None) -> str:
    """Return how long ago a time was, or in how long it will be."""
    seconds = ((at or now()) - value).total_seconds()
    if abs(seconds) < JUST_NOW:
        return "now"
    told = _rough(abs(seconds))
    return f"{told} ago" if seconds > 0 else f"in {told}"


def _rough(seconds: float) -> str:
    for size, unit in ((86400, "d"), (3600, "h"), (60, "min")):
        if seconds >= size:
            return f"{seconds / size:.0f} {unit}"
    return f"{seconds:.0f} s"


def when(value: datetime | str | None) -> Markup:
    """Return a time as an element: how long ago in the text, exactly in the title."""
    if isinstance(value, str):
        value = datetime.fromisoformat(value)
    if value is None:
        return Markup('<span class="none">{}</span>').format(NOTHING)
    return Markup('<time datetime="{}" title="{}">{}</time>').format(
        value.astimezone(UTC).isoformat(), exact(value), ago(value)
    )


def number(value: float | None) -> str:
    """Return a number with its thousands apart; a narrow space keeps it in one piece."""
    if value is None:
        return NOTHING
    if not float(value).is_integer():
        return f"{value:,.1f}".replace(",", "\u202f")
    return f"{int(value):,}".replace(",", "\u202f")


def short(value: object) -> str:
    """Return the end of an id, which tells two of one minute apart; a name is kept whole up to a length."""
    text = str(value)
    if len(text) == 36 and text.count("-") == 4:
        return f"…{text[-8:]}"
    return text if len(text) <= 40 else f"{text[:24]}…{text[-12:]}"


def pretty(value: str | None) -> str:
    """Return JSON text with its structure visible; text that is no JSON stays as it is."""
    if value is None:
        return ""
    if len(value) > SHOWN_MAX:
        return value[:SHOWN_MAX] + "\n… (the rest is left out; the API gives all)"
    try:
        return json.dumps(json.loads(value), indent=2, ensure_ascii=False)
    except (ValueError, RecursionError):  # another program may have stored it deeper than we would
        return value


def brief(value: str) -> str:
    """Return the beginning of a text, in one line."""
    text = " ".join(value[: 2 * BRIEF].split())
    return text if len(text) <= BRIEF else f"{text[:BRIEF]}…"


def plain(value: Any) -> str:
    """Return any value as indented JSON text."""
    return json.dumps(value, indent=2, ensure_ascii=False, default=str)


def words(value: str) -> str:
    """Return a name of ours as words."""
    return value.replace("_", " ")


def parted(name: str) -> Markup:
    """Return a name that may be broken after its parts, where a line is too short for it."""
    return Markup("<wbr>").join(escape(part) for part in _PART.findall(name))


def ticked(value: str) -> Markup:
    """Return a sentence of our own whose `words` in ticks are code."""
    parts = value.split("`")
    return Markup("").join(
        Markup("<code>{}</code>").format(part) if n % 2 else escape(part) for n, part in enumerate(parts)
    )


def linked(value: str) -> Markup:
    """Return a sentence whose ids lead to what they name."""
    parts = _ID.split(value)
    return Markup("").join(
        Markup('<a class="id" href="/search?q={}" title="{}">{}</a>').format(part, part, short(part))
        if n % 2
        else escape(part)
        for n, part in enumerate(parts)
    )


def happened(event: Event) -> str:
    """Return what an event tells, in a few words."""
    if event.from_state:
        return f"{words(event.from_state)} \N{RIGHTWARDS ARROW} {words(event.to_state or '')}"
    if event.to_state:
        return f"created, {words(event.to_state)}"
    said = data(event)
    if "fire_times" not in said:
        return "changed" if "changed" in said else brief(event.data or event.kind)
    lost = ", ".join(f"{said[word]} {word}" for word in ("missed", "skipped") if said.get(word))
    return f"fired {len(said['fire_times'])}" + (f" ({lost})" if lost else "")


FILTERS: Mapping[str, Callable[..., Any]] = {
    "when": when, "exact": exact, "clock": clock, "took": length, "brief": brief,
    "number": number, "short": short, "pretty": pretty, "plain": plain,
    "words": words, "happened": happened, "linked": linked, "ticked": ticked, "parted": parted,
}  # fmt: skip
