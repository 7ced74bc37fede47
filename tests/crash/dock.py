"""Where ships are built: a process that has imported everything, and forks one for each.

Most of the time before a ship sails is Python's start. What is forked here is a process like any other, with its own session,
environment, directory and output; only its imports are made already. Run as a program it serves on the socket that is
named, until its own standard input ends.
"""

from __future__ import annotations

import atexit
import gc
import json
import os
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

ROOT = Path(__file__).resolve().parents[2]
MOST = 1 << 20
WIDTH = 20


@cache
def harbour() -> str:
    """Start the process once for these tests; return where it listens."""
    path = str(Path(tempfile.mkdtemp(prefix="dock")) / "socket")
    inherited = {name: value for name, value in os.environ.items() if not name.startswith("FERRYMAN_")}
    serving = subprocess.Popen(
        [sys.executable, "-m", "tests.crash.dock", path],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        cwd=ROOT,
        env={**inherited, "PYTHONPATH": os.pathsep.join([str(ROOT / "src"), str(ROOT)])},
    )
    assert serving.stdout is not None
    serving.stdout.readline()
    atexit.register(serving.communicate)
    return path


class Launched:
    """A ship that was launched, as its owner holds it."""

    def __init__(self, plan: Mapping[str, Any], *, env: Mapping[str, str], cwd: Path, output: int) -> None:
        """Launch it."""
        self.returncode: int | None = None
        self._line = socket.socket(socket.AF_UNIX)
        self._line.connect(harbour())
        asked = json.dumps({"plan": dict(plan), "env": dict(env), "cwd": str(cwd)}).encode()
        socket.send_fds(self._line, [asked.ljust(1)], [output])
        self._line.shutdown(socket.SHUT_WR)
        self.pid = int(self._line.recv(WIDTH, socket.MSG_WAITALL))

    def poll(self) -> int | None:
        """Return how it ended; None while it lives."""
        if self.returncode is None and select.select([self._line], [], [], 0)[0]:
            self._take()
        return self.returncode

    def wait(self) -> int:
        """Wait for its end."""
        if self.returncode is None:
            self._take()
        assert self.returncode is not None
        return self.returncode

    def send_signal(self, number: int) -> None:
        """Signal it, if it lives."""
        if self.poll() is None:
            os.kill(self.pid, number)

    def _take(self) -> None:
        self.returncode = int(self._line.recv(WIDTH, socket.MSG_WAITALL))
        self._line.close()


def serve(path: str) -> None:
    """Fork for every ship that is asked for."""
    import_module("tests.crash.ship")
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # nobody waits for those that wait for ships
    server = socket.socket(socket.AF_UNIX)
    server.bind(path)
    server.listen()
    gc.collect()
    gc.freeze()  # a collection in a fork would else touch, and so copy, all that was imported
    print("ready", flush=True)
    while True:
        heard, _, _ = select.select([server, sys.stdin], [], [])
        if sys.stdin in heard:
            return
        line, _ = server.accept()
        if os.fork() == 0:
            server.close()
            attend(line)
            os._exit(0)
        line.close()


def attend(line: socket.socket) -> None:
    """Launch one ship, and tell how it ended."""
    os.setsid()  # whoever ends the tests by a signal ends ships by their own
    asked, fds, _, _ = socket.recv_fds(line, MOST, 1)
    while part := line.recv(MOST):
        asked += part
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    pid = os.fork()
    if pid == 0:
        line.close()
        become(json.loads(asked), fds[0])
    os.close(fds[0])
    line.sendall(str(pid).encode().ljust(WIDTH))
    _, status = os.waitpid(pid, 0)
    line.sendall(str(os.waitstatus_to_exitcode(status)).encode().ljust(WIDTH))


def become(asked: Mapping[str, Any], output: int) -> None:
    """Be the ship."""
    os.setsid()
    for place in (1, 2):
        os.dup2(output, place)
    os.close(output)
    os.environ.clear()
    os.environ.update(asked["env"])
    time.tzset()
    os.chdir(asked["cwd"])
    from ferryman.kernel import faults
    from tests.crash import ship

    code = 1
    try:
        if plan := os.environ.get(faults.PLAN):
            faults.arm(plan, log=os.environ.get(faults.LOG))
        ship.main(asked["plan"])
        code = 0
    except SystemExit as left:
        code = left.code if isinstance(left.code, int) else 1
    except BaseException:  # noqa: BLE001 - told as Python tells it
        sys.excepthook(*sys.exc_info())
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


if __name__ == "__main__":
    serve(sys.argv[1])
