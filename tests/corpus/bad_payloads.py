"""Values and texts that must not pass the door (K13), each with the path that is named.

Kept apart from the tests so that fuzzing and the HTTP and SQL doors can use the same list.
"""

import uuid
from collections import namedtuple
from dataclasses import dataclass
from datetime import UTC, time
from decimal import Decimal
from enum import Enum
from typing import Any, Final


@dataclass
class Point:
    """A dataclass, written by its attributes."""

    x: float
    y: float = 0.0


@dataclass(slots=True)
class Slim:
    """A dataclass without a dictionary."""

    x: float


class Odd(Enum):
    """An enum whose value is not a JSON number."""

    NAN = float("nan")


class Bare:
    """An object without a JSON form."""


class Echo:
    """Looks like a model but dumps to itself."""

    def model_dump(self, *, mode: str) -> Any:
        assert mode == "json"
        return self


class Broken:
    """Looks like a model but cannot be dumped."""

    def model_dump(self, *, mode: str) -> Any:
        raise RuntimeError(mode)


Pair = namedtuple("Pair", "a b")


class Word(str):
    """A text of its own type; JSON writers disagree on such keys."""

    __slots__ = ()


def nested(depth: int, *, inner: Any = None) -> list[Any]:
    """Return a list nested this deep."""
    value: list[Any] = [] if inner is None else [inner]
    for _ in range(depth - 1):
        value = [value]
    return value


def circular_list() -> list[Any]:
    """Return a list that holds itself."""
    value: list[Any] = [1]
    value.append(value)
    return value


def circular_dict() -> dict[str, Any]:
    """Return a dict that holds itself, further down."""
    value: dict[str, Any] = {}
    value["a"] = {"b": [value]}
    return value


NAN: Final = float("nan")
INFINITY: Final = float("inf")

# Each is a name, a value and the path.
VALUES: Final[list[tuple[str, Any, str]]] = [
    ("nan", NAN, "$"),
    ("nan in a list", [1.5, NAN], "$[1]"),
    ("infinity", {"items": [{}, {}, {}, {"price": INFINITY}]}, "$.items[3].price"),
    ("minus infinity", {"a": -INFINITY, "b": None}, "$.a"),
    ("nan beside null", {"a": None, "b": {"c": NAN}}, "$.b.c"),
    ("nan in a tuple", {"a": (1, NAN)}, "$.a[1]"),
    ("nan in a dataclass", {"p": Point(1, NAN)}, "$.p.y"),
    ("nan in a slotted dataclass", Slim(NAN), "$.x"),
    ("nan in an enum", [Odd.NAN], "$[0]"),
    ("nan under an odd key", {"a b": {"ключ": NAN}}, '$["a b"]["ключ"]'),
    ("nul", "\0", "$"),
    ("nul in text", {"a": ["x\0y"]}, "$.a[0]"),
    ("nul in a key", {"a": {"\0": 1}}, "$.a"),
    ("lone high surrogate", {"a": "\ud800"}, "$.a"),
    ("lone low surrogate", ["\udc00x"], "$[0]"),
    ("lone surrogate in a key", {"\ud800": 1}, "$"),
    ("integer of 65 bits", {"n": 2**64}, "$.n"),
    ("integer of 64 bits unsigned", {"n": 2**63}, "$.n"),
    ("least integer less one", {"n": [-(2**63) - 1]}, "$.n[0]"),
    ("largest unsigned", {"n": 2**64 - 1}, "$.n"),
    ("huge integer", 10**5000, "$"),
    ("129 levels", nested(129), "$" + "[0]" * 128),
    ("129 levels of objects", nested(128, inner={"a": 1}), "$" + "[0]" * 128),
    ("10,000 levels", nested(10_000), "$" + "[0]" * 128),
    ("a list in itself", circular_list(), "$"),
    ("a dict in itself", circular_dict(), "$"),
    ("a set", {"a": {1, 2}}, "$.a"),
    ("a frozenset", [frozenset()], "$[0]"),
    ("bytes", {"a": b"x"}, "$.a"),
    ("bytearray", {"a": bytearray(b"x")}, "$.a"),
    ("decimal", {"price": Decimal("1.5")}, "$.price"),
    ("complex", [1j], "$[0]"),
    ("an object", {"o": Bare()}, "$.o"),
    ("a class", {"o": Bare}, "$.o"),
    ("a dataclass itself", {"o": Point}, "$.o"),
    ("a function", [len], "$[0]"),
    ("a named tuple", [Pair(1, 2)], "$[0]"),
    ("an iterator", [iter("")], "$[0]"),
    ("a time with a zone", {"t": time(1, tzinfo=UTC)}, "$"),
    ("a number as key", {"a": {1: 2}}, "$.a"),
    ("None as key", {None: 2}, "$"),
    ("a uuid as key", {uuid.UUID(int=1): 2}, "$"),
    ("a text of its own type as key", {Word("a"): 1}, "$"),
    ("a model that dumps to itself", [Echo()], "$[0]"),
    ("a model that breaks", {"m": Broken()}, "$.m"),
]

