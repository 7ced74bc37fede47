"""Tenants: an operator chooses whose work the pages show.

The choice is kept in a cookie of the browser, and counts in all its tabs; a tab that still shows another tenant goes on showing
it, and does nothing until it is loaded again (see `http/callers`). Who asks stays who they are: the journal names the caller
beside the tenant.
"""

from __future__ import annotations

from typing import Annotated

from fastapi import Form, Request, Response

from ferryman.dashboard.page import back, pages, render
from ferryman.http.callers import TENANT_COOKIE, Overseeing
from ferryman.http.routes.session import secure
from ferryman.kernel import ids, telemetry

router = pages()

log = telemetry.logger("dashboard")


@router.get("/tenants")
async def tenants(request: Request, visit: Overseeing) -> Response:
    """Show the tenants of whom there is something to see."""
    counting = visit.app.counting
    named = sorted({*await counting.tenants(), visit.tenant, visit.caller.tenant})
    rows = [(each, await counting.of(each)) for each in named]
    return render(request, visit, "tenants.html", here="/tenants", rows=rows)


@router.post("/tenants")
async def choose(
    request: Request,
    visit: Overseeing,
    tenant: Annotated[str, Form()],
    back_to: Annotated[str, Form(alias="back")] = "/",
) -> Response:
    """Show the work of a tenant from now on."""
    chosen = ids.check_name(tenant.strip(), "tenant")
    answer = back(request, back_to, f"You look at the tenant {chosen} now.")
    if chosen == visit.caller.tenant:
        answer.delete_cookie(TENANT_COOKIE, httponly=True, samesite="strict", secure=secure(request))
    else:
        answer.set_cookie(TENANT_COOKIE, chosen, httponly=True, samesite="strict", secure=secure(request))
    log.info("an operator looks at a tenant", extra={"caller": visit.caller.name, "tenant": chosen})
    return answer
