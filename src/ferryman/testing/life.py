"""One life of a worker that a trial with crashes lets die (R9): a process of its own, forked from the test.

It dies where it was told, by a real SIGKILL, and says before at which place; or it lives until nothing is due. It is held by
one end of a pair of sockets: when the other end closes, by whatever death of the test, it dies too.
"""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import socket
import sys
import threading
import traceback
import warnings
from collections.abc import Awaitable, Callable

from ferryman.app.ferryman import Ferryman
from ferryman.testing import crashes

_LOOK_SECONDS = 0.01


async def live(app: Ferryman, place: int, work: Callable[[Ferryman], Awaitable[None]]) -> tuple[int, str]:
    """Work in a process of its own until nothing is due, or until it dies; return how it ended, and at which place."""
    ours, theirs = socket.socketpair()
    with warnings.catch_warnings():
        # Python warns when other threads live. The child touches nothing of theirs: it makes a loop and connections of its own.
        warnings.simplefilter("ignore", DeprecationWarning)
        child = os.fork()
    if child == 0:
        ours.close()
        _be(app, place, work, theirs)
    theirs.close()
    try:
        while True:
            pid, status = os.waitpid(child, os.WNOHANG)  # noqa: ASYNC222 - it does not wait
            if pid:
                return os.waitstatus_to_exitcode(status), _last_words(ours)
            await asyncio.sleep(_LOOK_SECONDS)
    except BaseException:
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)  # noqa: ASYNC222 - it is gone
        raise
    finally:
        ours.close()


def _last_words(ours: socket.socket) -> str:
    """Return what it said; processes that it had started may hold its side open, and say nothing."""
    ours.setblocking(False)
    try:
        return ours.recv(100).decode()
    except BlockingIOError:
        return ""


def _be(app: Ferryman, place: int, work: Callable[[Ferryman], Awaitable[None]], mother: socket.socket) -> None:
    """Be the forked process: never return."""
    code = 1
    try:
        threading.Thread(target=_follow, args=(mother,), daemon=True).start()
        _speak()
        # Held until the end, so that nothing of the mother's is closed by being forgotten here.
        _mothers, app._opened = app._opened, None  # noqa: SLF001
        crashes.arm(place, lambda name: mother.send(name.encode()))
        asyncio.run(_open(app, work))
        code = 0
    except BaseException:  # noqa: BLE001 - said, and told by the exit code
        traceback.print_exc()
    finally:
        sys.stderr.flush()
        os._exit(code)


def _speak() -> None:
    """Let the log be seen beside the failure: what pytest keeps of it, in the memory of this process, dies with it."""
    root = logging.getLogger()
    if not any(getattr(each, "stream", None) in (sys.stdout, sys.stderr) for each in root.handlers):
        spoken = logging.StreamHandler()
        spoken.setFormatter(logging.Formatter("%(levelname)s %(name)s: %(message)s"))
        root.addHandler(spoken)


def _follow(mother: socket.socket) -> None:
    """Die with the mother, whatever her death: what her handlers do is wanted by nobody any more."""
    mother.recv(1)  # nothing ever comes, but the end of her side
    os.kill(os.getpid(), signal.SIGKILL)


async def _open(app: Ferryman, work: Callable[[Ferryman], Awaitable[None]]) -> None:
    async with app:
        await work(app)
