"""What is asked of a source: parameters of its requests, in which places stand for the bounds of a slice.

    {"query": "updated:[{since} TO {until}]", "fields": ["id", "name"]}

A text alone is the parameter `query`. Places are since and until (of a slice of time), first and last (of a slice of ids),
from and to (of any). An expression is compiled when a plan is made, for every slice: what cannot be asked is told then.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from string import Formatter
from typing import Any, TypeAlias

from ferryman.ingest.model import Cut
from ferryman.ingest.rules import keys

PLACES = {
    "time": ("since", "until", "from", "to"),
    "id": ("first", "last", "from", "to"),
    "landmark": ("from", "to"),
}
# A name, and what it stands in: put together only to be told, since one long name may have many parts.
Where: TypeAlias = "tuple[Where, Any] | None"
_ALL = sorted({place for places in PLACES.values() for place in places})


class DoesNotCompile(ValueError):
    """This expression cannot be asked."""


def read(expression: Any) -> dict[str, Any]:
    """Return an expression in its one form; nothing given asks for everything."""
    if expression is None:
        return {}
    if isinstance(expression, str):
        expression = {"query": expression}
    if not isinstance(expression, Mapping) or not all(isinstance(name, str) and name for name in expression):
        raise DoesNotCompile(f"expected a text or parameters by name, got {type(expression).__name__}")
    for where, place in _places(expression):
        if place not in _ALL:
            raise DoesNotCompile(f"{_told(where)}: there is no place {{{place}}}; there are {', '.join(_ALL)}")
    return dict(expression)


def hashed(expression: Mapping[str, Any]) -> str:
    """Return its key."""
    return keys.digest("expression", dict(expression))


def render(expression: Mapping[str, Any], cut: Cut) -> dict[str, Any]:
    """Return the parameters of a slice's requests."""
    known = dict(zip(PLACES[cut.dimension], [cut.first, cut.last] * 2, strict=False))
    for where, place in _places(expression):
        if place not in known:
            raise DoesNotCompile(f"{_told(where)}: this slice has no {{{place}}}; it has {', '.join(known)}")
    return {name: _filled(value, known) for name, value in expression.items()}


def _filled(value: Any, known: Mapping[str, Any]) -> Any:
    if isinstance(value, str):
        return value.format_map(known)
    if isinstance(value, Mapping):
        return {inner: _filled(each, known) for inner, each in value.items()}
    if isinstance(value, list | tuple):
        return [_filled(each, known) for each in value]
    return value


def _places(value: Any, where: Where = None) -> Iterator[tuple[Where, str]]:
    """Give each place of a value, and where it stands."""
    if isinstance(value, str):
        try:
            parts = list(Formatter().parse(value))
        except ValueError as wrong:
            raise DoesNotCompile(f"{_told(where)}: {wrong}; write {{{{ for a brace") from None
        if any(spec or conversion for _, _, spec, conversion in parts):
            raise DoesNotCompile(f"{_told(where)}: a place is its name alone, such as {{since}}")
        yield from ((where, place) for _, place, _, _ in parts if place is not None)
    elif isinstance(value, Mapping):
        for inner, each in value.items():
            yield from _places(each, (where, inner))
    elif isinstance(value, list | tuple):
        for each in value:
            yield from _places(each, where)


def _told(where: Where) -> str:
    names = []
    while where is not None:
        where, name = where
        names.append(str(name))
    return ".".join(reversed(names))
