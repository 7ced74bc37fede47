"""Pages: templates filled with what doors answered, and what is said when a door refuses.

Every page extends `frame.html`. When the script asks for the fresh parts of a page it sends the header `Ferryman-Part`, and the
same page is made without its frame; the script then swaps each element that has an id and `data-live`.

Actions are forms. Without the script the answer is a redirect back to where the form stood; the script sends the same form and
follows the same redirect. What the action did, or why it was refused, is told once on the page that follows: it travels in a
cookie that lives for some seconds, so that a reload does not tell it again. A form whose tenant is no longer the chosen one is
refused by a page of its own: where it stood, another tenant's page stands now.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Coroutine
from functools import cache
from http import HTTPStatus
from importlib import resources
from typing import Any
from urllib.parse import quote, unquote

from fastapi import APIRouter, Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.routing import APIRoute
from jinja2 import Environment, PackageLoader, StrictUndefined
from starlette.exceptions import HTTPException
from starlette.responses import HTMLResponse, RedirectResponse

from ferryman.access.model import Scope
from ferryman.dashboard import names, spelling
from ferryman.dashboard.navigation import NAVIGATION, page_of
from ferryman.dashboard.pictures import colours
from ferryman.http import problems
from ferryman.http.callers import Visit
from ferryman.http.journal import PREFIX
from ferryman.http.routes.session import local, secure
from ferryman.kernel import errors

PART = "Ferryman-Part"
THEMES = ("light", "dark")
SAID = "ferryman_said"
SAID_SECONDS = 20
SAID_MAX = 600
TITLES = {403: "Not allowed", 404: "Not found", 422: "Not understood"}

Handler = Callable[[Request], Coroutine[Any, Any, Response]]


@cache
def templates() -> Environment:
    """Return the templates; whatever they are given is text, never markup."""
    made = Environment(
        loader=PackageLoader("ferryman.dashboard"), autoescape=True, undefined=StrictUndefined, trim_blocks=True,
        lstrip_blocks=True,
    )  # fmt: skip
    made.filters |= {**spelling.FILTERS, **names.FILTERS, "colour": colours.colour}
    made.globals |= {"asset": asset, "navigation": NAVIGATION, "page_of": page_of}
    return made


@cache
def asset(name: str) -> str:
    """Return the address of a file beside the pages; another content has another address."""
    content = (resources.files("ferryman.dashboard") / "static" / name).read_bytes()
    return f"/static/{name}?v={hashlib.sha256(content).hexdigest()[:12]}"


def render(request: Request, visit: Visit | None, template: str, *, status: int = 200, **values: Any) -> Response:
    """Fill a template for a visit; `here` of the values names the place in the navigation."""
    theme = request.cookies.get("theme")
    said = request.cookies.get(SAID)
    text = templates().get_template(template).render(
        visit=visit,
        csrf="" if visit is None else visit.csrf,
        may_write=visit is not None and visit.caller.may(Scope.WRITE),
        may_rule=visit is not None and visit.caller.may(Scope.ADMIN),
        operator=visit is not None and visit.caller.operator,
        frame="part.html" if PART in request.headers else "frame.html",
        path=_path(request),
        theme=theme if theme in THEMES else None,
        said=None if said is None else unquote(said)[:SAID_MAX],
        now=spelling.now(),
        **{"here": "", **values},
    )  # fmt: skip
    answer = HTMLResponse(text, status_code=status)
    if said is not None:
        answer.delete_cookie(SAID)
    return answer


def back(request: Request, to: str, said: str = "") -> Response:
    """Send the browser to a page of ours after an action, and let that page tell what was done."""
    answer = RedirectResponse(local(to), status_code=303)
    if said:
        answer.set_cookie(
            SAID, quote(said[:SAID_MAX]), max_age=SAID_SECONDS, httponly=True, samesite="strict", secure=secure(request)
        )
    return answer


class Door(APIRoute):
    """A route of pages: a refusal is a page, or is told where the form stood. Who is not known does not come so far."""

    def get_route_handler(self) -> Handler:
        """Wrap the framework's own."""
        inner = super().get_route_handler()

        async def handle(request: Request) -> Response:
            try:
                return await inner(request)
            except (errors.FerrymanError, RequestValidationError) as error:
                return await _refused(request, error)

        return handle


def pages(**terms: Any) -> APIRouter:
    """Return a router for pages."""
    return APIRouter(route_class=Door, include_in_schema=False, **terms)


async def _refused(request: Request, error: errors.FerrymanError | RequestValidationError) -> Response:
    told = error if isinstance(error, errors.FerrymanError) else problems.unfit(error)
    status = problems.status(told)
    if status == 500:
        raise error
    to = None
    if request.method == "POST":
        to = (await request.form()).get("back")
        if to is not None and not isinstance(told, errors.TenantChanged):
            return back(request, str(to), " ".join(part for part in (told.message, told.advice) if part))
    return render(
        request, None, "refused.html", status=status, title=TITLES.get(status, HTTPStatus(status).phrase), code=told.code,
        message=told.message, advice=_advice(told), again=None if to is None else local(to),
    )  # fmt: skip


def _advice(told: errors.FerrymanError) -> str:
    """Return what a person at a browser can do; the advice for programs names what only programs see."""
    programs = isinstance(told, errors.RequestInvalid | errors.RouteUnknown)
    return "Check the address, or find it by its id or name." if programs else told.advice


async def lost(request: Request, error: Exception) -> Response:
    """Tell a browser by a page that there is nothing at an address; a program is told as ever, whatever it takes."""
    assert isinstance(error, HTTPException)
    programs = request.url.path.startswith(f"{PREFIX}/")
    looks = request.method == "GET" and "text/html" in request.headers.get("accept", "") and not programs
    if error.status_code != 404 or not looks:
        return await problems.refused(request, error)
    return await _refused(request, errors.RouteUnknown())


def _path(request: Request) -> str:
    query = request.url.query
    return request.url.path + (f"?{query}" if query else "")
