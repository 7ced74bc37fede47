"""What stands before every route: who asks is found out once, and nothing comes in or goes out without its limits (S6).

Whoever is not known gets no further than the addresses in PUBLIC: a route whose author forgot to say what it needs is not
open for it. Then a request may be so large, take so long and come so often, and an answer carries the headers that tell
browsers to run nothing but our own files. A stream lasts longer than a request may: whoever reads it is looked at again as
it goes on, so that it ends soon after the token does.

It is plain ASGI around the whole application, so that it also holds for what the framework answers by itself.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Iterable
from typing import Final
from urllib.parse import quote

from starlette.requests import HTTPConnection
from starlette.responses import RedirectResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from ferryman.http import problems
from ferryman.http.callers import FOUND, Caller, Guard
from ferryman.http.doorkeeper import address
from ferryman.http.head import Call
from ferryman.http.rates import Open, Rates
from ferryman.kernel import errors, telemetry
from ferryman.kernel.settings import Http

log = telemetry.logger("http")

PUBLIC: Final = frozenset(
    {"/healthz", "/readyz", "/openapi.json", "/login", "/logout", "/theme", "/favicon.ico", "/robots.txt"}
)
PUBLIC_FILES: Final = "/static/"
# Nobody is known there, and a form with a token is short; to take a large one apart would be work for anybody's asking.
PUBLIC_BODY: Final = 64 * 1024
LOGIN: Final = "/login"

ADDRESS_LIMIT: Final = 8 * 1024
HEADERS_LIMIT: Final = 32 * 1024
HEADERS_MOST: Final = 100
STREAM_SECONDS: Final = 3600.0
LOOK_SECONDS: Final = 5.0

CSP: Final = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; font-src 'self'; "
    "manifest-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
)
HEADERS: Final[tuple[tuple[bytes, bytes], ...]] = (
    (b"content-security-policy", CSP.encode()),
    (b"x-content-type-options", b"nosniff"),
    (b"x-frame-options", b"DENY"),
    # Not no-referrer: with it a browser hides the origin of our own forms, which is how we know them.
    (b"referrer-policy", b"same-origin"),
    (b"permissions-policy", b"camera=(), display-capture=(), geolocation=(), microphone=(), payment=(), usb=()"),
    (b"cross-origin-opener-policy", b"same-origin"),
    (b"cross-origin-resource-policy", b"same-origin"),
)
_NAMES: Final = frozenset(name for name, _ in HEADERS)
_STREAM: Final = b"text/event-stream"
_LINES: Final = re.compile(rb"[\r\n\0]")
NOT_KEPT: Final = (b"cache-control", b"no-store")


class Defence:
    """The outermost part of a server."""

    def __init__(self, app: ASGIApp, *, guard: Guard, settings: Http) -> None:
        """Stand before an application."""
        self._app = app
        self._guard = guard
        self._hosts = frozenset(settings.hosts)
        self._rates = Rates(rate=settings.rate, burst=settings.burst)
        self.streams = Open(most=settings.streams, each=settings.streams_of_one)
        self.body_limit = settings.body_limit
        self.seconds = settings.request_time.total_seconds()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        if scope["type"] == "lifespan":
            await self._app(scope, receive, send)
        elif scope["type"] == "websocket":
            await send({"type": "websocket.close", "code": 1008, "reason": "There are no websockets here."})
        else:
            await Exchange(self, scope, receive, send).run(self._app)

    async def let_in(self, request: HTTPConnection) -> Caller | None:
        """Return who asks, or None where anybody may; refuse whatever should go no further."""
        check_head(request.scope)
        path = request.scope["path"]
        caller = None
        if not is_public(path):
            caller = await self._guard.caller(request)
            self._check_host(request, caller)
        wait = self._rates.take(address(request) if caller is None else caller.key)
        if wait:
            raise errors.RateExceeded(retry_after=wait)
        return caller

    def _check_host(self, request: HTTPConnection, caller: Caller) -> None:
        host = request.headers.get("host", "").lower()
        name = host.partition("]")[0] + "]" if host.startswith("[") else host.partition(":")[0]
        if self._hosts and caller.key != address(request) and name not in self._hosts:
            raise errors.HostRefused(f"This server does not answer to {ascii(name)[:80]}.")

    async def still(self, request: HTTPConnection) -> bool:
        """Say whether who reads a stream is still known."""
        try:
            await self._guard.caller(request)
        except errors.Unauthenticated:
            return False
        except errors.FerrymanError:
            return True  # it could not be found out; the next look will tell
        return True


def is_public(path: str) -> bool:
    """Say whether an address is there for everybody."""
    return path in PUBLIC or path.startswith(PUBLIC_FILES)


def check_head(scope: Scope) -> None:
    """Refuse an address or headers that are too large, and an address that no text can be made of."""
    query: bytes = scope.get("query_string", b"")
    headers: Iterable[tuple[bytes, bytes]] = scope["headers"]
    sizes = [len(name) + len(value) for name, value in headers]
    if (
        len(scope.get("raw_path") or scope["path"].encode()) + len(query) > ADDRESS_LIMIT
        or len(sizes) > HEADERS_MOST
        or sum(sizes) > HEADERS_LIMIT
    ):
        raise errors.HeadTooLarge()
    if b"%00" in query or b"\0" in query or not scope["path"].isprintable():
        raise errors.RequestInvalid("The address has a character that no text has.", field="address")


class Exchange:
    """One request and its answer."""

    def __init__(self, defence: Defence, scope: Scope, receive: Receive, send: Send) -> None:
        """Count what comes in, and look at what goes out."""
        self._defence = defence
        self._scope = scope
        self._receive = receive
        self._send = send
        self._request = Call(scope, receive)
        self._read = 0
        self._limit = min(defence.body_limit, PUBLIC_BODY) if is_public(scope["path"]) else defence.body_limit
        self._refusal: errors.FerrymanError | None = None
        self._began = False
        self._over = False
        self._stream: str | None = None
        self._looking: asyncio.Task[None] | None = None
        self._timer = asyncio.timeout(defence.seconds)

    async def run(self, app: ASGIApp) -> None:
        """Let the application answer, within its time."""
        try:
            async with self._timer:
                await self._answer(app)
        except TimeoutError:
            if not self._timer.expired():
                raise
            await self._out_of_time()
        finally:
            if self._stream is not None:
                self._defence.streams.leave(self._stream)
            if self._looking is not None:
                self._looking.cancel()

    async def _answer(self, app: ASGIApp) -> None:
        try:
            self._check_length()
            caller = await self._defence.let_in(self._request)
        except errors.Unauthenticated as error:
            await self._reply(self._to_login() or problems.problem(error, instance=self._scope["path"]))
        except errors.FerrymanError as error:
            await self._reply(problems.problem(error, instance=self._scope["path"]))
        else:
            self._scope[FOUND] = caller
            await app(self._scope, self._take, self._give)

    def _check_length(self) -> None:
        length = self._request.headers.get("content-length", "")
        if length.isdigit() and (len(length) > 18 or int(length) > self._limit):
            raise self._too_large()

    def _too_large(self) -> errors.BodyTooLarge:
        return errors.BodyTooLarge(f"The body of this request is larger than {self._limit} bytes.", limit=self._limit)

    def _to_login(self) -> Response | None:
        """Send a person's browser to the page where one signs in; a program is told what is wrong."""
        headers = self._request.headers
        if "text/html" not in headers.get("accept", "") or "ferryman-part" in headers:
            return None
        here = self._scope["path"] + (f"?{query.decode('latin-1')}" if (query := self._scope["query_string"]) else "")
        to = f"?to={quote(here, safe='')}" if self._scope["method"] == "GET" and here != "/" else ""
        return RedirectResponse(LOGIN + to, status_code=303)

    async def _reply(self, answer: Response) -> None:
        await answer(self._scope, self._receive, self._give)

    async def _take(self) -> Message:
        """Read on, up to the limit: also of a body that did not say how long it is."""
        message = await self._receive()
        if message["type"] == "http.request":
            self._read += len(message.get("body", b""))
            if self._read > self._limit:
                self._refusal = self._too_large()
                raise self._refusal
        return message

    async def _give(self, message: Message) -> None:
        if self._over:
            return
        if message["type"] == "http.response.start":
            await self._begin(message)
        else:
            await self._send(message)

    async def _begin(self, message: Message) -> None:
        self._began = True
        headers, streams = defended(message.get("headers", []))
        if headers is None:
            log.error("a header of an answer had more than one line", extra={"path": self._scope["path"]})
            self._refusal = errors.FerrymanError("This is our fault; the server's log says more.")
        elif self._refusal is None and streams:
            self._begin_stream()
        if self._refusal is not None:
            # However the application took it: this is what is told.
            refusal, self._refusal = self._refusal, None
            await self._reply(problems.problem(refusal, instance=self._scope["path"]))
            self._end()
            return
        await self._send({**message, "headers": headers})

    def _begin_stream(self) -> None:
        key = caller.key if (caller := self._scope.get(FOUND)) is not None else address(self._request)
        if not self._defence.streams.enter(key):
            self._refusal = errors.RateExceeded("Too many streams are open at once.", retry_after=5)
            return
        self._stream = key
        self._looking = asyncio.create_task(self._look())
        self._timer.reschedule(asyncio.get_running_loop().time() + STREAM_SECONDS)

    async def _look(self) -> None:
        """End a stream soon after its reader is not let in any more."""
        while True:
            await asyncio.sleep(LOOK_SECONDS)
            if not await self._defence.still(self._request):
                self._over = True
                await self._send({"type": "http.response.body", "body": b"", "more_body": False})
                self._end()
                return

    def _end(self) -> None:
        """Let the application do no more for this request."""
        self._over = True
        self._timer.reschedule(asyncio.get_running_loop().time())

    async def _out_of_time(self) -> None:
        if self._over:
            return
        if self._stream is not None:
            await self._send({"type": "http.response.body", "body": b"", "more_body": False})
        elif not self._began:
            log.warning("a request took too long", extra={"path": self._scope["path"], "method": self._scope["method"]})
            await self._reply(problems.problem(errors.RequestTimedOut(), instance=self._scope["path"]))


def defended(headers: Iterable[tuple[bytes, bytes]]) -> tuple[list[tuple[bytes, bytes]] | None, bool]:
    """Return the headers of an answer with those that defend it, and whether it is a stream.

    Kept is nothing, unless the answer says otherwise. A header of more than one line is somebody else's: none then.
    """
    made, streams, kept = list(HEADERS), False, False
    for name, value in headers:
        if _LINES.search(value):
            return None, False
        lower = name.lower()
        if lower in _NAMES:
            continue
        if lower == b"content-type":
            streams = value.startswith(_STREAM)
        elif lower == b"cache-control":
            kept = True
        made.append((lower, value))
    if not kept:
        made.append(NOT_KEPT)
    return made, streams
