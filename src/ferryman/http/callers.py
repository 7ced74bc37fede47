"""Who asks, and what they may: each request has a caller, and each route says which scope it needs (S6).

A caller belongs to one tenant, and reaches the doors of that tenant alone; an operator may name another tenant with each
request. Whoever looks at pages names it once: their browser keeps it in a cookie, which counts for operators alone and says
nothing of who asks.

A cookie is the same in all tabs of a browser, so each page also says which tenant it shows. What its script reads is read for
that tenant; a form that acts names it too, and is refused once another tab has chosen another.

The scope of a route stands in the OpenAPI document as `x-scope`, so that tests can try every route with too little. Who asks
is found out once, before anything else is done for a request (see `defence`); here it is only judged.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Annotated, Any, Protocol

from fastapi import Depends, Request
from starlette.requests import HTTPConnection

from ferryman.access.model import Scope, allows
from ferryman.app.doors import Doors
from ferryman.app.ferryman import Ferryman
from ferryman.http import forgery, journal
from ferryman.kernel import errors, ids

TENANT_HEADER = "Ferryman-Tenant"
TENANT_COOKIE = "ferryman_tenant"
TENANT_FIELD = "page_tenant"
FOUND = journal.CALLER


@dataclass(frozen=True)
class Caller:
    """Who asks: a name for the log, a tenant, and what it may. An operator serves all tenants, one at a time.

    `key` tells callers apart where they are counted. A caller with a `csrf` is known by what its browser sends by itself, and
    brings that word along with whatever it changes; `signed_in` says that this is a session.
    """

    name: str
    tenant: str
    scopes: frozenset[Scope]
    operator: bool = False
    key: str = ""
    csrf: str = field(default="", repr=False)
    signed_in: bool = False

    def may(self, scope: Scope) -> bool:
        """Say whether a scope is among what it may."""
        return allows(self.scopes, scope)


class Guard(Protocol):
    """Who tells callers apart."""

    async def caller(self, request: HTTPConnection) -> Caller:
        """Return who asks, or raise Unauthenticated."""


@dataclass(frozen=True)
class Visit:
    """A request that was let in: its caller, and the doors of the tenant it asks about."""

    caller: Caller
    app: Ferryman
    doors: Doors
    csrf: str = ""

    @property
    def tenant(self) -> str:
        """Whose work it is about."""
        return self.doors.tenant

    @property
    def away(self) -> bool:
        """Whether that is another tenant than the caller's own."""
        return self.tenant != self.caller.tenant


def needs(scope: Scope, *, operator: bool = False) -> Callable[[Request], Any]:
    """Return the dependency of a route that needs a scope, or an operator beside it."""

    async def enter(request: Request) -> Visit:
        state = request.app.state
        caller = request.scope.get(FOUND) or await state.guard.caller(request)
        if not caller.may(scope):
            raise errors.Forbidden(f"This needs the scope {scope}.", scope=scope.value)
        if operator and not caller.operator:
            raise errors.Forbidden("This concerns all tenants, and needs a token for all of them.", scope="operator")
        if caller.csrf:
            await forgery.check(request, caller.csrf, always=caller.signed_in)
        tenant = _tenant(request, caller)
        if caller.csrf and forgery.is_form(request):
            await _check_page(request, caller, tenant)
        request.scope[FOUND], request.scope[journal.TENANT] = caller, tenant
        return Visit(caller, state.ferryman, state.ferryman.of(tenant), caller.csrf)

    enter.scope = scope  # type: ignore[attr-defined] # read when the OpenAPI document is made
    enter.operator = operator  # type: ignore[attr-defined]
    return enter


def turned(request: Request, visit: Visit, tenant: str) -> Visit:
    """Return a visit to the tenant that a page names in an address, where its script can send no header."""
    named = _named(visit.caller, tenant)
    request.scope[journal.TENANT] = named
    return replace(visit, doors=visit.app.of(named))


def _tenant(request: Request, caller: Caller) -> str:
    named = request.headers.get(TENANT_HEADER)
    return _chosen(request, caller) if named is None else _named(caller, named)


def _named(caller: Caller, named: str) -> str:
    if named == caller.tenant:
        return caller.tenant
    if not caller.operator:
        raise errors.Forbidden(f"This token serves the tenant {caller.tenant} alone.", tenant=caller.tenant)
    return ids.check_name(named, "tenant")


async def _check_page(request: Request, caller: Caller, tenant: str) -> None:
    """Refuse a form of a page that shows another tenant than the browser has chosen since."""
    shown = (await request.form()).get(TENANT_FIELD)
    if shown is not None and not (shown == tenant == _chosen(request, caller)):
        raise errors.TenantChanged(field=TENANT_FIELD)


def _chosen(request: Request, caller: Caller) -> str:
    """Return the tenant that a browser keeps; a cookie that names none counts for nothing, or no page could mend it."""
    if not (caller.operator and caller.csrf):
        return caller.tenant
    named = request.cookies.get(TENANT_COOKIE) if "cookie" in request.headers else None
    try:
        return caller.tenant if named is None else ids.check_name(named, "tenant")
    except errors.FerrymanError:
        return caller.tenant


Reading = Annotated[Visit, Depends(needs(Scope.READ))]
Writing = Annotated[Visit, Depends(needs(Scope.WRITE))]
Working = Annotated[Visit, Depends(needs(Scope.WORKER))]
Ruling = Annotated[Visit, Depends(needs(Scope.ADMIN))]
Overseeing = Annotated[Visit, Depends(needs(Scope.READ, operator=True))]
Operating = Annotated[Visit, Depends(needs(Scope.ADMIN, operator=True))]
