"""Tokens over HTTP: the operator's."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Annotated, Any
from uuid import UUID

from fastapi import APIRouter, Query
from pydantic import Field

from ferryman.access.model import ALL, Scope
from ferryman.http.answers import LIMIT, Asked, Limit, Page, Shape, page
from ferryman.http.callers import Operating

router = APIRouter(prefix="/tokens", tags=["tokens"])


class NewToken(Asked):
    """A token to be made; of `tenant` "*" it serves all tenants."""

    name: str
    scopes: Sequence[Scope] = (Scope.READ,)
    tenant: str | None = None
    lasts_seconds: Annotated[float | None, Field(ge=1, le=3_000_000_000)] = None


class Token(Shape):
    """A token, without its secret."""

    id: UUID
    tenant: str
    name: str
    scopes: list[Scope]
    created_at: datetime
    expires_at: datetime | None
    revoked_at: datetime | None
    last_used_at: datetime | None


class Made(Shape):
    """A token that was made now, and its text, which is shown here and never again."""

    token: Token
    text: str


class Why(Asked):
    """Why."""

    reason: str | None = None


class Revoked(Shape):
    """Whether the token was revoked now."""

    revoked: bool


@router.post("", status_code=201, response_model=Made)
async def create(visit: Operating, asked: NewToken) -> Any:
    """Make a token. Its text is in this answer alone."""
    return await visit.app.tokens.create(
        asked.name, scopes=asked.scopes, tenant=visit.tenant if asked.tenant is None else asked.tenant,
        lasts=asked.lasts_seconds,
    )  # fmt: skip


@router.get("", response_model=Page[Token])
async def list_page(
    visit: Operating,
    tenant: Annotated[str | None, Query(description='Of this tenant only; "*": those that serve all.')] = None,
    revoked: Annotated[bool, Query(description="Those that were revoked too.")] = False,
    before: Annotated[UUID | None, Query(description="Go on before this id: `next` of the page before.")] = None,
    limit: Limit = LIMIT,
) -> dict[str, Any]:
    """List tokens, of all tenants, newest first, a page at a time."""
    found = await visit.app.tokens.list(tenant=tenant, revoked=revoked, before=before, limit=limit)
    return page(found, limit=limit)


@router.get("/{token_id}", response_model=Token)
async def get(visit: Operating, token_id: UUID) -> Any:
    """Read a token."""
    return await visit.app.tokens.get(token_id, tenant=ALL)


@router.post("/{token_id}/revoke", response_model=Revoked)
async def revoke(visit: Operating, token_id: UUID, asked: Why | None = None) -> dict[str, Any]:
    """Revoke a token, and end the sessions that began with it."""
    done = await visit.app.tokens.revoke(token_id, tenant=ALL, reason=None if asked is None else asked.reason)
    return {"revoked": done}
