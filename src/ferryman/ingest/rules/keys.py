"""Keys: one text for one thing, whoever says it and whenever (I4).

A key is the SHA-256 of canonical JSON: sorted, without spaces, instants in UTC with microseconds. What is equal has one key.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def instant(at: datetime) -> str:
    """Return an instant as it stands in keys and positions."""
    return at.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")


def number(at: datetime) -> int:
    """Return an instant as the number that coverage is counted in: microseconds."""
    past = at - _EPOCH
    return (past.days * 86_400 + past.seconds) * 1_000_000 + past.microseconds


def moment(number: int) -> datetime:
    """Return the instant of such a number."""
    seconds, micros = divmod(number, 1_000_000)
    return datetime.fromtimestamp(seconds, UTC).replace(microsecond=micros)


def canonical(value: Any) -> str:
    """Return the one spelling of a JSON value."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False)


def digest(*parts: Any) -> str:
    """Return the key of these parts."""
    return hashlib.sha256(canonical(list(parts)).encode()).hexdigest()


def signature(source: str, endpoint: str, operation: str, *, expr_hash: str, spec: Mapping[str, Any]) -> str:
    """Return the signature of a slice."""
    return digest("slice", source, endpoint, operation, expr_hash, dict(spec))


def batch(slice_id: object, position: str) -> str:
    """Return the key of a position in a slice."""
    return digest("batch", str(slice_id), position)
