"""Metrics of a worker, for Prometheus, on the loopback address: a thread of its own answers while handlers are busy."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from ferryman.kernel import errors, telemetry

LOOPBACK = "127.0.0.1"


class _Answer(BaseHTTPRequestHandler):
    # Who connects and says nothing has a thread; not for ever.
    timeout = 10.0

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
