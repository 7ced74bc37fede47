"""A REST source as data: what its answers look like and how its pages follow each other, checked when it is declared (I14)."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any, Final, TypeAlias
from urllib.parse import urlsplit

from ferryman.ingest.rules.path import Path, compile_path
from ferryman.kernel import duration, errors

KINDS: Final = ("PAGE", "OFFSET", "TOKEN", "URL", "TIME")
FORMATS: Final = ("iso", "date", "epoch", "epoch_ms")
PARAMS: Final = {"PAGE": "page", "OFFSET": "offset", "TOKEN": "cursor", "URL": "", "TIME": "since"}
MEGABYTE: Final = 1024 * 1024
BODY_LIMIT: Final = 16 * MEGABYTE
BODY_LIMIT_MAX: Final = 256 * MEGABYTE
TIMEOUT: Final = timedelta(seconds=30)
TIMEOUT_MAX: Final = timedelta(seconds=120)
SIZE_MAX: Final = 100_000

_HEADER_NAME = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]{1,100}")
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,199}")


@dataclass(frozen=True, slots=True)
class Header:
    """A header of the answer."""

    name: str


@dataclass(frozen=True, slots=True)
class Link:
    """The address that the header `Link` gives for a relation, such as `next`."""

    rel: str


Where: TypeAlias = Path | Header | Link


@dataclass(frozen=True, slots=True)
class Paging:
    """How pages follow each other."""

    kind: str
    param: str
    size: int | None = None
    size_param: str | None = None
    first: int = 1
    next: Where | None = None
    has_next: Path | None = None
    total: Path | None = None
    pages: Path | None = None
    empty_max: int = 10


@dataclass(frozen=True, slots=True)
class Span:
    """The parameters that carry the window, and how its times are written."""

    since: str | None = None
    until: str | None = None
    format: str = "iso"


@dataclass(frozen=True, slots=True)
class Auth:
    """A secret of the environment, sent in a header or in the query; `form` is the text around it."""

    env: str
    header: str | None = None
    query: str | None = None
    form: str = "{}"


@dataclass(frozen=True, slots=True)
class Rest:
    """One REST source."""

    url: str
    items: Path
    paging: Paging | None = None
    window: Span | None = None
    bounds: Mapping[str, str] = field(default_factory=dict)
    updated_at: Path | None = None
    auth: Auth | None = None
    params: Mapping[str, str] = field(default_factory=dict)
    headers: Mapping[str, str] = field(default_factory=dict)
    retry_on: frozenset[int] = frozenset()
    timeout: timedelta = TIMEOUT
    body_limit: int = BODY_LIMIT


def read(given: Mapping[str, Any]) -> Rest:
    """Check the declaration of a source; what cannot be meant is refused with the field's name."""
    _refuse_unknown(given, Rest.__dataclass_fields__, "")
    updated_at = given.get("updated_at")
    paging = _paging(given.get("paging"))
    if paging is not None and paging.kind == "TIME" and updated_at is None:
        raise refusal("updated_at", "the path of an item's time, which paging by TIME needs", None)
    return Rest(
        url=_url(given.get("url")),
        items=compile_path(given.get("items", "$"), "items"),
        paging=paging,
        window=_span(given.get("window")),
        bounds=_bounds(given.get("bounds")),
        updated_at=None if updated_at is None else compile_path(updated_at, "updated_at"),
        auth=_auth(given.get("auth")),
        params=_texts(given.get("params", {}), "params"),
        headers=_texts(given.get("headers", {}), "headers", name=_HEADER_NAME),
        retry_on=_statuses(given.get("retry_on", ())),
        timeout=_timeout(given.get("timeout", TIMEOUT)),
        body_limit=_whole(given.get("body_limit", BODY_LIMIT), "body_limit", most=BODY_LIMIT_MAX),
    )


def _url(given: object) -> str:
    expected = "an address such as https://api.example.com/v1/{endpoint}"
    if not isinstance(given, str):
        raise refusal("url", expected, given)
    try:
        parts = urlsplit(given)
        sound = parts.scheme in ("http", "https") and parts.hostname and parts.port != 0
    except ValueError:
        sound = False
    if not sound or any(ord(each) <= 32 for each in given) or set(re.findall(r"\{[^}]*\}?", given)) - {"{endpoint}"}:
        raise refusal("url", expected, given)
    if parts.username is not None or parts.password is not None:
        raise errors.IngestInvalidSource(
            "url: a password does not belong into the address; name it under auth.", field="url"
        )
    return given


def _paging(given: object) -> Paging | None:
    if given is None:
        return None
    held = _object(given, "paging", Paging.__dataclass_fields__)
    kind = held.get("kind")
    if not isinstance(kind, str) or kind.upper() not in KINDS:
        raise refusal("paging.kind", f"one of {', '.join(KINDS)}", kind)
    kind = kind.upper()
    if kind in ("TOKEN", "URL") and held.get("next") is None:
        raise refusal("paging.next", f"where the answer holds the next page, which paging by {kind} needs", None)
    if kind == "TIME" and held.get("size") is None and held.get("has_next") is None:
        raise refusal("paging.size", "the size of a page, or has_next, which paging by TIME needs to end", None)
    paths = {
        name: compile_path(held[name], f"paging.{name}") if held.get(name) is not None else None
        for name in ("has_next", "total", "pages")
    }
    return Paging(
        kind=kind,
        param=_name(held.get("param", PARAMS[kind]), "paging.param") if kind != "URL" else "",
        size=None if held.get("size") is None else _whole(held["size"], "paging.size", most=SIZE_MAX),
        size_param=None if held.get("size_param") is None else _name(held["size_param"], "paging.size_param"),
        first=_whole(held.get("first", 1), "paging.first", least=0, most=1),
        next=None if held.get("next") is None else _where(held["next"], "paging.next"),
        empty_max=_whole(held.get("empty_max", 10), "paging.empty_max", most=1_000_000),
        **paths,
    )


