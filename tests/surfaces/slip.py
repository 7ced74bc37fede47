"""Where ferries are launched: a process that has imported everything, and forks one for each command.

Most of the time that a command takes in a test is Python's start. What is forked here is a process like any other, with its own
arguments, environment, directory and pipes, and ends like one; only its imports are made already.

Run as a program it serves on the socket that is named, until its own standard input ends.
"""

from __future__ import annotations

import array
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

ROOT = Path(__file__).parent.parent.parent
MOST = 1 << 20
FDS = 3


@cache
def harbour() -> str:
    """Start the process once for these tests; return where it listens."""
    path = str(Path(tempfile.mkdtemp(prefix="slip")) / "socket")
    serving = subprocess.Popen(
        [sys.executable, "-m", "tests.surfaces.slip", path], stdin=subprocess.PIPE, stdout=subprocess.PIPE, cwd=ROOT
    )
    assert serving.stdin is not None
    assert serving.stdout is not None
    serving.stdout.readline()
    atexit.register(end, serving)
    return path


def end(serving: subprocess.Popen[bytes]) -> None:
    """Let it go when the tests have ended."""
    serving.communicate()


def launch(
    arguments: list[str], *, stdio: tuple[int, int, int], env: Mapping[str, str], cwd: Path, patience: float
) -> int:
    """Run a command with these pipes to its end; return its exit code."""
    with socket.socket(socket.AF_UNIX) as line:
        line.connect(harbour())
        asked = json.dumps({"arguments": arguments, "env": dict(env), "cwd": str(cwd)}).encode()
        socket.send_fds(line, [asked], list(stdio))
        line.shutdown(socket.SHUT_WR)
        pid = int(line.recv(20))
        line.settimeout(patience)
        try:
            return int(line.recv(20))
        except TimeoutError as error:
            os.kill(pid, signal.SIGKILL)
            raise subprocess.TimeoutExpired(arguments, patience) from error


def serve(path: str) -> int:
    """Fork for every command that comes; what a forked one comes to is its exit code."""
    from ferryman import cli

    import_module("uvloop")
    for module in pkgutil.walk_packages(cli.__path__, "ferryman.cli."):
        if not module.name.endswith("__main__"):
            import_module(module.name)
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # nobody waits for those that wait for commands
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
    """Run one command in a process of its own, and tell how it ended."""
    asked, fds = receive(line)
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    pid = os.fork()
    if pid == 0:
        line.close()
        return become(json.loads(asked), fds)
    for fd in fds:
        os.close(fd)
    line.sendall(str(pid).encode().ljust(20))
    _, status = os.waitpid(pid, 0)
    line.sendall(str(os.waitstatus_to_exitcode(status)).encode())
    return 0


def receive(line: socket.socket) -> tuple[bytes, list[int]]:
    """Read until the other side has said all, with the pipes that came along."""
    fds = array.array("i")
    text = b""
    while True:
        part, passed, _, _ = socket.recv_fds(line, MOST, FDS)
        fds.extend(passed)
        if not part:
            return text, list(fds)
        text += part


def become(asked: Mapping[str, object], fds: list[int]) -> int:
    """Be the command."""
    for place, fd in enumerate(fds):
        os.dup2(fd, place)
        os.close(fd)
    os.environ.clear()
    os.environ.update(dict(asked["env"]))  # type: ignore[call-overload]
    time.tzset()
    os.chdir(str(asked["cwd"]))
    sys.path[0] = str(asked["cwd"])
    sys.argv = ["ferryman", *list(asked["arguments"])]  # type: ignore[call-overload]
    from ferryman.cli import main

    return main()


if __name__ == "__main__":
    sys.exit(serve(sys.argv[1]))
