"""PostgreSQL servers whose data directory, version and address a proof chooses.

A second server can take the address of the first, as after a restore behind one name: whoever is connected comes back to it.
"""

import shutil
import signal
import subprocess
import time
from pathlib import Path
from typing import Any

from ferryman.app.embedded.place import Place, lodge

START_SECONDS = 60.0
OLDER, NEWER = "pginstall", "pginstall18"  # PostgreSQL 16 and 18, both in the wheel


class Server:
    """One data directory, and the server that runs on it."""

    def __init__(
        self, ground: Path, name: str, *, sockets: str = "sockets", install: str = NEWER, **settings: str
    ) -> None:
        self.place = lodge(ground / "place")
        self.ground = ground
        self.data = ground / name
        self.programs = _programs(self.place, ground, install)
        self._settings = {"listen_addresses": "", "max_connections": "100", **settings}
        self._process: subprocess.Popen[bytes] | None = None
        self.at(sockets)

    def at(self, sockets: str) -> None:
        """Answer at this address from the next start on."""
        self.sockets = self.ground / sockets
        self.url = f"postgresql://postgres@/postgres?host={self.sockets}"
        self._settings["unix_socket_directories"] = str(self.sockets)

    def create(self) -> None:
        """Make an empty cluster."""
        self.place.own(self.data)
        checksums = [] if self.programs.parent.name == OLDER else ["--no-data-checksums"]
        self.run(
            "initdb", "-D", self.data, "-U", "postgres", "--auth=trust", "--encoding=UTF8", "--no-locale", *checksums
        )

    def copy_of(self, primary: "Server") -> None:
        """Make a base backup of a server that runs."""
        self.place.own(self.data)
        self.run("pg_basebackup", "-D", self.data, "-c", "fast", "-h", primary.sockets, "-U", "postgres")

    def start(self) -> "Server":
        self.place.own(self.sockets)
        command = [str(self.programs / "postgres"), "-D", str(self.data)]
        for name, value in self._settings.items():
            command += ["-c", f"{name}={value}"]
        with self.log.open("ab") as log:
            self._process = subprocess.Popen(command, cwd=self.data, stdout=log, stderr=log, **self.place.identity())
        deadline = time.monotonic() + START_SECONDS
        while self._status() != "ready":
            assert self._process.poll() is None, self.log.read_text(encoding="utf-8")[-2000:]
            assert time.monotonic() < deadline, self.log.read_text(encoding="utf-8")[-2000:]
            time.sleep(0.02)
        return self

    @property
    def log(self) -> Path:
        return self.data.with_suffix(".log")

    def _status(self) -> str:
        try:
            lines = (self.data / "postmaster.pid").read_text(encoding="utf-8").splitlines()
        except FileNotFoundError:
            return ""
        assert self._process is not None
        mine = bool(lines) and lines[0] == str(self._process.pid)
        return lines[7].strip() if mine and len(lines) > 7 else ""

    def stop(self, how: signal.Signals = signal.SIGINT) -> None:
        """Stop it in good order, or let it crash with SIGQUIT."""
        process, self._process = self._process, None
        if process is not None:
            process.send_signal(how)
            process.wait()

    def run(self, program: str, *arguments: object, given: str | None = None, cwd: Path | None = None) -> str:
        """Run a program of this server's version as its user."""
        ran = subprocess.run(
            [str(self.programs / program), *map(str, arguments)],
            input=given, capture_output=True, text=True, check=False, cwd=cwd or self.place.home, **self.place.identity(),
        )  # fmt: skip
        assert ran.returncode == 0, f"{program}: {ran.stdout[-2000:]}\n{ran.stderr[-2000:]}"
        return str(ran.stdout)

    def folder(self, name: str) -> Path:
        """Make a folder that belongs to the server's user."""
        made = self.ground / name
        self.place.own(made)
        return made

    def configure(self, **settings: Any) -> None:
        """Set what counts from the next start on."""
        self._settings |= settings


def _programs(place: Place, ground: Path, install: str) -> Path:
    """Find the programs of a version; those that the server's user cannot reach are copied."""
    newer = place.bin.parent
    beside = newer.parent / install
    if beside.exists():
        return beside / "bin"
    from ferryman.app.embedded import place as places

    copied = ground / install
    if not copied.exists():
        shutil.copytree(places._find_wheel() / install, copied, symlinks=True)
    return copied / "bin"
