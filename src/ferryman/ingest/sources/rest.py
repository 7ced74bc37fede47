"""Any REST API as a source, configured by data (I14).

One GET for each page. What the answer looks like is declared once and checked then; what is secret is named by its environment
variable, read at each request, and neither kept, logged nor stored: also not inside an address that the source gives for its
next page. Requests go to the declared origin alone, whatever addresses an answer holds, because the secret goes with them.

A fetch depends on nothing but its request. What is remembered between pages serves only to notice a walk that gets nowhere.
"""

from __future__ import annotations

import inspect
import os
import time
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from datetime import UTC, datetime
from typing import Any
from urllib.parse import parse_qsl, quote, urlencode, urljoin, urlsplit, urlunsplit

import orjson

from ferryman.ingest.ports import Failure, FetchFailed, Page, Request
from ferryman.ingest.rules import limits, paging, position, rest
from ferryman.ingest.rules.chain import Chain
from ferryman.ingest.sources.failure import failure
from ferryman.ingest.sources.wire import Got, Wire, client
from ferryman.kernel import errors

CHAINS_MAX = 1000
REDIRECTS_MAX = 3
REDIRECTS = (301, 302, 303, 307, 308)
SHOWN = 200
MANY_TIMES = 2  # a page may hold so many times what was asked for; beyond it the source does not heed the size

Check = Callable[[str], Awaitable[None] | None]


