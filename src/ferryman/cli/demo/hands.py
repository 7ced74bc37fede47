"""Worker processes of the story: real ones, `ferryman worker`, that never outlive it.

Each holds the other end of a pipe to the story; when that closes, by whatever death, it ends. They are in sessions of their
own, so that Ctrl-C reaches the story alone, which then lets them go.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import socket
import sys
import urllib.request

from ferryman.kernel.timed import timed

FENCED = 'ferryman_fenced_total{domain="task",move="settle"}'
LEASE_SECONDS = 2
POOL_SIZE = 3  # a server takes a hundred connections by default, and the story has up to six processes on it

_GONE_SECONDS = 30.0


class Hand:
    """One worker process."""

    def __init__(self, process: asyncio.subprocess.Process, port: int) -> None:
        """Hold a process that was started."""
        self.process = process
        self.pid = process.pid
        self._port = port

    def send(self, number: signal.Signals) -> None:
        """Send it a signal."""
        with contextlib.suppress(ProcessLookupError):
            self.process.send_signal(number)

    async def leave(self) -> None:
        """Let it drain."""
        self.send(signal.SIGTERM)
        await timed(self.process.wait(), _GONE_SECONDS)

    async def fenced(self) -> int:
        """Ask it how many late results it sent that touched nothing."""
        return await asyncio.to_thread(self._fenced)

    def _fenced(self) -> int:
        with urllib.request.urlopen(f"http://127.0.0.1:{self._port}/metrics", timeout=5) as answer:
            for line in answer.read().decode().splitlines():
                if line.startswith(FENCED):
                    return int(float(line.rpartition(" ")[2]))
        return 0


class Hands:
    """All worker processes of the story."""

    def __init__(self, url: str, schema: str, **environ: str) -> None:
        """Let them work on one database; `environ` is what else they are told."""
        self._environ = {
            **os.environ,
            "FERRYMAN_DATABASE_URL": url,
            "FERRYMAN_SCHEMA": schema,
            "FERRYMAN_POOL__SIZE": str(POOL_SIZE),
            "FERRYMAN_INGEST__LEASE": f"{LEASE_SECONDS}s",
            **environ,
        }
        self._environ["PYTHONPATH"] = os.pathsep.join(part for part in sys.path if part)
        self._hands: list[Hand] = []

    async def start(self, *options: str) -> Hand:
        """Start one more; options are those of `ferryman worker`."""
        port = _free_port()
        process = await asyncio.create_subprocess_exec(
            sys.executable, "-m", "ferryman.cli.leash", "worker", "--app", "ferryman.cli.demo.handlers:app",
            "--lease", f"{LEASE_SECONDS}s", "--grace", "1s", "--log-level", "error", "--metrics-port", str(port),
            *(options or ("--queues", "default")),
            env=self._environ, stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.DEVNULL, start_new_session=True,
        )  # fmt: skip
        hand = Hand(process, port)
        self._hands.append(hand)
        return hand

    def by_pid(self, pid: int) -> Hand:
        """Return the one with this process id."""
        return next(hand for hand in self._hands if hand.pid == pid)

    @property
    def alive(self) -> list[Hand]:
        """Those that have not ended."""
        return [hand for hand in self._hands if hand.process.returncode is None]

    async def close(self) -> None:
        """Let nobody stay, whatever state they are in."""
        for hand in self.alive:
            hand.send(signal.SIGCONT)
            hand.send(signal.SIGTERM)
        left = [asyncio.ensure_future(hand.process.wait()) for hand in self.alive]
        if left:
            await asyncio.wait(left, timeout=5)
        for hand in self.alive:
            hand.send(signal.SIGKILL)
            await hand.process.wait()


def _free_port() -> int:
    with socket.socket() as asked:
        asked.bind(("127.0.0.1", 0))
        port: int = asked.getsockname()[1]
        return port
