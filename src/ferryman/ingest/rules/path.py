"""Where something is in a JSON answer: a path of keys and places, compiled once (I14).

    data.items          key by key
    data.items[0].id    a place in a list; [-1] is the last
    data["odd.key"]     a key with any characters
    /data/items/0       the same as a JSON pointer (RFC 6901)
    $                   the whole answer

A path that leads nowhere is MISSING, which is not the same as a null.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

from ferryman.kernel import errors

LONGEST: Final = 500

_KEY = re.compile(r"[^\s.\[\]\"'/$][^\s.\[\]\"'/]*")
_PLACE = re.compile(r"\[(-?(?:0|[1-9][0-9]{0,8}))\]")
_QUOTED = re.compile(r'\[("(?:[^"\\]|\\.)*")\]')
_POINTED = re.compile(r"0|[1-9][0-9]{0,8}")
_ESCAPED = re.compile(r"~(?![01])")


class Missing:
    """What a path that leads nowhere gives."""

    def __repr__(self) -> str:
        return "MISSING"

    def __bool__(self) -> bool:
        return False


MISSING: Final = Missing()


@dataclass(frozen=True, slots=True)
class Path:
    """Keys and places, from the outside in. `loose` steps came from a pointer, where 0 may be a key or a place."""

    steps: tuple[str | int, ...]
    loose: bool = False

    def read(self, value: Any) -> Any:
        """Return what is there, or MISSING."""
        for step in self.steps:
            if isinstance(value, dict):
                value = value.get(step, MISSING) if isinstance(step, str) else MISSING
            elif isinstance(value, list):
                value = _place(value, step, loose=self.loose)
            else:
                return MISSING
            if value is MISSING:
                return MISSING
        return value

    def __str__(self) -> str:
        if self.loose:
            return "".join("/" + str(step).replace("~", "~0").replace("/", "~1") for step in self.steps)
        text = ""
        for step in self.steps:
            if isinstance(step, int):
                text += f"[{step}]"
            elif _KEY.fullmatch(step):
                text += f".{step}" if text else step
            else:
                text += f"[{json.dumps(step)}]"
        return text or "$"


class Unreadable(ValueError):
    """A text that is no path, and from which character on."""

    def __init__(self, at: int) -> None:
        super().__init__(at)
        self.at = at


def compile_path(text: object, field: str, error: type[errors.FerrymanError] = errors.IngestInvalidSource) -> Path:
    """Read a path, or say at which character it cannot be read."""
    if not isinstance(text, str) or not text or len(text) > LONGEST:
        raise error(f"{field}: expected a path such as data.items, got {ascii(text)[:60]}.", field=field)
    if text == "$":
        return Path(())
    try:
        return _pointer(text) if text.startswith("/") else _dotted(text)
    except Unreadable as wrong:
        there = ascii(text[wrong.at : wrong.at + 10])
        told = f"{field}: the path {ascii(text)[:200]} cannot be read at character {wrong.at + 1} ({there})."
        raise error(told, field=field, position=wrong.at) from None


def _dotted(text: str) -> Path:
    steps: list[str | int] = []
    at = 1 if text.startswith("$.") or text.startswith("$[") else 0
    while at < len(text):
        if place := _PLACE.match(text, at):
            steps.append(int(place[1]))
            at = place.end()
        elif quoted := _QUOTED.match(text, at):
            steps.append(_unquoted(quoted[1], at))
            at = quoted.end()
        else:
            # A key follows a dot; only the first stands alone.
            dot = 1 if text[at] == "." and at > 0 else 0
            key = _KEY.match(text, at + dot) if dot or at == 0 else None
            if key is None:
                raise Unreadable(at)
            steps.append(key[0])
            at = key.end()
    return Path(tuple(steps))


def _unquoted(quoted: str, at: int) -> str:
    try:
        return str(json.loads(quoted))
    except ValueError:
        raise Unreadable(at) from None


def _pointer(text: str) -> Path:
    wrong = _ESCAPED.search(text)
    if wrong is not None:
        raise Unreadable(wrong.start())
    parts: Sequence[str] = text[1:].split("/")
    return Path(tuple(part.replace("~1", "/").replace("~0", "~") for part in parts), loose=True)


def _place(value: list[Any], step: str | int, *, loose: bool) -> Any:
    if isinstance(step, str):
        if not loose or not _POINTED.fullmatch(step):
            return MISSING
        step = int(step)
    return value[step] if -len(value) <= step < len(value) else MISSING