class RestSource:
    """A REST API. The fields are those of the guide's page on sources, as Python values or as read from TOML or JSON.

    `check` is called with every address before it is asked; it raises to forbid it.
    """

    def __init__(self, *, check: Check | None = None, **declared: Any) -> None:
        """Check the declaration; nothing is connected yet."""
        self.rest = rest.read(declared)
        self._check = check
        self._wire = Wire(timeout=self.rest.timeout, body_limit=self.rest.body_limit)
        self._chains: OrderedDict[Any, Chain] = OrderedDict()

    def ready(self) -> None:
        """Refuse at the door what would fail at the first request: a secret that is not there, a package that is missing."""
        self._secret()
        client()

    async def fetch(self, request: Request) -> Page:
        """Return one page, or raise FetchFailed."""
        at = _position(request.position)
        url, query = self._address(request, at)
        begun = time.monotonic()
        got = await self._get(url, query)
        latency = time.monotonic() - begun
        if got.status != 200:
            raise failure(
                got.status,
                got.headers,
                now=datetime.now(UTC),
                retry_on=self.rest.retry_on,
                detail=self._hidden(_shown(got.body)),
            )
        return self._page(request, at, url, got, latency)

    def _page(self, request: Request, at: position.Position, url: str, got: Got, latency: float) -> Page:
        """Make a page of an answer."""
        try:
            body = orjson.loads(got.body)
        except orjson.JSONDecodeError as error:
            # Cut short, or a page of an error that came with a good status: it may be whole next time.
            raise FetchFailed(f"the answer is not JSON: {error}", kind=Failure.RETRY, status=got.status) from None
        try:
            items = self._items(body)
            following = paging.follow(self.rest, at, body, got.headers, items)
            next = self._canonical(following, url)
        except paging.Broken as error:
            raise FetchFailed(self._hidden(str(error)), kind=Failure.BATCH, status=got.status) from None
        if next is not None:
            self._walk(request, next, items)
        return Page(
            items=[item if isinstance(item, dict) else {"value": item} for item in items],
            next=next,
            has_next=next is not None,
            watermark=paging.watermark(self.rest, items, request.window),
            size=len(got.body),
            stats={
                "status": got.status,
                "latency_ms": round(latency * 1000, 1),
                "bytes": len(got.body),
                "headers": limits.told(got.headers),
            },
        )

    def _items(self, body: Any) -> list[Any]:
        items = self.rest.items.read(body)
        if not isinstance(items, list):
            raise paging.Broken(f"{self.rest.items}: expected a list, got {ascii(items)[:60]}")
        size = None if self.rest.paging is None else self.rest.paging.size
        if size is not None and len(items) > MANY_TIMES * size:
            raise paging.Broken(f"the page has {len(items)} items where {size} were asked for: it grows")
        return items

    def _walk(self, request: Request, next: str, items: list[Any]) -> None:
        """Refuse a step that gets nowhere."""
        key = (request.source, request.endpoint, request.operation, request.window, _frozen(request.params))
        chain = self._chains.get(key)
        if chain is None:
            chain = self._chains[key] = Chain()
            if len(self._chains) > CHAINS_MAX:
                self._chains.popitem(last=False)
        else:
            self._chains.move_to_end(key)
        empty_max = 1 if self.rest.paging is None else self.rest.paging.empty_max
        why = chain.follow(request.position, next, items, empty_max=empty_max)
        if why is not None:
            raise FetchFailed(why, kind=Failure.BATCH, status=200)

    # Addresses

    def _address(self, request: Request, at: position.Position) -> tuple[str, dict[str, str]]:
        base = self.rest.url.replace("{endpoint}", quote(request.endpoint, safe="/"))
        if at.kind == "url":
            return urljoin(base, at.place), {}
        return base, paging.query(self.rest, at, request.window, request.params)

    def _canonical(self, following: str | None, url: str) -> str | None:
        """Return the position of the next page as it is stored: an address is whole and without the secret."""
        if following is None:
            return None
        if self.rest.paging is not None and self.rest.paging.kind == "URL":
            following = f"url:{self._without_secret(urljoin(url, following))}"
        if len(following) > position.LONGEST:
            raise paging.Broken(f"the position of the next page is longer than {position.LONGEST} characters")
        return following

    def _without_secret(self, url: str) -> str:
        auth = self.rest.auth
        parts = urlsplit(url)
        if auth is None or auth.query is None or auth.query not in parts.query:
            return url
        kept = [(name, value) for name, value in parse_qsl(parts.query, keep_blank_values=True) if name != auth.query]
        return urlunsplit(parts._replace(query=urlencode(kept)))

    async def _permit(self, url: str) -> None:
        """Let no request go anywhere but to the declared origin, nor where the caller's own check forbids it."""
        if _origin(url) != _origin(self.rest.url):
            raise FetchFailed(f"{_origin(url)} is not where this source is declared", kind=Failure.BATCH)
        if self._check is None:
            return
        try:
            answer = self._check(url)
            if inspect.isawaitable(answer):
                await answer
        except FetchFailed:
            raise
        except Exception as error:  # noqa: BLE001 - whatever the caller's own check raises
            told = self._hidden(errors.said(error))
            raise FetchFailed(f"the address was forbidden: {told}", kind=Failure.BATCH) from None

    # The wire

    async def _get(self, url: str, query: dict[str, str]) -> Got:
        headers = dict(self.rest.headers)
        own = dict(query)
        try:
            secret = self._secret()
        except errors.IngestSecretMissing as error:
            raise FetchFailed(error.message, kind=Failure.AUTH) from None
        auth = self.rest.auth
        if auth is not None and auth.header is not None:
            headers[auth.header] = secret
        elif auth is not None and auth.query is not None:
            own[auth.query] = secret
        return await self._hop(url, own, headers, REDIRECTS_MAX)

    async def _hop(self, url: str, query: dict[str, str], headers: dict[str, str], left: int) -> Got:
        await self._permit(url)
        got = await self._wire.get(_with(url, query), headers, hidden=self._hidden)
        if got.status not in REDIRECTS:
            return got
        location = next((value for name, value in got.headers.items() if name.lower() == "location"), "")
        if not location or left == 0:
            raise FetchFailed(f"HTTP {got.status} leads nowhere", kind=Failure.BATCH, status=got.status)
        auth = self.rest.auth
        secret = {auth.query: query[auth.query]} if auth is not None and auth.query is not None else {}
        return await self._hop(self._without_secret(urljoin(url, location)), secret, headers, left - 1)

    async def close(self) -> None:
        """Hang up."""
        await self._wire.close()

    # The secret

    def _secret(self) -> str:
        """Read the secret, as it is sent."""
        auth = self.rest.auth
        if auth is None:
            return ""
        value = os.environ.get(auth.env, "").strip()
        if not value:
            raise errors.IngestSecretMissing(f"The environment variable {auth.env} holds no secret.", field=auth.env)
        if not value.isprintable():
            raise errors.IngestSecretMissing(
                f"The environment variable {auth.env} holds no text of one line.", field=auth.env
            )
        return auth.form.replace("{}", value)

    def _hidden(self, text: str) -> str:
        """Return a text without the secret, however it is written."""
        with suppress(errors.IngestSecretMissing):
            for secret in {self._secret(), os.environ.get(self.rest.auth.env, "").strip() if self.rest.auth else ""}:
                for spelled in (secret, quote(secret, safe=""), quote(secret)):
                    if spelled:
                        text = text.replace(spelled, "***")
        return text

    def __repr__(self) -> str:
        return f"RestSource(url={self.rest.url!r})"


def _position(text: str) -> position.Position:
    try:
        return position.read(text)
    except ValueError as error:
        raise FetchFailed(str(error), kind=Failure.BATCH) from None


def _with(url: str, query: Mapping[str, str]) -> str:
    """Return an address with parameters; those of the same name are replaced."""
    if not query:
        return url
    parts = urlsplit(url)
    kept = [(name, value) for name, value in parse_qsl(parts.query, keep_blank_values=True) if name not in query]
    return urlunsplit(parts._replace(query=urlencode([*kept, *query.items()])))


def _origin(url: str) -> str:
    """Return scheme, host and port of an address."""
    try:
        parts = urlsplit(url)
        port = parts.port or {"http": 80, "https": 443}.get(parts.scheme, 0)
    except ValueError:
        return "an address that cannot be read"
    return f"{parts.scheme}://{parts.hostname}:{port}"


def _shown(body: bytes) -> str:
    """Return the beginning of an answer, for people."""
    text = body[:SHOWN].decode("utf-8", "replace").strip()
    return f": {''.join(each if each.isprintable() else ' ' for each in text)}" if text else ""


def _frozen(params: Mapping[str, Any]) -> Any:
    return tuple(sorted((name, repr(value)) for name, value in params.items()))
