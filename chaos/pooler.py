"""PgBouncer in transaction mode between the processes and PostgreSQL, where it is installed (`--pooler`).

A client's next transaction may be another server's. So nothing may live in a session: no prepared statement, no lock, no
LISTEN. The doorbell listens at a direct address (FERRYMAN_LISTEN_URL), as the guide says.
"""

from __future__ import annotations

import os
import pwd
import shutil
import socket
import subprocess
import time
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

PLACES = ("/usr/sbin", "/usr/local/sbin", "/opt/homebrew/bin")
SETTINGS = """
[databases]
* = host={host} user=postgres
[pgbouncer]
listen_addr =
unix_socket_dir = {folder}
auth_type = any
pool_mode = transaction
default_pool_size = {size}
server_round_robin = {rotates:d}
max_client_conn = 500
server_login_retry = 1
logfile = {folder}/log
pidfile = {folder}/pid
"""
PORT = 6432
POOL_SIZE = 20


class Pooler:
    """One PgBouncer of our own."""

    def __init__(self, folder: Path, *, rotates: bool = False) -> None:
        """Choose where its socket is, and whether its servers take turns, or the last that was used comes first."""
        self._folder = folder
        self._rotates = rotates
        self._process: subprocess.Popen[bytes] | None = None

    def start(self, url: str) -> str:
        """Start it before a server, and return the address of its near side."""
        program = shutil.which("pgbouncer") or shutil.which("pgbouncer", path=os.pathsep.join(PLACES))
        if program is None:
            raise RuntimeError("There is no pgbouncer here.")
        parts = urlsplit(url)
        host = parse_qs(parts.query)["host"][0]
        self._folder.mkdir()
        settings = self._folder / "pgbouncer.ini"
        told = SETTINGS.format(host=host, folder=self._folder, size=POOL_SIZE, rotates=self._rotates)
        settings.write_text(told, encoding="utf-8")
        identity = {}
        if os.geteuid() == 0:  # it does not run as root
            nobody = pwd.getpwnam("nobody")
            os.chown(self._folder, nobody.pw_uid, nobody.pw_gid)
            identity = {"user": nobody.pw_uid, "group": nobody.pw_gid}
        self._process = subprocess.Popen([program, "-q", str(settings)], **identity)  # type: ignore[call-overload]
        deadline = time.monotonic() + 10
        while not _listens(self._folder / f".s.PGSQL.{PORT}"):
            if time.monotonic() > deadline or self._process.poll() is not None:
                raise RuntimeError(f"pgbouncer did not start: see {self._folder / 'log'}")
            time.sleep(0.02)
        return f"postgresql://postgres@{parts.path}?host={self._folder}&port={PORT}"

    def stop(self) -> None:
        """End it."""
        if self._process is not None:
            self._process.terminate()
            self._process.wait()


def _listens(path: Path) -> bool:
    """Tell whether it takes connections; its socket exists a moment before it does."""
    with socket.socket(socket.AF_UNIX) as probe:
        return probe.connect_ex(str(path)) == 0
