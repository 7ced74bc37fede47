"""Who asks, and what they may: each request has a caller, and each route says which scope it needs (S6).

A caller belongs to one tenant, and reaches the doors of that tenant alone; an operator may name another tenant with each
request. The scope of a route stands in the OpenAPI document as `x-scope`, so that tests can try every route with too little.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated, Any, Protocol

from fastapi import Depends, Request

from ferryman.access.model import Scope, allows
from ferryman.app.doors import Doors
from ferryman.app.ferryman import Ferryman
from ferryman.http import journal
from ferryman.kernel import errors, ids

TENANT_HEADER = "Ferryman-Tenant"


@dataclass(frozen=True)
class Caller:
    """Who asks: a name for the log, a tenant, and what it may. An operator serves all tenants, one at a time."""

    name: str
    tenant: str
    scopes: frozenset[Scope]
    operator: bool = False

    def may(self, scope: Scope) -> bool:
        """Say whether a scope is among what it may."""
        return allows(self.scopes, scope)


class Guard(Protocol):
    """Who tells callers apart."""

    async def caller(self, request: Request) -> Caller:
        """Return who asks, or raise Unauthenticated."""


class Everyone:
    """The guard of a server that only this machine reaches and that has no tokens: whoever asks is the operator."""

    def __init__(self, tenant: str) -> None:
        """Serve a tenant unless another is named."""
        self._tenant = tenant

    async def caller(self, request: Request) -> Caller:
        """Return the operator."""
        return Caller("local", self._tenant, frozenset({Scope.ADMIN}), operator=True)


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


def needs(scope: Scope, *, operator: bool = False) -> Callable[[Request], Any]:
    """Return the dependency of a route that needs a scope, or an operator beside it."""

    async def enter(request: Request) -> Visit:
        state = request.app.state
        caller = await state.guard.caller(request)
        if not caller.may(scope):
            raise errors.Forbidden(f"This needs the scope {scope}.", scope=scope.value)
        if operator and not caller.operator:
            raise errors.Forbidden("This concerns all tenants, and needs a token for all of them.", scope="operator")
        tenant = _tenant(request, caller)
        request.scope[journal.CALLER], request.scope[journal.TENANT] = caller.name, tenant
        return Visit(caller, state.ferryman, state.ferryman.of(tenant))

    enter.scope = scope  # type: ignore[attr-defined] # read when the OpenAPI document is made
    enter.operator = operator  # type: ignore[attr-defined]
    return enter


def _tenant(request: Request, caller: Caller) -> str:
    named = request.headers.get(TENANT_HEADER)
    if named is None or named == caller.tenant:
        return caller.tenant
    if not caller.operator:
        raise errors.Forbidden(f"This token serves the tenant {caller.tenant} alone.", tenant=caller.tenant)
    return ids.check_name(named, "tenant")


Reading = Annotated[Visit, Depends(needs(Scope.READ))]
Writing = Annotated[Visit, Depends(needs(Scope.WRITE))]
Working = Annotated[Visit, Depends(needs(Scope.WORKER))]
Ruling = Annotated[Visit, Depends(needs(Scope.ADMIN))]
Operating = Annotated[Visit, Depends(needs(Scope.ADMIN, operator=True))]
