"""The way in: the login, the stream of changes, and the choice of light or dark."""

from __future__ import annotations

from typing import Annotated

from fastapi import Form, Request, Response
from starlette.responses import RedirectResponse

from ferryman.dashboard.page import THEMES, asset, back, pages, render
from ferryman.http import streams
from ferryman.http.callers import Reading, turned
from ferryman.http.routes.session import local, secure

router = pages()

YEAR = 365 * 86400


@router.get("/login")
async def login(request: Request, to: str = "/", failed: str = "") -> Response:
    """Ask for a token."""
    return render(request, None, "login.html", here="login", to=local(to), failed=bool(failed))


@router.get("/live")
async def live(request: Request, visit: Reading, tenant: str | None = None) -> Response:
    """Tell what changes for the tenant of a page, as it changes."""
    state = request.app.state
    if tenant is not None:
        visit = turned(request, visit, tenant)
    state.live.room()
    return streams.told(state.live.stream(visit.doors.log), closing=state.closing)


@router.post("/theme")
async def theme(
    request: Request, choice: Annotated[str, Form()] = "", back_to: Annotated[str, Form(alias="back")] = "/"
) -> Response:
    """Remember light, dark, or whatever the system says."""
    answer = back(request, back_to)
    if choice in THEMES:
        answer.set_cookie("theme", choice, max_age=YEAR, samesite="strict", secure=secure(request))
    else:
        answer.delete_cookie("theme")
    return answer


@router.get("/favicon.ico")
async def icon() -> Response:
    """Send browsers that ask for the old name to the icon."""
    return RedirectResponse(asset("ferryman.svg"))
