"""Telling callers apart: by a token in the header, by the session of somebody who signed in, or by being here (S6).

A server that only this machine reaches, on whose database no token was ever made, is open: whoever asks is the operator. A
page of another site must not use that through somebody's browser. So an open server answers only to names of this machine
(or a foreign name that was made to lead here would make a foreign page ours), not through a proxy (or this machine would
not be all that reaches it), and changes nothing for pages of other sites (see `forgery`).

The first token closes it, here too. It opens again when every token was revoked, never by time: a token that expires opens
no doors.
"""

from __future__ import annotations

import secrets
from functools import lru_cache
from ipaddress import ip_address
from typing import Final

from starlette.requests import HTTPConnection

from ferryman.access import rules
from ferryman.access.model import ALL, Grant, Scope
from ferryman.app.ferryman import Ferryman
from ferryman.http.callers import Caller
from ferryman.http.rates import Rates
from ferryman.kernel import errors

COOKIE: Final = "ferryman_session"
# Who brings wrong secrets is slowed down: each costs a look into the database.
WRONG_A_SECOND: Final = 10
WRONG_AT_ONCE: Final = 100
FORWARDED: Final = ("forwarded", "x-forwarded-for", "x-forwarded-host")


class Wrongs:
    """Wrong secrets, by the address that they came from."""

    def __init__(self) -> None:
        """Begin to count."""
        self._rates = Rates(rate=WRONG_A_SECOND, burst=WRONG_AT_ONCE)

    def check(self, request: HTTPConnection) -> None:
        """Refuse to look at another secret from an address that has brought too many wrong ones."""
        wait = self._rates.wait(address(request))
        if wait:
            raise errors.RateExceeded("Too many wrong tokens came from this address.", retry_after=wait)

    def count(self, request: HTTPConnection) -> None:
        """Count one more."""
        self._rates.take(address(request))


class Doorkeeper:
    """The guard of a server: tokens and sessions; without any token, if `here`, whoever is on this machine."""

    def __init__(self, app: Ferryman, *, here: bool) -> None:
        """Know callers by the tokens of an opened app."""
        self._known = app.tokens.known
        self._tenant = app.settings.tenant
        self._proxied = bool(app.settings.http.proxies)
        self._here = here
        self.wrongs = Wrongs()
        self._csrf = secrets.token_hex(32)

    async def caller(self, request: HTTPConnection) -> Caller:
        """Return who asks."""
        token = bearer(request)
        if token is not None:
            self._slow_down(request, token)
            return self._called(request, await self._known.token(token))
        secret = request.cookies.get(COOKIE) if "cookie" in request.headers else None
        if secret:
            self._slow_down(request, secret)
            grant = await self._known.session(secret)
            if grant is not None:
                return self._called(request, grant, csrf=rules.csrf(secret))
            self.wrongs.count(request)
        if self._here and not await self._known.closed():
            return self._local(request)
        raise errors.Unauthenticated()

    def _called(self, request: HTTPConnection, grant: Grant | None, *, csrf: str = "") -> Caller:
        if grant is None:
            self.wrongs.count(request)
            raise errors.Unauthenticated("This token is unknown, expired or revoked.")
        operator = grant.tenant == ALL
        tenant = self._tenant if operator else grant.tenant
        return Caller(grant.name, tenant, grant.scopes, operator, str(grant.token_id), csrf, signed_in=bool(csrf))

    def _slow_down(self, request: HTTPConnection, secret: str) -> None:
        if not self._known.seen(secret):
            self.wrongs.check(request)

    def _local(self, request: HTTPConnection) -> Caller:
        host = request.headers.get("host", "")
        if not is_local(host):
            raise errors.HostRefused(
                f"Without tokens this server answers to localhost alone, not to {ascii(host)[:80]}."
            )
        if not self._proxied and any(name in request.headers for name in FORWARDED):
            raise errors.HostRefused("Without tokens this server does not answer through a proxy.")
        return Caller("local", self._tenant, frozenset({Scope.ADMIN}), True, address(request), self._csrf)


def bearer(request: HTTPConnection) -> str | None:
    """Return the token that a request brings in its header, if it has that header."""
    given = request.headers.getlist("authorization")
    if not given:
        return None
    kind, _, token = given[0].strip().partition(" ")
    if len(given) > 1 or kind.lower() != "bearer":
        raise errors.Unauthenticated("Expected one header `Authorization: Bearer fm_...`.")
    return token.strip()


def address(request: HTTPConnection) -> str:
    """Return where a request came from, as a key under which it is counted."""
    client = request.scope.get("client")
    return f"from {client[0] if client else 'here'}"


@lru_cache(maxsize=64)
def is_local(host: str) -> bool:
    """Say whether a Host header names this machine."""
    name = host.strip().lower()
    name = name[1:].partition("]")[0] if name.startswith("[") else name.partition(":")[0]
    if name == "localhost" or name.endswith(".localhost"):
        return True
    try:
        return ip_address(name).is_loopback
    except ValueError:
        return False
