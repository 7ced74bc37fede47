"""Which page is asked for, and which one follows (I14).

Whether there is a next page is told, first wins, by an explicit flag, by a token or an address, by a total, and else by a page
that is full: then there may be more.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from ferryman.ingest.rules import position
from ferryman.ingest.rules.path import MISSING
from ferryman.ingest.rules.rest import Header, Link, Paging, Rest, Span, Where
from ferryman.ingest.window import START, Window

_LINK = re.compile(r"<([^<>]*)>((?:\s*;\s*[^,;\s=]+\s*=(?:\s*(?:\"[^\"]*\"|[^\",;\s][^,;\s]*))?)*)")
_REL = re.compile(r";\s*rel\s*=\s*(?:\"([^\"]*)\"|([^,;\s]*))", re.IGNORECASE)
# What a slice says of itself, whatever it is cut by.
BOUNDS = ("from", "to")
_MILLISECONDS_FROM = 100_000_000_000
_WORDS = {"true": True, "false": False, "yes": True, "no": False, "1": True, "0": False}


class Broken(ValueError):
    """The answer does not have the shape that was declared."""


def query(rest: Rest, at: position.Position, window: Window | None, params: Mapping[str, Any]) -> dict[str, str]:
    """Return the parameters of a request; an address as position brings its own.

    The bounds of a slice go out under the names declared for them, or not at all.
    """
    named = {name: rest.bounds.get(name) if name in BOUNDS else name for name in params}
    asked = dict(rest.params)
    asked |= {
        name: text for key, name in named.items() if name is not None and (text := _text(params[key])) is not None
    }
    if window is not None and rest.window is not None:
        asked |= _bounds(rest.window, window)
    paging = rest.paging
    if paging is None:
        return asked
    if paging.size_param is not None and paging.size is not None:
        asked[paging.size_param] = str(paging.size)
    if at.kind == "time":
        asked[paging.param] = write(position.moment(at.place), rest.window.format if rest.window else "iso")
    elif at.kind != START:
        asked[paging.param] = at.place
    elif paging.kind == "PAGE":
        asked[paging.param] = str(paging.first)
    return asked


def follow(
    rest: Rest, at: position.Position, body: Any, headers: Mapping[str, str], items: Sequence[Any]
) -> str | None:
    """Return the position of the next page, or None at the end; an address is returned as it was given."""
    paging = rest.paging
    if paging is None:
        return None
    flag = _flag(paging, body)
    if flag is False:
        return None
    match paging.kind:
        case "TOKEN" | "URL":
            return _named(paging, body, headers, flag=flag)
        case "TIME":
            return _later(rest, items) if flag or _full(paging, items) else None
        case "PAGE":
            number = int(at.place) if at.kind == "page" else paging.first
            more = flag or _more(
                paging, body, items, upto=(number - paging.first + 1) * (paging.size or 0), page=number
            )
            return position.numbered("page", number + 1) if more else None
        case _:
            upto = (int(at.place) if at.kind == "offset" else 0) + len(items)
            return position.numbered("offset", upto) if flag or _more(paging, body, items, upto=upto, page=0) else None


def watermark(rest: Rest, items: Sequence[Any], window: Window | None) -> datetime | None:
    """Return the latest time of the items, within the window: a clock over there that jumps must not carry ours along."""
    if rest.updated_at is None:
        return None
    times = [at for item in items if (at := moment(rest.updated_at.read(item))) is not None]
    if not times:
        return None
    latest = max(times)
    return latest if window is None else max(window.since, min(latest, window.until))


def moment(value: Any) -> datetime | None:
    """Read a time of an item: a text (without offset it is UTC) or a number since 1970; None for anything else."""
    try:
        if isinstance(value, str):
            at = datetime.fromisoformat(value)
            return at.replace(tzinfo=UTC) if at.tzinfo is None else at.astimezone(UTC)
        if isinstance(value, int | float) and not isinstance(value, bool):
            return datetime.fromtimestamp(value / 1000 if abs(value) >= _MILLISECONDS_FROM else value, tz=UTC)
    except (ValueError, OverflowError, OSError):
        return None
    return None


def write(at: datetime, form: str) -> str:
    """Write a time as a source wants it."""
    match form:
        case "date":
            return at.astimezone(UTC).date().isoformat()
        case "epoch":
            return str(int(at.timestamp()))
        case "epoch_ms":
            return str(int(at.timestamp() * 1000))
        case _:
            return position.spell(at)


def _bounds(span: Span, window: Window) -> dict[str, str]:
    ends = ((span.since, window.since), (span.until, window.until))
    return {name: write(at, span.format) for name, at in ends if name is not None}


def _flag(paging: Paging, body: Any) -> bool | None:
    """Read an explicit word about a next page; None if there is none."""
    if paging.has_next is None:
        return None
    said = paging.has_next.read(body)
    if isinstance(said, bool):
        return said
    if said is MISSING or said is None:
        return None
    told = _WORDS.get(str(said).lower())
    if told is None:
        raise Broken(f"{paging.has_next}: expected true or false, got {ascii(said)[:60]}")
    return told


def _named(paging: Paging, body: Any, headers: Mapping[str, str], *, flag: bool | None) -> str | None:
    found = _find(paging.next, body, headers)
    text = position.at_token(found)
    if paging.kind == "URL":
        text = found if isinstance(found, str) and found else None
    if text is None and found is not MISSING and found not in (None, "", False):
        raise Broken(f"{paging.next}: expected a token, got {ascii(found)[:60]}")
    if text is None and flag:
        raise Broken(f"{paging.has_next} says that there is more, and there is nothing at {paging.next}")
    return text


def _find(where: Where | None, body: Any, headers: Mapping[str, str]) -> Any:
    match where:
        case Header(name=name):
            return next((value for key, value in headers.items() if key.lower() == name.lower()), MISSING)
        case Link(rel=rel):
            text = next((value for key, value in headers.items() if key.lower() == "link"), "")
            return linked(text, rel)
        case None:
            return MISSING
        case path:
            return path.read(body)


def linked(header: str, rel: str) -> Any:
    """Return the address that a header `Link` gives for a relation, or MISSING."""
    for found in _LINK.finditer(header):
        named = _REL.search(found[2])
        if named is not None and rel in (named[1] or named[2] or "").lower().split():
            return found[1]
    return MISSING


def _more(paging: Paging, body: Any, items: Sequence[Any], *, upto: int, page: int) -> bool:
    """Say whether more may follow, by a total or by a page that is full."""
    if not items:
        return False
    pages = None if paging.pages is None else _number(paging.pages.read(body))
    if pages is not None:
        return page - paging.first + 1 < pages
    total = None if paging.total is None else _number(paging.total.read(body))
    if total is not None and (paging.size is not None or paging.kind == "OFFSET"):
        return upto < total
    return _full(paging, items)


def _full(paging: Paging, items: Sequence[Any]) -> bool:
    return bool(items) and (paging.size is None or len(items) >= paging.size)


def _number(value: Any) -> int | None:
    if isinstance(value, str) and value.isascii() and value.isdigit() and len(value) < 19:
        return int(value)
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def _later(rest: Rest, items: Sequence[Any]) -> str | None:
    latest = watermark(rest, items, None)
    if latest is None:
        raise Broken(f"no item has a time at {rest.updated_at}, and pages follow each other by it")
    return position.at_time(latest)


def _text(value: Any) -> str | None:
    """Write a parameter: several values are separated by commas; what has no such form is left out."""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, list | tuple):
        return ",".join(str(_text(each)) for each in value)
    return str(value) if isinstance(value, str | int | float) else None
