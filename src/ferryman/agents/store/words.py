"""Sets as JSON text, the way they go into a statement."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any
from uuid import UUID


def words(rows: Iterable[Mapping[str, Any]]) -> str:
    """Return a set of rows as the text of a JSON array."""
    return json.dumps(list(rows), default=_plain)


def _plain(value: object) -> object:
    if isinstance(value, UUID):
        return str(value)
    raise TypeError(f"{type(value).__name__} has no place in a statement.")


def listed(values: Sequence[Any] | None) -> list[Any] | None:
    """Return a sequence as a JSON array; nothing stays nothing."""
    return None if values is None else list(values)
