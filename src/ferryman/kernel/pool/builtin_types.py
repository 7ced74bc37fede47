"""A connection that looks up PostgreSQL's own types once per process.

On every connection, asyncpg queries the catalog for each array type that a statement uses: two more round trips and a recursive
query of some milliseconds. Types below 10,000 have the same numbers on every server, so one answer is valid for all of them.
Types of users are looked up on each connection, as before.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final, NamedTuple

import asyncpg

FIRST_ASSIGNED_OID: Final = 10_000  # FirstGenbkiObjectId: below it, numbers are part of PostgreSQL's source

_known: dict[frozenset[int], Any] = {}


class _Unsent(NamedTuple):
    """Stands for the catalog query that was not sent: asyncpg prepares a nameless statement again after a nameless query."""

    name: str = "cached"


class Connection(asyncpg.Connection):
    """A connection of asyncpg."""

    __slots__ = ()

    async def _introspect_types(self, typeoids: Iterable[int], timeout: float | None) -> tuple[Any, Any]:
        wanted = frozenset(typeoids)
        if any(oid >= FIRST_ASSIGNED_OID for oid in wanted):
            return await super()._introspect_types(typeoids, timeout)  # type: ignore[misc,no-any-return]
        if wanted in _known:
            return _known[wanted], _Unsent()
        found, statement = await super()._introspect_types(typeoids, timeout)  # type: ignore[misc]
        _known[wanted] = found
        return found, statement
