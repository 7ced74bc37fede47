"""Payloads and results under a codec of the user's, so that whoever reads the tables alone cannot read them (S6).

A codec turns bytes into bytes, and back: it may encrypt, with a key that only the user's processes have. What it made is
stored as JSON too, an object with one field, so that every table, index and SQL function takes it like any other value.
What was stored before there was a codec stays readable: it does not have that field.

The door checks a payload before it is sealed; keys that are made of a payload are made before too. Nothing in SQL looks
into payloads.
"""

from __future__ import annotations

import base64
from typing import Final, Protocol, TypeVar

from ferryman.kernel import errors

FIELD: Final = "ferryman:sealed"
# As PostgreSQL writes it.
BEGINS: Final = f'{{"{FIELD}": "'
_ENDS: Final = '"}'


Record = TypeVar("Record")


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

    def opened(self, record: Record, *names: str) -> Record:
        """Return a record with fields as they were given to be stored, or raise PayloadSealed."""
        sealed = [
            (name, text) for name in names if (text := getattr(record, name)) is not None and text.startswith(BEGINS)
        ]
        return record._replace(**{name: self.open(text) for name, text in sealed}) if sealed else record  # type: ignore[attr-defined]

    def shown(self, record: Record, *names: str) -> Record:
        """Return a record for people: with what was given, or where that cannot be read with what is stored."""
        if not self.active:
            return record
        try:
            return self.opened(record, *names)
        except errors.PayloadSealed:
            return record


PLAIN: Final = Seal()
