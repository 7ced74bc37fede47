"""What comes in: tokens are made, shown and revoked; people sign in and out; whoever brings a secret is told apart."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import NamedTuple
from uuid import UUID

from ferryman.access import rules, store
from ferryman.access.model import ALL, Grant, NewToken, Token
from ferryman.kernel import errors, ids
from ferryman.kernel.db import Tx

MOST_LISTED = 1000
LONGEST_REASON = 2000


class Begun(NamedTuple):
    """A session that has begun: the secret that its cookie holds, and when it ends."""

    secret: str
    ends_at: datetime
    grant: Grant


async def create(tx: Tx, new: NewToken) -> Token:
    """Make a token."""
    made = await store.create(tx, new)
    if made is None:
        raise errors.TokenDuplicate(f"There is a token {new.name} for tenant {new.tenant}.", name=new.name)
    return made


async def get(tx: Tx, named: str | UUID, *, tenant: str) -> Token:
    """Read one token, by its id, or by its name as long as it is not revoked."""
    id = _as_uuid(named)
    known = id is not None or ids.is_name(named)
    found = await store.get(tx, tenant=tenant, id=id, name=None if id else str(named)) if known else None
    if found is None:
        whose = "for all tenants" if tenant == ALL else f"for tenant {tenant}"
        raise errors.TokenNotFound(f"There is no token {ascii(str(named))[:80]} {whose}.", id=str(named)[:80])
    return found


def _as_uuid(text: str | UUID) -> UUID | None:
    try:
        return text if isinstance(text, UUID) else UUID(text)
    except ValueError:
        return None


async def list_page(
    tx: Tx, *, tenant: str | None = None, revoked: bool = False, before: UUID | None = None, limit: int = 50
) -> list[Token]:
    """Read a page of tokens, of one tenant or of all, newest first."""
    if not 1 <= limit <= MOST_LISTED:
        raise errors.TokenInvalid(f"limit: expected 1 to {MOST_LISTED}, got {limit!r}.", field="limit")
    return await store.list_page(tx, tenant=tenant, revoked=revoked, before=before, limit=limit)


async def revoke(tx: Tx, named: str | UUID, *, tenant: str, reason: str | None = None) -> bool:
    """End a token, and with it the sessions that began with it; say whether that is new."""
    if reason is not None and (len(reason) > LONGEST_REASON or not _storable(reason)):
        raise errors.TokenInvalid(
            f"reason: expected a text of at most {LONGEST_REASON} characters that can be stored.", field="reason"
        )
    return await store.revoke(tx, (await get(tx, named, tenant=tenant)).id, reason=reason)


def _storable(text: str) -> bool:
    return not any(each == "\0" or "\ud800" <= each <= "\udfff" for each in text)


async def of_token(tx: Tx, text: str) -> Grant | None:
    """Return what a token allows now; None of one that is unknown, wrong, expired or revoked."""
    id = rules.id_of(text)
    found = None if id is None else await store.use(tx, id)
    if found is None:
        return None
    grant, hash, live, news = found
    if not rules.same(hash, rules.digest(text)) or not live:
        return None
    if news:
        await store.used(tx, grant.token_id)
    return grant


async def of_session(tx: Tx, secret: str) -> Grant | None:
    """Return what a session allows now; None of one that is unknown or has ended."""
    found = await store.use_session(tx, rules.digest(secret)) if rules.is_session(secret) else None
    if found is None:
        return None
    grant, live, news = found
    if live and news:
        await store.used(tx, grant.token_id)
    return grant if live else None


async def sign_in(tx: Tx, text: str, *, lasts: timedelta) -> Begun | None:
    """Begin a session for whoever brings a token; None if the token allows nothing."""
    grant = await of_token(tx, text)
    if grant is None:
        return None
    secret = rules.session_secret()
    ends_at = await store.begin(tx, grant.token_id, hash=rules.digest(secret), lasts=lasts)
    return None if ends_at is None else Begun(secret, ends_at, grant)


async def sign_out(tx: Tx, secret: str) -> bool:
    """End a session; False if there is none."""
    return await store.end(tx, rules.digest(secret))


async def exist(tx: Tx) -> tuple[bool, bool]:
    """Say whether a token is there that nobody revoked, and whether one can be used now."""
    return await store.exist(tx)
