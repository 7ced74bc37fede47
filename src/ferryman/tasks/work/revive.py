"""What is remembered as JSON, as its function said it would return it.

A remembered value must be the same at each replay and the first time too: so what a step returns is always made from the
stored text, checked against the return hint of its function. Without a hint, and for the plain types of JSON, the text is read
as it is.
"""

from __future__ import annotations

import typing
from collections.abc import Callable
from typing import Any

from ferryman.kernel import payload

PLAIN = (Any, None, type(None), str, int, float, bool, dict, list, object)


Reader = Callable[[str], Any] | None
KNOWN_MAX = 1000


def revived(function: Any, text: str | None) -> Any:
    """Return the value that a function's stored result stands for."""
    if text is None:
        return None
    read = _readers(function) if "return" in getattr(function, "__annotations__", ()) else None
    return payload.decode(text) if read is None else read(text)


class Readers:
    """How to read what functions returned, made once for each piece of code.

    A function inside a handler is another object at each run and holds what that run held: so it is known by its module, its
    code and its hint, and nothing is kept of itself.
    """

    def __init__(self, make: Callable[[Any], Reader]) -> None:
        """Make what is not known yet."""
        self._make = make
        self._known: dict[tuple[Any, Any, Any], Reader] = {}

    def __call__(self, function: Any) -> Reader:
        """Return how to read what a function returned, or None where there is nothing to know."""
        code, hint = getattr(function, "__code__", None), getattr(function, "__annotations__", {}).get("return")
        # Alike code of two modules is equal, and so are hints that are words: the module says what a word means.
        key = code, hint, getattr(function, "__module__", None)
        try:
            if key in self._known:
                return self._known[key]
        except TypeError:  # a hint that cannot be hashed
            return self._make(function)
        made = self._make(function)
        if code is not None:
            while len(self._known) >= KNOWN_MAX:
                del self._known[next(iter(self._known))]
            self._known[key] = made
        return made


def _reader(function: Any) -> Reader:
    """Return how to read what a function returned, or None where that is plain JSON."""
    try:
        hint = typing.get_type_hints(function, include_extras=True).get("return", Any)
    except (NameError, TypeError):  # a hint that cannot be resolved here says nothing
        return None
    if _plain(hint):
        return None
    import pydantic

    return pydantic.TypeAdapter(hint).validate_json


_readers = Readers(_reader)


def _plain(hint: Any) -> bool:
    if any(hint is each for each in PLAIN):
        return True
    return typing.get_origin(hint) in (dict, list) and all(_plain(each) for each in typing.get_args(hint))