# Each is a name, a text and the path.
TEXTS: Final[list[tuple[str, str | bytes, str]]] = [
    ("empty", "", "$"),
    ("blank", " ", "$"),
    ("cut off", '{"a": [1, 2', "$"),
    ("two values", "1 2", "$"),
    ("trailing comma", "[1,]", "$"),
    ("single quotes", "{'a': 1}", "$"),
    ("comment", "[1] // one", "$"),
    ("bare word", "undefined", "$"),
    ("nan", '{"a": NaN}', "$"),
    ("infinity", "[Infinity]", "$"),
    ("minus infinity", "[-Infinity]", "$"),
    ("infinite by exponent", "1e400", "$"),
    ("nearly nothing", '{"a": [1e-20000]}', "$.a[0]"),
    ("nearly nothing, written out", '{"a": 0.' + "0" * 20_000 + "1}", "$.a"),
    ("an exponent of thousands of digits", "[1e-" + "9" * 5000 + "]", "$[0]"),
    ("leading zero", "01", "$"),
    ("hexadecimal", "0x10", "$"),
    ("bare control character", '"a\nb"', "$"),
    ("bare nul", '"a\0b"', "$"),
    ("nul escape", '{"a": ["x\\u0000"]}', "$.a[0]"),
    ("nul escape after a backslash", '["\\\\\\u0000"]', "$[0]"),
    ("nul escape in a key", '{"\\u0000": 1}', "$"),
    ("nul escape under a repeated key", '{"a": "\\u0000", "a": 1}', '$["a#0"]'),
    ("lone surrogate escape", '["\\ud800"]', "$"),
    ("reversed surrogates", '["\\udc00\\ud800"]', "$"),
    ("lone surrogate", '"\ud800"', "$"),
    ("utf-8 surrogate", b'"\xed\xa0\x80"', "$"),
    ("not utf-8", b'"\xff"', "$"),
    ("overlong utf-8", b'"\xc0\x80"', "$"),
    ("byte order mark", b"\xef\xbb\xbf1", "$"),
    ("utf-16", '{"a": 1}'.encode("utf-16"), "$"),
    ("integer of 64 bits unsigned", '{"n": [9223372036854775808]}', "$.n[0]"),
    ("least integer less one", '{"n": -9223372036854775809}', "$.n"),
    ("integer of 65 bits", "18446744073709551616", "$"),
    ("integer of 300 digits", '{"n": ' + "1" * 300 + "}", "$.n"),
    ("integer of 5,000 digits", "[" + "1" * 5000 + "]", "$"),
    ("big integer under a repeated key", '{"n": 9223372036854775808, "n": 1}', '$["n#0"]'),
    ("129 levels", "[" * 129 + "]" * 129, "$" + "[0]" * 128),
    ("129 levels of objects", '{"a":' * 129 + "1" + "}" * 129, "$" + ".a" * 128),
    ("129 levels under a repeated key", '{"a":' + "[" * 129 + "]" * 129 + ',"a":1}', "$"),
    ("10,000 levels", "[" * 10_000 + "]" * 10_000, "$"),
    ("10,000 levels never closed", "[" * 10_000, "$"),
    ("10,000 objects never closed", '{"a":' * 10_000, "$"),
]
