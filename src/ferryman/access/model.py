"""What a caller may do, and what tokens and sessions are made of."""

from __future__ import annotations

import enum
from collections.abc import Collection
from datetime import datetime, timedelta
from typing import Any, Final, NamedTuple
from uuid import UUID

# Serves every tenant. No tenant can have this name.
ALL: Final = "*"


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


class Token(NamedTuple):
    """A token, without its secret, which is kept nowhere."""

    id: UUID
    tenant: str
    name: str
    scopes: tuple[Scope, ...]
    created_at: datetime
    expires_at: datetime | None
    revoked_at: datetime | None
    last_used_at: datetime | None

    @property
    def operator(self) -> bool:
        """Whether it serves all tenants."""
        return self.tenant == ALL

    def as_json(self) -> dict[str, Any]:
        """Return what a caller outside Python is shown."""
        told = self._asdict() | {"id": str(self.id), "scopes": [each.value for each in self.scopes]}
        return {name: value.isoformat() if isinstance(value, datetime) else value for name, value in told.items()}


class NewToken(NamedTuple):
    """A checked request for a token, with the text that is shown once and the hash that is kept."""

    id: UUID
    tenant: str
    name: str
    scopes: tuple[Scope, ...]
    lasts: timedelta | None
    text: str
    hash: bytes


class Grant(NamedTuple):
    """What a token allows now; with how long it goes on, where that is known."""

    token_id: UUID
    tenant: str
    name: str
    scopes: frozenset[Scope]
    left: timedelta | None = None
