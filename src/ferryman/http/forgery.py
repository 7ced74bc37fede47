"""Requests that another site lets a browser send (CSRF): known by their origin, and by the word that they cannot know.

A browser says where a request comes from (Sec-Fetch-Site, Origin), and no page can change that. Whoever changes something
must come from our own pages, as far as the browser tells; programs that are no browser tell nothing. Beside that, a request
that is known by its cookie brings along a word that only our pages know: in the header X-CSRF-Token, or as the field `csrf`
of a form.
"""

from __future__ import annotations

import hmac
from typing import Final
from urllib.parse import urlsplit

from starlette.requests import HTTPConnection, Request

from ferryman.kernel import errors

HEADER: Final = "X-CSRF-Token"
FIELD: Final = "csrf"
SAFE: Final = frozenset({"GET", "HEAD", "OPTIONS"})
FORMS: Final = frozenset({"application/x-www-form-urlencoded", "multipart/form-data", "text/plain"})
OURS: Final = frozenset({"same-origin", "none"})


def check_origin(request: HTTPConnection) -> None:
    """Refuse a change that a page of another site asks for."""
    if request.scope["method"] in SAFE:
        return
    site = request.headers.get("sec-fetch-site")
    origin = request.headers.get("origin")
    if (site is not None and site not in OURS) or (origin is not None and not _ours(origin, request)):
        raise errors.Forbidden("This was asked for by a page of another site.", origin=(origin or site or "")[:200])


def _ours(origin: str, request: HTTPConnection) -> bool:
    # Not the scheme: a proxy that ends TLS leaves us with http.
    try:
        return urlsplit(origin).netloc.lower() == request.headers.get("host", "").lower() != ""
    except ValueError:
        return False


async def check(request: Request, csrf: str, *, always: bool) -> None:
    """Refuse a change without the word of our own pages; what is no form needs it only if `always`."""
    if request.method in SAFE:
        return
    check_origin(request)
    if (always or is_form(request)) and not same(await given(request), csrf):
        raise errors.Forbidden(
            f"The {HEADER} header, or the field {FIELD} of the form, is missing or out of date. Load the page again.",
            field=FIELD,
        )


def is_form(request: HTTPConnection) -> bool:
    """Say whether a page of any site could have sent this kind of body."""
    return request.headers.get("content-type", "").partition(";")[0].strip().lower() in FORMS


async def given(request: Request) -> str:
    """Return the word that a request brings along."""
    if (header := request.headers.get(HEADER)) is not None:
        return header
    found = (await request.form()).get(FIELD) if is_form(request) else None
    return found if isinstance(found, str) else ""


def same(given: str, wanted: str) -> bool:
    """Compare two words in a time that tells nothing."""
    return bool(wanted) and hmac.compare_digest(given.encode(), wanted.encode())
