"""What a caller may do."""

from __future__ import annotations

import enum
from collections.abc import Collection


class Scope(enum.StrEnum):
    """What a caller may do: write includes read, and admin includes everything."""

    READ = "read"
    WRITE = "write"
    WORKER = "worker"
    ADMIN = "admin"


INCLUDES = {
    Scope.READ: frozenset({Scope.READ}),
    Scope.WRITE: frozenset({Scope.READ, Scope.WRITE}),
    Scope.WORKER: frozenset({Scope.WORKER}),
    Scope.ADMIN: frozenset(Scope),
}


def allows(held: Collection[Scope], wanted: Scope) -> bool:
    """Say whether one of the scopes held includes the one wanted."""
    return any(wanted in INCLUDES[each] for each in held)
