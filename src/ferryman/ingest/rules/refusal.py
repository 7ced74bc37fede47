"""Why a request cannot be planned: a field, what was expected there and what was got."""

from __future__ import annotations


class Refused(ValueError):
    """A field of a request has a value that is not allowed."""

    def __init__(self, field: str, expected: str, got: str) -> None:
        super().__init__(f"{field}: expected {expected}, got {got}.")
        self.field = field
