"""Tokens and sessions: one function per statement."""

from __future__ import annotations

from datetime import datetime, timedelta
from uuid import UUID

from ferryman.access.model import Grant, NewToken, Scope, Token
from ferryman.kernel.db import Row, Tx, load, many, one

_CREATE = load("ferryman.access", "access_tokens/create")
_GET = load("ferryman.access", "access_tokens/get")
_LIST = load("ferryman.access", "access_tokens/list")
_REVOKE = load("ferryman.access", "access_tokens/revoke")
_USE = load("ferryman.access", "access_tokens/use")
_USED = load("ferryman.access", "access_tokens/used")
_EXIST = load("ferryman.access", "access_tokens/exist")
_BEGIN = load("ferryman.access", "access_sessions/begin")
_USE_SESSION = load("ferryman.access", "access_sessions/use")
_END = load("ferryman.access", "access_sessions/end")


def _record(row: Row) -> Token:
    values = {name: row[name] for name in Token._fields}
    values["scopes"] = tuple(Scope(each) for each in values["scopes"])
    return Token(**values)


def _grant(row: Row) -> Grant:
    left = row["seconds_left"]
    return Grant(
        row["id"], row["tenant"], row["name"], frozenset(Scope(each) for each in row["scopes"]),
        None if left is None else timedelta(seconds=left),
    )  # fmt: skip


async def create(tx: Tx, new: NewToken) -> Token | None:
    """Give birth to a token; None if its name is taken."""
    scopes = [each.value for each in new.scopes]
    row = await one(
        tx, _CREATE, id=new.id, tenant=new.tenant, name=new.name, scopes=scopes, hash=new.hash, lasts=new.lasts
    )
    return None if row is None else _record(row)


async def get(tx: Tx, *, tenant: str, id: UUID | None, name: str | None) -> Token | None:
    """Read one token."""
    row = await one(tx, _GET, tenant=tenant, id=id, name=name)
    return None if row is None else _record(row)


async def list_page(tx: Tx, *, tenant: str | None, revoked: bool, before: UUID | None, limit: int) -> list[Token]:
    """Read a page of tokens, of one tenant or of all, newest first."""
    rows = await many(tx, _LIST, tenant=tenant, revoked=revoked, before=before, limit=limit)
    return [_record(row) for row in rows]


async def revoke(tx: Tx, id: UUID, *, reason: str | None) -> bool:
    """End a token and the sessions that began with it; False if it had ended."""
    return await one(tx, _REVOKE, id=id, reason=reason) is not None


async def use(tx: Tx, id: UUID) -> tuple[Grant, bytes, bool, bool] | None:
    """Read what a token allows, the hash of its secret, whether it lives, and whether its use is news."""
    row = await one(tx, _USE, id=id)
    return None if row is None else (_grant(row), row["hash"], row["live"], row["use_is_news"])


async def used(tx: Tx, id: UUID) -> None:
    """Say that a token was used."""
    await many(tx, _USED, id=id)


async def exist(tx: Tx) -> tuple[bool, bool]:
    """Say whether a token is there that nobody revoked, and whether one can be used now."""
    row = await one(tx, _EXIST)
    assert row is not None
    return row["standing"], row["live"]


async def begin(tx: Tx, token_id: UUID, *, hash: bytes, lasts: timedelta) -> datetime | None:
    """Begin a session, and say when it ends; None if its token was revoked."""
    row = await one(tx, _BEGIN, token_id=token_id, hash=hash, lasts=lasts)
    return None if row is None else row["ends_at"]


async def use_session(tx: Tx, hash: bytes) -> tuple[Grant, bool, bool] | None:
    """Read what a session allows, whether it lives, and whether its token's use is news."""
    row = await one(tx, _USE_SESSION, hash=hash)
    return None if row is None else (_grant(row), row["live"], row["use_is_news"])


async def end(tx: Tx, hash: bytes) -> bool:
    """End a session; False if there is none."""
    return await one(tx, _END, hash=hash) is not None
