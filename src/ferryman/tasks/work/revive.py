"""What is remembered as JSON, as its function said it would return it.

A remembered value must be the same at each replay and the first time too: so what a step returns is always made from the
stored text, checked against the return hint of its function. Without a hint, and for the plain types of JSON, the text is read
as it is.
"""

from __future__ import annotations

import functools
import typing
from collections.abc import Callable
from typing import Any

from ferryman.kernel import payload

PLAIN = (Any, None, type(None), str, int, float, bool, dict, list, object)


def revived(function: Any, text: str | None) -> Any:
    """Return the value that a function's stored result stands for."""
    if text is None:
        return None
    read = _reader(function) if "return" in getattr(function, "__annotations__", ()) else None
    return payload.decode(text) if read is None else read(text)


@functools.lru_cache(maxsize=1000)
def _reader(function: Any) -> Callable[[str], Any] | None:
    """Return how to read what a function returned, or None where that is plain JSON."""
    try:
        hint = typing.get_type_hints(function, include_extras=True).get("return", Any)
    except (NameError, TypeError):  # a hint that cannot be resolved here says nothing
        return None
    if _plain(hint):
        return None
    import pydantic

    return pydantic.TypeAdapter(hint).validate_json


def _plain(hint: Any) -> bool:
    if any(hint is each for each in PLAIN):
        return True
    return typing.get_origin(hint) in (dict, list) and all(_plain(each) for each in typing.get_args(hint))
