"""A private PostgreSQL 18 that comes with a wheel, for a first day without a server.

It is a real PostgreSQL, reached only through a socket file in a private directory, and it belongs to a directory of the
user's: two projects never meet in one set of data. Any number of processes may use it at once. Each holds a shared lock on
a file; a small keeper process, the server's parent, waits for the exclusive lock on the same file and so learns that
the last one has gone, by whatever death, and stops the server. Starting and stopping go under a second lock, so that
two that start at once end up with one server.

PostgreSQL refuses to run as root. Started by root it runs as `nobody`; where that user may go is in place.py. No
permission is changed outside the directories made here.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Final, Self
from urllib.parse import quote

from ferryman.app.embedded import keeper
from ferryman.app.embedded.locks import Lock
from ferryman.app.embedded.place import Place, lodge
from ferryman.kernel import errors

START_TIMEOUT_SECONDS: Final = 30.0
STOP_TIMEOUT_SECONDS: Final = 10.0
_PATIENCE_SECONDS: Final = 0.005

# For tests: a crash of the machine may lose everything, so nothing waits for the disk. A database lives for one test: nobody
# cleans up in the middle, which would take locks and hold up readers of the log at some chance moment, once in many minutes.
_CARELESS = {
    "fsync": "off",
    "synchronous_commit": "off",
    "full_page_writes": "off",
    "wal_level": "minimal",
    "max_wal_senders": "0",
    "max_wal_size": "1GB",
    "checkpoint_timeout": "1h",
    "shared_buffers": "64MB",
    "autovacuum": "off",
}


class Embedded:
    """The PostgreSQL of one directory; `start()` gives its address."""

    def __init__(
        self,
        directory: str | os.PathLike[str],
        *,
        durable: bool = True,
        keep: bool = True,
        settings: Mapping[str, str] | None = None,
    ) -> None:
        """Choose the directory; `durable=False` does not wait for the disk, `keep=False` removes the data at the end.

        `settings` are PostgreSQL's, for a server that we start; those given here have the last word.
        """
        self.directory = Path(directory).absolute()
        self.durable = durable
        self.keep = keep
        self._settings = dict(settings or {})
        self._place: Place | None = None
        self._using: Lock | None = None

    @property
    def url(self) -> str:
        """Where to connect, while started."""
        return self.address("postgres")

    @property
    def programs(self) -> Path:
        """The folder of psql, pg_dump and their like, while started."""
        if self._place is None:
            raise errors.NotOpen("The embedded PostgreSQL has not been started.")
        return self._place.bin

    def address(self, database: str) -> str:
        """Return where to connect to one of its databases."""
        if self._place is None or self._using is None:
            raise errors.NotOpen("The embedded PostgreSQL has not been started.")
        return f"postgresql://postgres@/{quote(database)}?host={quote(str(self._place.sockets), safe='/')}"

    def start(self) -> str:
        """Start the server, or join those who use it already, and return its address."""
        if self._using is None:
            place = lodge(self.directory)
            while not self._enter(place):
                place = lodge(self.directory)
        return self.url

    def _enter(self, place: Place) -> bool:
        """Take a share in the server; False if the place was swept away while we waited at its door."""
        with Lock(place.home / keeper.DOOR) as door:
            using = Lock(place.home / keeper.USERS)
            # Waits here while a keeper is stopping the server that the last one left.
            using.share()
            try:
                if not (door.current() and using.current()):
                    using.release()
                    return False
                self._ensure(place)
            except BaseException:
                using.release()
                raise
        self._place, self._using = place, using
        return True

    def _ensure(self, place: Place) -> None:
        if not _answers(place):
            _clear(place)
            if not (place.data / "PG_VERSION").exists():
                self._create(place)
            _launch(place, self._command(place), keep=self.keep)
        elif not _kept(place):
            # The keeper was killed and the server was not: give it a new one.
            _launch(place, [], keep=self.keep)
        _wait_ready(place)

    def _create(self, place: Place) -> None:
        """Make the data aside and move it in at the end: a crash in the middle leaves nothing half made."""
        fresh = place.home / "data.new"
        shutil.rmtree(fresh, ignore_errors=True)
        place.own(fresh)
        command = [str(place.bin / "initdb"), "-D", str(fresh), "-U", "postgres", "--auth=trust", "--encoding=UTF8"]
        command += ["--no-locale", "--locale-provider=builtin", "--builtin-locale=C.UTF-8", "--no-instructions"]
        if not self.durable:
            command.append("--no-sync")
        made = subprocess.run(
            command, cwd=fresh, env=_environment(), capture_output=True, text=True, check=False, **place.identity()
        )
        if made.returncode != 0:
            raise errors.EmbeddedUnavailable(f"The embedded PostgreSQL could not be made: {_last_words(made.stderr)}")
        fresh.rename(place.data)

    def _command(self, place: Place) -> list[str]:
        settings = {
            "listen_addresses": "",
            "unix_socket_directories": str(place.sockets),
            "unix_socket_permissions": "0700",
            "max_connections": "200",  # a worker may have some twenty
        }
        if not self.durable:
            settings |= _CARELESS
        settings |= self._settings
        command = [str(place.bin / "postgres"), "-D", str(place.data)]
        for name, value in settings.items():
            command += ["-c", f"{name}={value}"]
        return command

    def stop(self) -> None:
        """Give up our share; the last one out waits until the server has stopped."""
        using, self._using = self._using, None
        if using is None or self._place is None or not using.is_open:
            return
        home = self._place.home
        with Lock(home / keeper.DOOR):
            last = using.alone()
            using.release()
            if last:
                # The keeper holds this lock for its life.
                Lock(home / keeper.KEEPER).wait_free(STOP_TIMEOUT_SECONDS)
                if not self.keep:
                    for made in self._place.made():
                        shutil.rmtree(made, ignore_errors=True)

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()


def _environment() -> dict[str, str]:
    """Say what the server's processes see: nothing of ours that could change what they do."""
    return {"PATH": os.defpath, "LC_ALL": "C", "TZ": "UTC"}


