"""Signing in with a token, and out: the answers to the dashboard's forms.

The page with the form is the dashboard's. A program that sends JSON is answered in JSON; a form leads on to a page.
"""

from __future__ import annotations

from typing import Any, Final
from urllib.parse import quote, urlsplit

from fastapi import APIRouter, Request, Response
from starlette.responses import RedirectResponse

from ferryman.access import rules
from ferryman.access.intake import Begun
from ferryman.http import forgery
from ferryman.http.answers import Answer
from ferryman.http.bodies import read
from ferryman.http.callers import TENANT_COOKIE
from ferryman.http.doorkeeper import COOKIE, address
from ferryman.kernel import errors, telemetry

log = telemetry.logger("http")

router = APIRouter(include_in_schema=False)

HOME: Final = "/"
LOGIN: Final = "/login"


@router.post("/login")
async def sign_in(request: Request) -> Response:
    """Begin a session for whoever brings a token (`token`), and lead on to where they wanted to go (`to`)."""
    forgery.check_origin(request)
    form = forgery.is_form(request)
    asked: dict[str, Any] = dict(await request.form()) if form else await read(request)
    token = asked.get("token")
    state = request.app.state
    state.wrongs.check(request)
    begun = await state.ferryman.tokens.sign_in(token.strip()) if isinstance(token, str) else None
    if begun is None:
        state.wrongs.count(request)
        log.warning("a wrong token was brought to the login", extra={"caller": address(request)})
        if not form:
            raise errors.Unauthenticated("This token is unknown, expired or revoked.")
        return RedirectResponse(f"{LOGIN}?failed=1&to={quote(local(asked.get('to')), safe='')}", status_code=303)
    answer: Response = RedirectResponse(local(asked.get("to")), status_code=303) if form else Answer(_told(begun))
    log.info("somebody signed in", extra={"token": begun.grant.name, "caller": address(request)})
    _give(answer, request, begun)
    return answer


@router.post("/logout")
async def sign_out(request: Request) -> Response:
    """End the session of whoever asks; the next one begins at its own tenant."""
    secret = request.cookies.get(COOKIE, "")
    if rules.is_session(secret):
        await forgery.check(request, rules.csrf(secret), always=True)
        await request.app.state.ferryman.tokens.sign_out(secret)
    answer: Response = RedirectResponse(LOGIN, status_code=303) if forgery.is_form(request) else Answer({})
    for name in (COOKIE, TENANT_COOKIE):
        answer.delete_cookie(name, path=HOME, httponly=True, samesite="strict", secure=secure(request))
    return answer


def _told(begun: Begun) -> dict[str, Any]:
    return {"name": begun.grant.name, "ends_at": begun.ends_at, "csrf": rules.csrf(begun.secret)}


def _give(answer: Response, request: Request, begun: Begun) -> None:
    lasts = request.app.state.ferryman.settings.http.session
    answer.set_cookie(
        COOKIE,
        begun.secret,
        max_age=int(lasts.total_seconds()),
        path=HOME,
        httponly=True,
        samesite="strict",
        secure=secure(request),
    )


def secure(request: Request) -> bool:
    """Say whether a browser is to send a cookie over TLS alone."""
    return request.url.scheme == "https"


def local(path: object) -> str:
    """Return a path of ours; whatever would lead elsewhere leads to the first page."""
    if not isinstance(path, str) or not path.startswith("/") or path.startswith("//") or "\\" in path:
        return HOME
    try:
        parts = urlsplit(path)
    except ValueError:
        return HOME
    return HOME if parts.scheme or parts.netloc or not path.isascii() or not path.isprintable() else path
