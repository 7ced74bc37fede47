"""Listening: one socket, bound before anything is said, and a server that ends when it is told to (S6).

Beyond the loopback address nothing is served without tokens: who could reach it could do everything. So nothing starts
there before there is one; and there no number of tokens that are revoked later opens it.
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from ipaddress import ip_address

import uvicorn

from ferryman.app.ferryman import Ferryman
from ferryman.http.callers import Guard
from ferryman.http.connections import Connections
from ferryman.http.doorkeeper import Doorkeeper
from ferryman.http.server import make
from ferryman.kernel import errors

BACKLOG = 2048
AT_ONCE = 32


@dataclass(frozen=True)
class Served:
    """A server that answers."""

    host: str
    port: int

    @property
    def url(self) -> str:
        """Where it is."""
        named = f"[{self.host}]" if ":" in self.host else self.host
        return f"http://{named}:{self.port}"


@asynccontextmanager
async def serving(
    app: Ferryman, *, guard: Guard | None = None, host: str | None = None, port: int | None = None
) -> AsyncIterator[Served]:
    """Serve an opened app as long as the block lasts; a port that is taken, or an address too open, is told before."""
    host = app.settings.http.host if host is None else host
    if guard is None:
        guard = await _doorkeeper(app, host)
    bound = _bind(host, app.settings.http.port if port is None else port)
    made = make(app, guard=guard)
    connections = Connections(app.settings.http)
    web = uvicorn.Server(
        uvicorn.Config(
            made, log_config=None, access_log=False, lifespan="off", server_header=False,
            # There are no websockets: a connection that changed its protocol would be out of sight.
            http=connections.protocol(), ws="none",
            # asyncio accepts as many in one turn of its loop, before any of them can be counted.
            backlog=AT_ONCE,
            # Nobody else's word counts for who asks.
            proxy_headers=bool(app.settings.http.proxies), forwarded_allow_ips=list(app.settings.http.proxies),
            timeout_graceful_shutdown=max(1, round(app.settings.worker.grace.total_seconds())),
        )
    )  # fmt: skip
    running = asyncio.create_task(web._serve([bound]))  # noqa: SLF001 - `serve` would take the signals of the process
    with connections.watched():
        try:
            while not web.started:
                await asyncio.wait([running], timeout=0.01)
                if running.done():
                    running.result()
                    raise errors.WorkerBroken("The HTTP server ended before it answered.", part="http")
            bound.listen(BACKLOG)  # whoever comes meanwhile stands in line before the door
            yield Served(host, bound.getsockname()[1])
        finally:
            # Streams and long requests end by themselves; what is short is answered, within the grace period.
            made.state.closing.set()
            web.should_exit = True
            await asyncio.gather(running, return_exceptions=True)
            bound.close()


async def _doorkeeper(app: Ferryman, host: str) -> Doorkeeper:
    here = ip_address(host).is_loopback
    if not here and not await app.tokens.usable():
        raise errors.SettingsInvalid(
            f"http.host: {host} can be reached from outside, and there are no tokens. Make one with `ferryman token create`.",
            field="http.host",
        )
    return Doorkeeper(app, here=here)


def _bind(host: str, port: int) -> socket.socket:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    bound = socket.socket(family, socket.SOCK_STREAM)
    bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        bound.bind((host, port))
        bound.listen(BACKLOG)
    except (OSError, OverflowError) as error:
        bound.close()
        why = getattr(error, "strerror", None) or "it is no number from 0 to 65535"
        raise errors.SettingsInvalid(f"http.port: {port} on {host} cannot be used: {why}.", field="http.port") from None
    bound.setblocking(False)
    return bound