def _launch(place: Place, command: list[str], *, keep: bool) -> None:
    """Start the keeper, and through it the server; it outlives us and leaves our terminal alone."""
    place.own(place.sockets)
    removed = "" if keep else os.pathsep.join(map(str, place.made()))
    arguments = [sys.executable, "-I", "-S", keeper.__file__, str(place.home), removed, str(place.uid), str(place.gid)]
    arguments += command
    with open(place.home / "log", "wb", opener=_private) as log:
        # It forks: what we wait for here ends at once, and says `kept` when the keeper holds its lock.
        said = subprocess.run(
            arguments, cwd="/", env=_environment(), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=log,
            start_new_session=True, check=False,
        )  # fmt: skip
    if said.stdout != keeper.KEPT:
        raise _did_not_start(place)


def _private(path: str, flags: int) -> int:
    return os.open(path, flags | os.O_NOFOLLOW, 0o600)


def _wait_ready(place: Place) -> None:
    deadline = time.monotonic() + START_TIMEOUT_SECONDS
    while time.monotonic() < deadline:
        if place.status() == "ready":
            return
        if not _kept(place):
            break
        time.sleep(_PATIENCE_SECONDS)
    raise _did_not_start(place)


def _did_not_start(place: Place) -> errors.EmbeddedUnavailable:
    words = _last_words((place.home / "log").read_text(encoding="utf-8", errors="replace"))
    return errors.EmbeddedUnavailable(f"The embedded PostgreSQL in {place.home} did not start: {words}")


def _kept(place: Place) -> bool:
    return not Lock(place.home / keeper.KEEPER).is_free()


def _answers(place: Place) -> bool:
    """Say whether the server is there and listens; its orphans hold the socket open for a moment after its death."""
    if not place.alive():
        return False
    with socket.socket(socket.AF_UNIX) as door:
        try:
            door.connect(str(place.socket))
        except OSError:
            return False
    return True


def _clear(place: Place) -> None:
    """Remove what a killed server left, once nobody of it is alive any more."""
    deadline = time.monotonic() + STOP_TIMEOUT_SECONDS
    while inhabitants := place.inhabitants():
        late = time.monotonic() > deadline
        for pid in inhabitants:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL if late else signal.SIGQUIT)
        time.sleep(_PATIENCE_SECONDS)
    left = [place.socket, Path(f"{place.socket}.lock")]
    if inhabitants is not None:
        # Its number may have been given to a stranger since, which PostgreSQL would take for the old server.
        left.append(place.data / "postmaster.pid")
    for path in left:
        path.unlink(missing_ok=True)


def _last_words(text: str) -> str:
    return " ".join(line.strip() for line in text.strip().splitlines()[-3:]) or "it said nothing."
