"""The door to tokens: what users reach as `app.tokens`."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import timedelta
from typing import NamedTuple
from uuid import UUID

from ferryman.access import intake, rules
from ferryman.access.intake import Begun
from ferryman.access.known import TOPIC, Known
from ferryman.access.model import ALL, Token
from ferryman.kernel.doorbell import Doorbell
from ferryman.kernel.pool import Database, spoken
from ferryman.kernel.settings import Settings


class Made(NamedTuple):
    """A token that was made now, and its text, which is shown here and never again."""

    token: Token
    text: str

    def __repr__(self) -> str:
        """Name the token; its text stays out of logs."""
        return f"Made({self.token.name!r})"


class Tokens:
    """Make tokens for HTTP, show and revoke them; sign people in and out. It serves all tenants: it is the operator's."""

    def __init__(self, db: Database, doorbell: Doorbell, *, settings: Settings) -> None:
        """Tell the servers of changes by the doorbell."""
        self._db = db
        self._doorbell = doorbell
        self._tenant = settings.tenant
        self._session = settings.http.session
        self.known = Known(db.session, doorbell, kept=settings.http.token_kept)

    async def create(
        self,
        name: str,
        *,
        scopes: Iterable[str] | str = ("read",),
        tenant: str | None = None,
        lasts: timedelta | float | str | None = None,
    ) -> Made:
        """Make a token of some scopes (read, write, worker, admin), for the app's tenant, another, or "*" for all.

        `lasts` says after which time it expires ("90d"); without it, it stands until it is revoked.
        """
        new = rules.draft(name, tenant=self._tenant if tenant is None else tenant, scopes=scopes, lasts=lasts)
        with spoken():
            async with self._db.transaction() as tx:
                made = await intake.create(tx, new)
        self._ring()
        return Made(made, new.text)

    async def get(self, named: str | UUID, *, tenant: str | None = None) -> Token:
        """Read one token, by id, or by name as long as it is not revoked."""
        with spoken():
            async with self._db.session() as tx:
                return await intake.get(tx, named, tenant=self._tenant if tenant is None else tenant)

    async def list(
        self, *, tenant: str | None = None, revoked: bool = False, before: UUID | None = None, limit: int = 50
    ) -> Sequence[Token]:
        """Read tokens of all tenants or of one ("*": those that serve all), newest first, a page at a time."""
        with spoken():
            async with self._db.session() as tx:
                return await intake.list_page(tx, tenant=tenant, revoked=revoked, before=before, limit=limit)

    async def revoke(self, named: str | UUID, *, tenant: str | None = None, reason: str | None = None) -> bool:
        """End a token, and the sessions that began with it; False if it had ended."""
        with spoken():
            async with self._db.transaction() as tx:
                whose = self._tenant if tenant is None else tenant
                moved = await intake.revoke(tx, named, tenant=whose, reason=reason)
        self._ring()
        return moved

    async def sign_in(self, text: str) -> Begun | None:
        """Begin a session for whoever brings a token; None if the token allows nothing."""
        if rules.id_of(text) is None:
            return None
        with spoken():
            async with self._db.transaction() as tx:
                return await intake.sign_in(tx, text, lasts=self._session)

    async def sign_out(self, secret: str) -> bool:
        """End a session; False if there is none."""
        with spoken():
            async with self._db.transaction() as tx:
                ended = await intake.sign_out(tx, secret)
        self._ring()
        return ended

    async def usable(self) -> bool:
        """Say whether there is a token that can be used now."""
        with spoken():
            async with self._db.session() as tx:
                return (await intake.exist(tx))[1]

    def _ring(self) -> None:
        # Who made the change sees it at once; the others when they hear of it.
        self.known.forget()
        self._doorbell.ring(TOPIC)

    def close(self) -> None:
        """Hear no more."""
        self.known.close()


__all__ = ["ALL", "Made", "Tokens"]