def _where(given: object, field: str) -> Where:
    """Read a path, `header:Name` or `link:rel`."""
    if isinstance(given, str):
        kind, colon, rest = given.partition(":")
        if colon and kind == "link" and rest.isalpha():
            return Link(rest)
        if colon and kind == "header":
            if not _HEADER_NAME.fullmatch(rest):
                raise refusal(field, "the name of a header behind header:", given)
            return Header(rest)
    return compile_path(given, field)


def _span(given: object) -> Span | None:
    if given is None:
        return None
    held = _object(given, "window", Span.__dataclass_fields__)
    form = held.get("format", "iso")
    if form not in FORMATS:
        raise refusal("window.format", f"one of {', '.join(FORMATS)}", form)
    if held.get("since") is None and held.get("until") is None:
        raise refusal("window", "the name of a parameter under since, until or both", given)
    ends = {
        name: None if held.get(name) is None else _name(held[name], f"window.{name}") for name in ("since", "until")
    }
    return Span(**ends, format=form)


def _bounds(given: object) -> dict[str, str]:
    """Read under which names the ends of a slice of ids, or of landmarks, go out."""
    held = {} if given is None else _object(given, "bounds", dict.fromkeys(("from", "to")))
    return {end: _name(name, f"bounds.{end}") for end, name in held.items()}


def _auth(given: object) -> Auth | None:
    if given is None:
        return None
    held = _object(given, "auth", Auth.__dataclass_fields__)
    if not isinstance(held.get("env"), str) or not _VARIABLE.fullmatch(held["env"]):
        # What stands there may be the secret itself: it is not shown.
        raise errors.IngestInvalidSource(
            "auth.env: expected the name of an environment variable that holds the secret.", field="auth.env"
        )
    header, query, form = held.get("header"), held.get("query"), held.get("form", "{}")
    if (header is None) == (query is None):
        raise refusal("auth", "either a header or a query parameter", sorted(held))
    if header is not None and (not isinstance(header, str) or not _HEADER_NAME.fullmatch(header)):
        raise refusal("auth.header", "the name of a header", header)
    if not isinstance(form, str) or form.count("{}") != 1:
        raise errors.IngestInvalidSource(
            'auth.form: expected a text with one {}, such as "Bearer {}".', field="auth.form"
        )
    return Auth(held["env"], header, None if query is None else _name(query, "auth.query"), form)


def _object(given: object, field: str, known: Mapping[str, Any]) -> Mapping[str, Any]:
    if not isinstance(given, Mapping):
        raise refusal(field, "an object", given)
    _refuse_unknown(given, known, f"{field}.")
    return given


def _refuse_unknown(given: Mapping[str, Any], known: Mapping[str, Any], prefix: str) -> None:
    for key in given:
        if key not in known:
            raise errors.IngestInvalidSource(
                f"{prefix}{str(key)[:60]}: there is no such field; known are {', '.join(known)}.",
                field=f"{prefix}{key}",
            )


def _texts(given: object, field: str, name: re.Pattern[str] | None = None) -> dict[str, str]:
    if not isinstance(given, Mapping):
        raise refusal(field, "names and values", given)
    texts = {}
    for key, value in given.items():
        if isinstance(value, bool) or not isinstance(value, str | int | float):
            raise refusal(f"{field}.{str(key)[:60]}", "a text or a number", value)
        text = str(value)
        if any(sign in text for sign in "\r\n\0") or (name is not None and not name.fullmatch(str(key))):
            raise refusal(f"{field}.{str(key)[:60]}", "a text of one line", value)
        texts[_name(key, field)] = text
    return texts


def _statuses(given: object) -> frozenset[int]:
    if isinstance(given, str) or not isinstance(given, Sequence | frozenset | set):
        raise refusal("retry_on", "a list of statuses from 400 to 499", given)
    return frozenset(_whole(each, "retry_on", least=400, most=499) for each in given)


def _timeout(given: object) -> timedelta:
    try:
        length = duration.parse(given)
    except ValueError as wrong:
        raise refusal("timeout", str(wrong), given) from None
    if not timedelta(0) < length <= TIMEOUT_MAX:
        raise refusal("timeout", f"above 0 and at most {duration.show(TIMEOUT_MAX)}", given)
    return length


def _name(given: object, field: str) -> str:
    if not isinstance(given, str) or not 1 <= len(given) <= 200 or not given.isprintable():
        raise refusal(field, "the name of a parameter", given)
    return given


def _whole(given: object, field: str, *, least: int = 1, most: int) -> int:
    if isinstance(given, float) and math.isfinite(given) and given == int(given):
        given = int(given)
    if isinstance(given, bool) or not isinstance(given, int) or not least <= given <= most:
        raise refusal(field, f"a whole number from {least} to {most}", given)
    return given


def refusal(field: str, expected: str, got: object) -> errors.IngestInvalidSource:
    """Return the error that says what was expected and what was got."""
    told = "nothing" if got is None else ascii(got)[:60]
    return errors.IngestInvalidSource(f"{field}: expected {expected}, got {told}.", field=field)
