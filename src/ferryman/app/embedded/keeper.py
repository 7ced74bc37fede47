"""The parent of an embedded server: stops it when the last process that used it has gone.

Run as a script by path, with the standard library alone, so that it starts in some milliseconds and stays small. It waits
for the exclusive lock on the file that every user shares; the kernel gives a dead process's share back, also after
SIGKILL. While it holds that lock nobody can join; then it stops the server, and ends.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

DOOR = "door.lock"
USERS = "users.lock"
KEEPER = "keeper.lock"
KEPT = b"kept\n"

_FAST_SECONDS = 5.0
_PATIENCE_SECONDS = 0.01


def main(arguments: list[str]) -> int:
    """Keep the server of one home: HOME REMOVED UID GID [COMMAND...]; without a command, adopt the one there."""
    home, removed, uid, gid = Path(arguments[0]), arguments[1], int(arguments[2]), int(arguments[3])
    command = arguments[4:]
    if os.fork():
        return 0
    users = os.open(home / USERS, os.O_RDWR | os.O_CLOEXEC)
    life = os.open(home / KEEPER, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    fcntl.flock(life, fcntl.LOCK_EX)
    server = _serve(command, home, uid, gid) if command else None
    os.write(1, KEPT)
    os.close(1)
    if server is not None:
        # A server that ends by itself (or never came up) must not leave a keeper that says it is kept.
        threading.Thread(target=_leave_with, args=(server,), daemon=True).start()
    fcntl.flock(users, fcntl.LOCK_EX)
    _stop(server, home)
    for made in filter(None, removed.split(os.pathsep)):
        shutil.rmtree(made, ignore_errors=True)
    return 0


def _serve(command: list[str], home: Path, uid: int, gid: int) -> subprocess.Popen[bytes]:
    other = uid != os.geteuid()
    return subprocess.Popen(
        command,
        cwd=home / "data",
        stdin=subprocess.DEVNULL,
        stdout=sys.stderr,
        user=uid if other else None,
        group=gid if other else None,
        extra_groups=[] if other else None,
        umask=0o077,
        # Out of reach of a signal to our group: only we stop it.
        start_new_session=True,
    )


_stopping = threading.Event()


def _leave_with(server: subprocess.Popen[bytes]) -> None:
    server.wait()
    if not _stopping.is_set():
        os._exit(1)


def _stop(server: subprocess.Popen[bytes] | None, home: Path) -> None:
    """Ask for a fast stop, and for an immediate one if that takes long."""
    _stopping.set()
    pid = server.pid if server is not None else _pid(home)
    for ask, seconds in (
        (signal.SIGINT, _FAST_SECONDS),
        (signal.SIGQUIT, _FAST_SECONDS),
        (signal.SIGKILL, _FAST_SECONDS),
    ):
        if pid is None:
            return
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, ask)
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            if _gone(server, home):
                return
            time.sleep(_PATIENCE_SECONDS)


def _gone(server: subprocess.Popen[bytes] | None, home: Path) -> bool:
    # An adopted server is no child of ours: the last thing it does is to remove its file.
    return server.poll() is not None if server is not None else _pid(home) is None


def _pid(home: Path) -> int | None:
    """Return the process of an adopted server, never a stranger who was given its number after its death."""
    try:
        pid = int((home / "data" / "postmaster.pid").read_text(encoding="utf-8").split("\n", 1)[0])
        if Path("/proc/self/cwd").exists() and Path(f"/proc/{pid}/cwd").readlink() != home / "data":
            return None
    except (OSError, ValueError):
        return None
    return pid


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
