"""A Redis of our own, for the peers that have no other store: `redis-server` as it comes, its data in a directory that goes
with the run. It is not durable: what it holds is written to disk now and then.

A stage sees one database after the other, all empty at the beginning: everything is flushed. Jobs lie in database 0 and results
in 1, whose size says how many are done.
"""

from __future__ import annotations

import shutil
import socket
import subprocess
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import psutil

from bench.server import run_time
from bench.store import Counters

START_WITHIN = 10.0


def locate() -> Path:
    """Find the program, or say what to install."""
    found = shutil.which("redis-server")
    if found is None:
        raise LookupError("redis-server is not on the path (Debian: apt-get install redis-server)")
    return Path(found)


class Redis:
    """One server that listens on a unix socket alone."""

    def __init__(self, directory: Path) -> None:
        program = locate()
        directory.mkdir(parents=True)
        self.directory = directory
        self.socket = directory / "socket"
        self.process = subprocess.Popen(
            [program, "--port", "0", "--unixsocket", self.socket, "--dir", directory, "--daemonize", "no"],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        until = time.monotonic() + START_WITHIN
        while not self.socket.exists():
            if self.process.poll() is not None or time.monotonic() > until:
                raise RuntimeError("redis-server did not come up")
            time.sleep(0.01)

    def stop(self) -> None:
        self.process.kill()
        self.process.wait()
        shutil.rmtree(self.directory, ignore_errors=True)

    def url(self, database: str) -> str:
        return f"unix://{self.socket}"

    def create(self, database: str, *, template: str | None = None) -> None:
        self.drop(database)

    def drop(self, database: str) -> None:
        self.ask(["FLUSHALL"])

    def settle(self, database: str) -> None:
        """Nothing to do: there are no statistics and no checkpoint."""

    def disconnect(self, database: str) -> None:
        """Nothing to do: connections stand in nobody's way."""

    def at_rest(self, database: str) -> bool:
        """Say yes: there are no transactions that stay open."""
        return True

    @contextmanager
    def listening(self, database: str, channels: Sequence[str], presence: str) -> Iterator[Callable[[], int]]:
        """Lend a deaf ear: nobody's jobs are rung for here, they are waited for."""
        yield lambda: 0

    def counters(self, database: str) -> Counters:
        return Counters()

    @contextmanager
    def counting(self, database: str, question: str) -> Iterator[Callable[[], int]]:
        yield lambda: int(self.ask(["SELECT", question], ["DBSIZE"]).removeprefix(":"))

    def ask(self, *commands: list[str]) -> str:
        """Send commands, and return the last answer, which is one line."""
        with socket.socket(socket.AF_UNIX) as line:
            line.connect(str(self.socket))
            for command in commands:
                parts = (f"${len(part)}\r\n{part}\r\n" for part in command)
                line.sendall(f"*{len(command)}\r\n{''.join(parts)}".encode())
            with line.makefile("r", newline="\r\n") as answers:
                return [answers.readline().strip() for _ in commands][-1]

    def run_time(self) -> float:
        return run_time([psutil.Process(self.process.pid)])

    def cpu(self) -> float:
        times = psutil.Process(self.process.pid).cpu_times()
        return float(times.user + times.system + times.children_user + times.children_system)
