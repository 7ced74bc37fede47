"""A handler in a child process: JSON in, JSON out, over pipes; nothing is pickled.

The parent starts `python -m ferryman.tasks.work.child module:function`, writes the payload to its standard input and reads
one answer from a pipe of its own (what the handler prints goes where the worker's output goes). The answer says its length
first and is whole when that much has come: what the handler started may hold the pipe open, and nobody waits for it.

The child is the leader of a new session. However its attempt ends, also by an answer, its process group is killed, and with
it everything that the handler started and that has not made a group of its own. If the worker dies first, the child does that
itself: it holds one end of a pipe whose other end only the worker has, and a thread waits there for the end. That thread is a
thread of Python: a handler that never lets go of the interpreter is not killed until it does.
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
import os
import signal
import sys
import threading
import warnings
from asyncio.subprocess import PIPE, Process
from importlib import import_module
from typing import Any, BinaryIO

from ferryman.kernel import errors, payload
from ferryman.tasks.rules.ending import UNREADABLE, readable, said
from ferryman.tasks.rules.request import Defaults
from ferryman.tasks.work import handlers

MAIN = "__main__"
LENGTH = 8  # bytes that say how long the answer is
LEAVING = 2.0  # seconds after the answer for what a process does at its end: its atexit hooks, threads it waits for


class ChildFailed(Exception):
    """The child process raised, refused, or died."""


class UnfitResult(errors.TaskInvalidResult):
    """What the handler returned in the child cannot be stored."""


def target(function: Any) -> str:
    """Return how a child finds a function: its module (or the file of a script) and its name."""
    module = function.__module__
    if module == MAIN:
        script = os.path.abspath(getattr(sys.modules[MAIN], "__file__", None) or "")
        return f"{script}:{function.__qualname__}"
    return f"{module}:{function.__qualname__}"


async def run(function: Any, text: str) -> Any:
    """Run a function on a payload in a child process; when it has ended, or is cancelled, its process group is killed."""
    with contextlib.ExitStack() as ends:
        answer, told = _pipe(ends)
        leash, _ = _pipe(ends)  # whose other end is held until the end
        process = await _start(target(function), told.fileno(), leash.fileno())
        told.close()
        leash.close()
        try:
            heard = await _converse(process, answer, text)
        finally:
            # Also when the leader has gone: what it left behind is in its group.
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(process.pid, signal.SIGKILL)
            code = await process.wait()
    return _answered(heard, code)


def _pipe(ends: contextlib.ExitStack) -> tuple[BinaryIO, BinaryIO]:
    """Return the two ends of a pipe, which are closed in any case."""
    read_end, write_end = os.pipe()
    return ends.enter_context(os.fdopen(read_end, "rb")), ends.enter_context(os.fdopen(write_end, "wb"))


async def _start(where: str, told: int, leash: int) -> Process:
    return await asyncio.create_subprocess_exec(
        sys.executable,
        "-m",
        "ferryman.tasks.work.child",
        where,
        str(told),
        str(leash),
        stdin=PIPE,
        pass_fds=[told, leash],
        start_new_session=True,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(part for part in sys.path if part)},
    )


async def _converse(process: Process, pipe: BinaryIO, text: str) -> bytes | None:
    """Give the child its payload; return its answer, or None if there is none."""
    reading = asyncio.create_task(_read(pipe))
    leaving = asyncio.create_task(process.communicate(text.encode()))
    try:
        await asyncio.wait({reading, leaving}, return_when=asyncio.FIRST_COMPLETED)
        if reading.done() and reading.result() is None:
            await leaving  # it has closed its end, but may be at work
        else:
            await asyncio.wait({reading, leaving}, timeout=LEAVING)
        return reading.result() if reading.done() else None
    finally:
        reading.cancel()
        leaving.cancel()
        await asyncio.gather(reading, leaving, return_exceptions=True)


async def _read(pipe: BinaryIO) -> bytes | None:
    reader = asyncio.StreamReader()
    loop = asyncio.get_running_loop()
    transport, _ = await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), pipe)
    try:
        return await reader.readexactly(int.from_bytes(await reader.readexactly(LENGTH), "big"))
    except asyncio.IncompleteReadError:
        return None
    finally:
        transport.close()


def _answered(answer: bytes | None, code: int) -> Any:
    if answer is None:
        how = f"was ended by {_signal(-code)}" if code < 0 else f"left with exit code {code}"
        raise ChildFailed(f"The child process {how} without an answer.")
    told = payload.decode(answer.decode())
    if "error" not in told:
        return told["result"]
    if told.get("unfit"):
        raise UnfitResult(told["error"])
    if told.get("retry") is False:
        raise errors.DoNotRetry(told["error"])
    raise ChildFailed(told["error"])


def _signal(number: int) -> str:
    known = {each.value: each.name for each in signal.Signals}
    return known.get(number, f"signal {number}")


def _find(where: str) -> Any:
    module, _, name = where.rpartition(":")
    if os.sep in module:
        import runpy

        found: Any = runpy.run_path(module, run_name="__ferryman_child__")[name.split(".")[0]]
        rest = name.split(".")[1:]
    else:
        found, rest = import_module(module), name.split(".")
    for part in rest:
        found = getattr(found, part)
    return found


def main(where: str, answer_fd: int, leash_fd: int) -> None:
    """Read a payload, call the function, write the answer."""
    os.set_inheritable(answer_fd, False)
    os.set_inheritable(leash_fd, False)
    os.register_at_fork(after_in_child=functools.partial(_mute, answer_fd))
    # A handler may fork as if there were no thread: this one holds no lock.
    warnings.filterwarnings("ignore", message=".*multi-threaded, use of fork", category=DeprecationWarning)
    threading.Thread(target=_hold, args=(leash_fd,), name="ferryman-leash", daemon=True).start()
    answer = _answer(where, sys.stdin.buffer.read().decode()).encode()
    with os.fdopen(answer_fd, "wb") as pipe:
        pipe.write(len(answer).to_bytes(LENGTH, "big"))
        pipe.write(answer)


def _hold(leash_fd: int) -> None:
    """Wait until the worker is gone; then end this process and its group."""
    with contextlib.suppress(OSError):  # a handler has closed what it does not know
        while os.read(leash_fd, 1):
            continue
        os.killpg(os.getpid(), signal.SIGKILL)


def _mute(answer_fd: int) -> None:
    """What the handler forks neither answers nor holds the answer's pipe."""
    null = os.open(os.devnull, os.O_WRONLY)
    os.dup2(null, answer_fd, inheritable=False)
    os.close(null)


def _answer(where: str, text: str) -> str:
    try:
        handler = handlers.declare(_find(where), name=where, process=True, defaults=Defaults())
        result = handler.function(**handler.fit(text))
    except BaseException as error:  # noqa: BLE001 - SystemExit too is an answer
        return _failure(error)
    try:
        return payload.encode({"result": result}, error=errors.TaskInvalidResult)
    except errors.TaskInvalidResult as error:
        return payload.encode({"error": readable(error.message), "unfit": True})
    except BaseException as error:  # noqa: BLE001 - the result's own code can raise anything
        return _failure(error)


def _failure(error: BaseException) -> str:
    refused = issubclass(type(error), errors.DoNotRetry)
    try:
        text = readable(errors.said(error.reason)) if isinstance(error, errors.DoNotRetry) else said(error)
    except BaseException:  # noqa: BLE001 - what was raised is broken
        text = UNREADABLE
    return payload.encode({"error": text, "retry": not refused})


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]))
