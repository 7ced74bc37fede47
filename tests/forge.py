"""Processes without Python's start: one that has imported everything forks the others.

Most of the time before a command or a worker does anything is Python's start. What is forked here is a process like any
other, with its own session, environment, directory and pipes, and ends like one; only its imports are made already.

`python -m tests.forge SOCKET` serves until its own standard input ends. It imports the whole library first: what is imported
lazily would otherwise be imported in every fork. A request names a module; its `become(words)` runs in the fork and returns the
exit code. A fork is killed when the process that requested it is gone.
"""

from __future__ import annotations

import atexit
import gc
import json
import os
import pkgutil
import select
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
MOST = 1 << 20
FDS = 3
WIDTH = 20

# Imported lazily by the library, and by what is forked.
ALSO = ("prometheus_client", "uvloop", "tests.crash.ship", "tests.ingest.hulk")


@cache
def fire() -> str:
    """Start the process that forks, once for these tests; return where it listens."""
    path = str(Path(tempfile.mkdtemp(prefix="forge")) / "socket")
    inherited = {name: value for name, value in os.environ.items() if not name.startswith("FERRYMAN_")}
    serving = subprocess.Popen(
        [sys.executable, "-m", "tests.forge", path],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        cwd=ROOT,
        env={**inherited, "PYTHONPATH": os.pathsep.join([str(ROOT / "src"), str(ROOT)])},
    )
    assert serving.stdout is not None
    serving.stdout.readline()
    atexit.register(serving.communicate)
    return path


class Forged:
    """A process that was forked, as its owner holds it."""

    def __init__(
        self, module: str, words: Any, *, env: Mapping[str, str], cwd: Path, stdio: tuple[int, int, int]
    ) -> None:
        """Fork it; `stdio` are its input, output and errors."""
        self.returncode: int | None = None
        self._line = socket.socket(socket.AF_UNIX)
        self._line.connect(fire())
        asked = json.dumps({"module": module, "words": words, "env": dict(env), "cwd": str(cwd)}).encode()
        socket.send_fds(self._line, [asked], list(stdio))
        self._line.shutdown(socket.SHUT_WR)
        self.pid = int(self._line.recv(WIDTH, socket.MSG_WAITALL))

    def poll(self) -> int | None:
        """Return how it ended; None while it lives."""
        if self.returncode is None and select.select([self._line], [], [], 0)[0]:
            self.wait()
        return self.returncode

    def wait(self, timeout: float | None = None) -> int:
        """Wait for its end; a TimeoutError says that it did not come."""
        if self.returncode is None:
            self._line.settimeout(timeout)
            self.returncode = int(self._line.recv(WIDTH, socket.MSG_WAITALL))
            self._line.close()
        return self.returncode

    def send_signal(self, number: int) -> None:
        """Signal it, if it lives."""
        if self.poll() is None:
            os.kill(self.pid, number)


def warm() -> None:
    """Import the whole library, and the programs that are forked most."""
    import ferryman

    for module in pkgutil.walk_packages(ferryman.__path__, "ferryman."):
        if not module.name.endswith("__main__"):
            import_module(module.name)
    for name in ALSO:
        import_module(name)


def serve(path: str) -> int:
    """Fork for everyone who asks; in a forked process this returns its exit code."""
    warm()
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # nobody waits for those that wait for others
    server = socket.socket(socket.AF_UNIX)
    server.bind(path)
    server.listen()
    gc.collect()
    gc.freeze()  # a collection in a fork would else touch, and so copy, all that was imported
    print("ready", flush=True)
    while True:
        heard, _, _ = select.select([server, sys.stdin], [], [])
        if sys.stdin in heard:
            return 0
        line, _ = server.accept()
        if os.fork() == 0:
            server.close()
            return attend(line)
        line.close()


def attend(line: socket.socket) -> int:
    """Fork one, and tell how it ended; returns in both processes."""
    os.setsid()  # whoever ends the tests by a signal ends these by their own
    asked, fds = receive(line)
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    pid = os.fork()
    if pid == 0:
        os.setsid()
        line.close()
        settle(asked, fds)
        return int(import_module(asked["module"]).become(asked["words"]))
    for fd in fds:
        os.close(fd)
    line.sendall(str(pid).encode().ljust(WIDTH))
    if not ended(pid, line):
        os.kill(pid, signal.SIGKILL)  # whoever asked for it is gone, and nobody else will end it
        os._exit(1)
    _, status = os.waitpid(pid, 0)
    line.sendall(str(os.waitstatus_to_exitcode(status)).encode().ljust(WIDTH))
    os._exit(0)


def ended(pid: int, line: socket.socket) -> bool:
    """Wait for its end, or for that of its owner; tell whether it was the first."""
    child = os.pidfd_open(pid)
    waiting = select.poll()
    waiting.register(child, select.POLLIN)
    waiting.register(line, 0)  # a hang-up is always told
    return any(fd == child for fd, _ in waiting.poll())


def receive(line: socket.socket) -> tuple[dict[str, Any], list[int]]:
    """Read until the other side has said all, with the pipes that came along."""
    text, fds, _, _ = socket.recv_fds(line, MOST, FDS)
    while part := line.recv(MOST):
        text += part
    return json.loads(text), fds


def settle(asked: Mapping[str, Any], fds: list[int]) -> None:
    """Take over pipes, environment and directory."""
    for place, fd in enumerate(fds):
        os.dup2(fd, place)
        os.close(fd)
    os.environ.clear()
    os.environ.update(asked["env"])
    unbuffered = bool(os.environ.get("PYTHONUNBUFFERED"))
    # The streams of the parent remember whether its own files could seek.
    sys.stdin = open(0, closefd=False)  # noqa: SIM115
    sys.stdout = open(1, "w", closefd=False, buffering=1 if unbuffered else -1)  # noqa: SIM115
    sys.stderr = open(2, "w", closefd=False, buffering=1, errors="backslashreplace")  # noqa: SIM115
    time.tzset()
    os.chdir(asked["cwd"])
    sys.path[0] = asked["cwd"]


if __name__ == "__main__":
    sys.exit(serve(*sys.argv[1:]))
