"""One GET over HTTP, bounded in time and size; whatever becomes of it other than an answer is told as FetchFailed."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import timedelta
from typing import TYPE_CHECKING, Any, NamedTuple

from ferryman.ingest.ports import Failure, FetchFailed
from ferryman.kernel import errors

if TYPE_CHECKING:
    import aiohttp

CONNECT_SECONDS = 10.0


class Got(NamedTuple):
    """One answer."""

    status: int
    headers: Mapping[str, str]
    body: bytes


class Wire:
    """The connections of one source."""

    def __init__(self, *, timeout: timedelta, body_limit: int) -> None:
        """Connect at the first request."""
        self._seconds = timeout.total_seconds()
        self._limit = body_limit
        self._session: aiohttp.ClientSession | None = None

    async def get(self, url: str, headers: Mapping[str, str], *, hidden: Callable[[str], str]) -> Got:
        """Send one request; `hidden` takes secrets out of what is told."""
        http = client()
        from yarl import URL

        try:
            async with self._open(http).get(
                URL(url, encoded=url.isascii() and " " not in url), headers=headers, allow_redirects=False
            ) as response:
                return Got(response.status, response.headers, await self._body(response))
        except TimeoutError:
            raise FetchFailed(f"no whole answer within {self._seconds:g} s", kind=Failure.RETRY) from None
        except http.ClientPayloadError:
            raise FetchFailed("the answer was cut short", kind=Failure.RETRY) from None
        except (http.InvalidURL, ValueError):
            raise FetchFailed("the address cannot be asked", kind=Failure.BATCH) from None
        except (http.ClientError, OSError) as error:
            raise FetchFailed(hidden(errors.said(error)), kind=Failure.RETRY) from None

    async def _body(self, response: aiohttp.ClientResponse) -> bytes:
        length = response.content_length
        if length is None or length <= self._limit:
            parts, size = [], 0
            async for part in response.content.iter_any():
                parts.append(part)
                size += len(part)
                if size > self._limit:
                    break
            else:
                return b"".join(parts)
        response.close()  # what is left of it is not wanted, and the connection with it
        raise FetchFailed(f"the answer is larger than {self._limit} bytes", kind=Failure.BATCH, status=response.status)

    def _open(self, http: Any) -> aiohttp.ClientSession:
        if self._session is None or self._session.closed:
            self._session = http.ClientSession(
                timeout=http.ClientTimeout(total=self._seconds, connect=min(CONNECT_SECONDS, self._seconds)),
                cookie_jar=http.DummyCookieJar(),
                headers={"User-Agent": "ferryman", "Accept": "application/json"},
            )
        session: aiohttp.ClientSession = self._session
        return session

    async def close(self) -> None:
        """Hang up."""
        session, self._session = self._session, None
        if session is not None:
            await session.close()


def client() -> Any:
    """Return the HTTP client, or say how to get it."""
    try:
        import aiohttp
    except ImportError:
        raise errors.IngestInvalidSource("RestSource needs aiohttp: pip install 'ferryman[ingest]'.") from None
    return aiohttp
