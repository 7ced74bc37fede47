"""Calling a receiver that nobody here trusts (S6).

The address is checked where the socket is made, with the very address that is then connected to: whatever a name led to
before, and however an address is spelled, there is no second look-up in between. Redirects are not followed, no proxy of the
environment is used, no cookie is kept, and of an answer only the status counts: its body is read up to a bound, so that the
connection can be used again, or the connection is dropped.

Names are looked up in threads of this client's own, more of them than there can be calls: a look-up goes on when its call has
timed out, and a name server that does not answer for one receiver must hold up no other.
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Final

from ferryman.kernel import errors
from ferryman.relays.rules import destination
from ferryman.relays.rules.destination import Network

if TYPE_CHECKING:
    from aiohttp import ClientSession

BODY_LIMIT: Final = 16 * 1024
# A set goes over few connections. Longer, and a receiver may close one at the moment at which it is used again.
KEEPALIVE_SECONDS: Final = 2.0
THREADS: Final = 4  # for each call


class NoAnswer(Exception):
    """The receiver could not be reached, or its answer could not be read."""


class Refused(OSError):
    """This address must not be called."""


class Wire:
    """An HTTP client for receivers."""

    def __init__(self, *, timeout: timedelta, concurrency: int, allowed: Sequence[Network] = ()) -> None:
        """Give each call so much time in all, from the look-up of the name to the end of the answer."""
        _require_client()
        self._timeout = timeout.total_seconds()
        self._allowed = allowed
        self._threads = ThreadPoolExecutor(max_workers=concurrency * THREADS, thread_name_prefix="ferryman-names")
        self._session: ClientSession | None = None

    async def call(self, url: str, body: bytes, headers: Mapping[str, str]) -> int:
        """Post, and return the status of the answer."""
        import aiohttp
        from yarl import URL

        session = self._session = self._session or self._open()
        try:
            async with (
                asyncio.timeout(self._timeout),
                session.post(URL(url), data=body, headers=dict(headers), allow_redirects=False) as answer,
            ):
                await self._drain(answer)
                return answer.status
        except TimeoutError:
            raise NoAnswer(f"no answer within {self._timeout:g} s") from None
        except (aiohttp.ClientError, OSError, ValueError) as error:
            raise NoAnswer(_said(error)) from error

    async def _drain(self, answer: Any) -> None:
        """Read what may still come, up to the bound; a longer answer costs the receiver its connection."""
        read = 0
        while chunk := await answer.content.read(BODY_LIMIT):
            read += len(chunk)
            if read > BODY_LIMIT:
                answer.close()
                return

    def _open(self) -> ClientSession:
        import aiohttp

        connector = aiohttp.TCPConnector(
            limit=0,
            resolver=self._resolver(),
            use_dns_cache=False,
            keepalive_timeout=KEEPALIVE_SECONDS,
            socket_factory=self._socket,
        )
        return aiohttp.ClientSession(
            connector=connector,
            timeout=aiohttp.ClientTimeout(total=None),  # ours holds for all of it
            cookie_jar=aiohttp.DummyCookieJar(),
            auto_decompress=False,
            trust_env=False,
            headers={"Accept-Encoding": "identity", "User-Agent": "ferryman"},
        )

    def _socket(self, address: tuple[Any, ...]) -> socket.socket:
        """Make the socket for an address, if it may be called."""
        family, kind, protocol, _name, place = address
        found = destination.address(str(place[0]))
        if found is None or not destination.reachable(found, allowed=self._allowed):
            raise Refused(f"{place[0]} is {destination.PRIVATE}")
        made = socket.socket(family, kind, protocol)
        made.setblocking(False)
        return made

    def _resolver(self) -> Any:
        import aiohttp

        threads = self._threads

        class Names(aiohttp.abc.AbstractResolver):
            """Looks names up in our threads."""

            async def resolve(
                self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_UNSPEC
            ) -> list[aiohttp.abc.ResolveResult]:
                found = await asyncio.get_running_loop().run_in_executor(
                    threads, lambda: socket.getaddrinfo(host, port, family, socket.SOCK_STREAM)
                )
                return [
                    aiohttp.abc.ResolveResult(
                        hostname=host,
                        host=str(place[0]),
                        port=port,
                        family=kind,
                        proto=protocol,
                        flags=socket.AI_NUMERICHOST,
                    )
                    for kind, _type, protocol, _name, place in found
                ]

            async def close(self) -> None:
                threads.shutdown(wait=False, cancel_futures=True)

        return Names()

    async def close(self) -> None:
        """Drop all connections."""
        session, self._session = self._session, None
        if session is not None:
            await session.close()
        self._threads.shutdown(wait=False, cancel_futures=True)


def _said(error: BaseException) -> str:
    """Return why, in words that can be stored."""
    for cause in (error, error.__cause__, getattr(error, "os_error", None)):
        if isinstance(cause, Refused):
            return str(cause)
    return errors.said(error).encode("utf-8", errors="replace").decode().replace("\x00", "�")


def _require_client() -> None:
    try:
        import aiohttp  # noqa: F401 - only whether it is there
    except ImportError:
        raise errors.SettingsInvalid(
            "Webhooks need the package aiohttp: pip install 'ferryman[http-client]'.", setting="relays.webhooks"
        ) from None
