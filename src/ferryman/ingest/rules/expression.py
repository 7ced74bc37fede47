"""What is asked of a source: parameters of its requests, in which places stand for the bounds of a slice.

    {"query": "updated:[{since} TO {until}]", "fields": ["id", "name"]}

A text alone is the parameter `query`. Places are since and until (of a slice of time), first and last (of a slice of ids),
from and to (of any). An expression is compiled when a plan is made, for every slice: what cannot be asked is told then.
"""

from __future__ import annotations

from collections.abc import Mapping
from string import Formatter
from typing import Any

from ferryman.ingest.model import Cut
from ferryman.ingest.rules import keys

PLACES = {
    "time": ("since", "until", "from", "to"),
    "id": ("first", "last", "from", "to"),
    "landmark": ("from", "to"),
}
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
    for name, value in expression.items():
        for place in _places(name, value):
            if place not in _ALL:
                raise DoesNotCompile(f"{name}: there is no place {{{place}}}; there are {', '.join(_ALL)}")
    return dict(expression)


def hashed(expression: Mapping[str, Any]) -> str:
    """Return its key."""
    return keys.digest("expression", dict(expression))


def render(expression: Mapping[str, Any], cut: Cut) -> dict[str, Any]:
    """Return the parameters of a slice's requests."""
    known = dict(zip(PLACES[cut.dimension], [cut.first, cut.last] * 2, strict=False))
    return {name: _filled(name, value, known) for name, value in expression.items()}


def _filled(name: str, value: Any, known: Mapping[str, Any]) -> Any:
    if isinstance(value, str):
        missing = [place for place in _places(name, value) if place not in known]
        if missing:
            raise DoesNotCompile(f"{name}: this slice has no {{{missing[0]}}}; it has {', '.join(known)}")
        return value.format_map(known)
    if isinstance(value, Mapping):
        return {inner: _filled(f"{name}.{inner}", each, known) for inner, each in value.items()}
    if isinstance(value, list | tuple):
        return [_filled(name, each, known) for each in value]
    return value


def _places(name: str, value: Any) -> list[str]:
    if isinstance(value, str):
        try:
            parts = list(Formatter().parse(value))
        except ValueError as wrong:
            raise DoesNotCompile(f"{name}: {wrong}; write {{{{ for a brace") from None
        if any(spec or conversion for _, _, spec, conversion in parts):
            raise DoesNotCompile(f"{name}: a place is its name alone, such as {{since}}")
        return [place for _, place, _, _ in parts if place is not None]
    if isinstance(value, Mapping):
        return [place for inner, each in value.items() for place in _places(f"{name}.{inner}", each)]
    if isinstance(value, list | tuple):
        return [place for each in value for place in _places(name, each)]
    return []
