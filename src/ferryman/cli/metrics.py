"""Metrics of a worker, for Prometheus, on the loopback address: a thread of its own answers while handlers are busy."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from ferryman.kernel import errors, telemetry

LOOPBACK = "127.0.0.1"


# Who connects has a thread; not for ever, whether it says nothing or one byte now and then.
LONGEST_SECONDS = 10.0


class _Answer(BaseHTTPRequestHandler):
    def setup(self) -> None:
        """Begin; its time begins too."""
        super().setup()
        self._over = threading.Timer(LONGEST_SECONDS, self._hang_up)
        self._over.daemon = True
        self._over.start()

    def finish(self) -> None:
        """End."""
        self._over.cancel()
        super().finish()

    def _hang_up(self) -> None:
        with suppress(OSError):  # it has gone by itself
            self.connection.shutdown(socket.SHUT_RDWR)

    def do_GET(self) -> None:
        """Answer /metrics."""
        if self.path.partition("?")[0] != "/metrics":
            self.send_error(404, "The metrics are at /metrics")
            return
        body = telemetry.exposition()
        self.send_response(200)
        self.send_header("Content-Type", "text/plain; version=0.0.4; charset=utf-8")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:
        """Keep quiet: a scrape every few seconds is not news."""


@contextmanager
def serving(port: int) -> Iterator[None]:
    """Answer on a port as long as the block lasts; 0 means not at all."""
    if port == 0:
        yield
        return
    try:
        server = ThreadingHTTPServer((LOOPBACK, port), _Answer)
    except (OSError, OverflowError) as error:
        raise errors.UsageInvalid(f"--metrics-port {port} cannot be used: {str(error).rstrip('.')}.") from error
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, name="ferryman-metrics", daemon=True)
    thread.start()
    try:
        yield
    finally:
        server.shutdown()
        server.server_close()
