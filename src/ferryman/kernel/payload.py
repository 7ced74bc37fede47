r"""JSON at the door (K13, K25).

What is stored must come back the same from PostgreSQL and mean the same in any language. So NaN and
the infinities, NUL characters, lone surrogates, integers beyond signed 64 bits, deep nesting and
great size are refused here, with the path of the culprit, and nothing is stored.

The ordinary case must cost next to nothing. orjson writes the text; the text itself then shows
whether anything could be wrong: a NaN is written as null, a NUL as \u0000, nesting needs brackets,
and a large integer makes orjson raise in its strict mode. Only then is the value walked, in
`culprit`: the walk alone decides, the hints may be wrong on the safe side.

Taken are the plain JSON types, what orjson writes natively (dataclasses, enums, UUID, datetime,
date, time) and pydantic models, which are dumped in JSON mode. Sets, bytes, Decimals and other
objects are refused: how they should look is the caller's choice.

One thing jsonb changes by itself: it writes a float of 1e16 or more without its exponent, so that
it comes back as an integer of the same value.
"""

import json
from dataclasses import is_dataclass
from enum import Enum
from typing import Any, Final

import orjson

from ferryman.kernel import culprit, errors
from ferryman.kernel.culprit import Unfit

LIMIT: Final = 1024 * 1024
_MOST_DIGITS: Final = 19
# PostgreSQL's numeric has room for this many digits after the point.
_FINEST: Final = 16383
_STRICT: Final = orjson.OPT_STRICT_INTEGER
# Shorter text has no room for too many opening brackets and their ends.
_SHALLOW: Final = 2 * culprit.DEPTH

# orjson reads this many levels and no more; brackets around the text use up all but ours.
_READABLE: Final = 1024
_OPENED: Final = b"[" * (_READABLE - culprit.DEPTH)
_CLOSED: Final = b"]" * (_READABLE - culprit.DEPTH)
# Every digit as 0: what is looked for then is found by a plain search.
_SHAPE: Final = bytes.maketrans(b"123456789E+", b"000000000e-")
_MANY_DIGITS: Final = b"0" * _MOST_DIGITS


def encode(value: Any, *, limit: int = LIMIT, error: culprit.Refusal = errors.TaskInvalidPayload) -> str:
    """Return the JSON text to store, or refuse with the path of what cannot be stored."""
    try:
        text = orjson.dumps(value, culprit.plain, _STRICT)
    except orjson.JSONEncodeError:
        text = _dump(value, error)
    if len(text) > limit:
        raise _too_large(len(text), limit, error)
    if b"\\u0000" in text or _too_deep(text) or (b"null" in text and not _finite(value)):
        culprit.seek(value, error)
    return text.decode()


def check_text(raw: str | bytes, *, limit: int = LIMIT, error: culprit.Refusal = errors.TaskInvalidPayload) -> str:
    """Return JSON text that came from outside as it is, if it can be stored.

    A key given twice is allowed; PostgreSQL keeps the last, as JSON readers do.
    """
    return _checked(raw, limit, error)[0].decode()


def parse(raw: str | bytes, *, limit: int = LIMIT, error: culprit.Refusal = errors.TaskInvalidPayload) -> Any:
    """Return the value of JSON text that came from outside, if it can be stored."""
    return _checked(raw, limit, error)[1]


def _checked(raw: str | bytes, limit: int, error: culprit.Refusal) -> tuple[bytes, Any]:
    try:
        text = raw.encode() if isinstance(raw, str) else raw
    except UnicodeEncodeError as cause:
        raise error("The text has half of a surrogate pair.", path="$") from cause
    if len(text) > limit:
        raise _too_large(len(text), limit, error)
    value = decode(text, error=error)
    if _too_deep(text):
        culprit.seek(value, error)
        # The deep part was under a key given twice.
        raise error(f"The value is nested deeper than {culprit.DEPTH} levels.", path="$")
    if _long_number(text) or b"\\u0000" in text:
        culprit.seek(_read(text), error)
    return text, value


def decode(text: str | bytes, *, error: culprit.Refusal = errors.TaskInvalidPayload) -> Any:
    """Return the value of stored text; an unreadable one is refused alone (K25)."""
    try:
        return orjson.loads(text)
    except orjson.JSONDecodeError as cause:
        raise error(f"The text cannot be read as JSON: {cause}.", path="$", position=cause.pos) from cause


def _dump(value: Any, error: culprit.Refusal) -> bytes:
    """Write what strict mode refused: integers of 54 to 64 bits may still fit."""
    try:
        text = orjson.dumps(value, culprit.plain)
    except orjson.JSONEncodeError as cause:
        culprit.seek(value, error)
        raise error(f"The value has no JSON form: {cause}.", path="$") from cause
    if _long_number(text):
        culprit.seek(value, error)
    return text


def _long_number(text: bytes) -> bool:
    """Say whether a number may not fit: many digits, or an exponent of three."""
    shape = text.translate(_SHAPE)
    return _MANY_DIGITS in shape or b"0e000" in shape or b"0e-000" in shape


def _too_deep(text: bytes) -> bool:
    """Say whether readable text is nested too deep."""
    if len(text) <= _SHALLOW or text.count(b"[") + text.count(b"{") <= culprit.DEPTH:
        return False
    try:
        orjson.loads(_OPENED + text + _CLOSED)
    except orjson.JSONDecodeError:
        return True
    return False


def _finite(value: Any) -> bool:
    """Say whether a value that orjson could write holds finite numbers only.

    The standard encoder refuses the others, and runs in C; its text is not wanted.
    """
    try:
        _FINITE.encode(value)
    except ValueError:
        return False
    return True


def _opened(value: Any) -> Any:
    """Return what may hold numbers inside a value that the standard encoder does not know."""
    if isinstance(value, Enum):
        return value.value
    if is_dataclass(value) and not isinstance(value, type):
        return culprit.attributes(value)
    return culprit.plain(value) if hasattr(type(value), "model_dump") else None


_FINITE = json.JSONEncoder(allow_nan=False, check_circular=False, default=_opened)


def _too_large(size: int, limit: int, error: culprit.Refusal) -> errors.FerrymanError:
    return error(f"The value takes {size} bytes; {limit} are allowed.", path="$", size=size, limit=limit)


def _read(text: bytes) -> Any:
    """Read valid text with every number as it was written and no key lost."""
    return json.loads(text, parse_int=_read_int, parse_float=_read_float, object_pairs_hook=_read_pairs)


def _read_pairs(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    held = dict(pairs)
    if len(held) == len(pairs):
        return held
    # PostgreSQL reads them all before it keeps the last.
    return {f"{key}#{place}": item for place, (key, item) in enumerate(pairs)}


def _read_int(digits: str) -> int | Unfit:
    # Length first: Python itself refuses to read thousands of digits.
    if len(digits) <= _MOST_DIGITS + 1 and culprit.SMALLEST <= int(digits) <= culprit.BIGGEST:
        return int(digits)
    return Unfit("An integer beyond 64 bits")


def _read_float(digits: str) -> float | Unfit:
    mantissa, _, exponent = digits.lower().partition("e")
    fraction = len(mantissa.partition(".")[2])
    if len(exponent) > _MOST_DIGITS or fraction - int(exponent or 0) > _FINEST:
        return Unfit("A number with too many digits after the point")
    return float(digits)
