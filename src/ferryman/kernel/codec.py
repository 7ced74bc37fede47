"""Payloads and results under a codec of the user's, so that whoever reads the tables alone cannot read them (S6).

A codec turns bytes into bytes, and back: it may encrypt, with a key that only the user's processes have. What it made is
stored as JSON too, an object with one field, so that every table, index and SQL function takes it like any other value.
What was stored before there was a codec stays readable: it does not have that field.

The door checks a payload before it is sealed; keys that are made of a payload are made before too. Nothing in SQL looks
into payloads.
"""

from __future__ import annotations

import base64
from typing import Final, Protocol

from ferryman.kernel import errors

FIELD: Final = "ferryman:sealed"
# As PostgreSQL writes it.
BEGINS: Final = f'{{"{FIELD}": "'
_ENDS: Final = '"}'


class Codec(Protocol):
    """What a user gives: two functions that undo each other. They run in the event loop: they must not wait."""

    def encode(self, data: bytes, /) -> bytes:
        """Return what is stored."""

    def decode(self, data: bytes, /) -> bytes:
        """Return what was given; raise anything if that cannot be."""


class Seal:
    """How an app stores JSON text, and reads it again."""

    def __init__(self, codec: Codec | None = None) -> None:
        """Store by a codec, or without one as it is."""
        self._codec = codec
        self.active = codec is not None

    def close(self, text: str) -> str:
        """Return the text to store."""
        if self._codec is None:
            return text
        return f"{BEGINS}{base64.b64encode(self._codec.encode(text.encode())).decode()}{_ENDS}"

    def open(self, text: str) -> str:
        """Return the text that was given to be stored, or raise PayloadSealed."""
        if not text.startswith(BEGINS):
            return text
        if self._codec is None:
            raise errors.PayloadSealed()
        try:
            return self._codec.decode(base64.b64decode(text[len(BEGINS) : -len(_ENDS)], validate=True)).decode()
        except Exception as error:
            # Not its words: they may tell what the codec saw.
            raise errors.PayloadSealed(f"The codec could not read this ({type(error).__name__}).") from error

    def shown(self, text: str) -> str:
        """Return the text for people: what was given, or where it cannot be read what is stored."""
        try:
            return self.open(text)
        except errors.PayloadSealed:
            return text


PLAIN: Final = Seal()
