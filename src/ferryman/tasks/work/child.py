"""A handler in a child process: JSON in, JSON out, over pipes; nothing is pickled.

The parent starts `python -m ferryman.tasks.work.child module:function`, writes the payload to its standard input and reads
one answer from a pipe of its own (what the handler prints goes where the worker's output goes). The child is the leader of a
new session, so that the end of an attempt ends everything it started.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import sys
from importlib import import_module
from typing import Any

from ferryman.kernel import errors, payload
from ferryman.tasks.rules.ending import readable, said
from ferryman.tasks.rules.request import Defaults
from ferryman.tasks.work import handlers

MAIN = "__main__"


class ChildFailed(Exception):
    """The child process raised, refused, or died."""


def target(function: Any) -> str:
    """Return how a child finds a function: its module (or the file of a script) and its name."""
    module = function.__module__
    if module == MAIN:
        script = os.path.abspath(getattr(sys.modules[MAIN], "__file__", None) or "")
        return f"{script}:{function.__qualname__}"
    return f"{module}:{function.__qualname__}"


async def run(function: Any, text: str) -> Any:
    """Run a function on a payload in a child process; cancelling kills it."""
    read_end, write_end = os.pipe()
    try:
        process = await asyncio.create_subprocess_exec(
            sys.executable,
            "-m",
            "ferryman.tasks.work.child",
            target(function),
            str(write_end),
            stdin=asyncio.subprocess.PIPE,
            pass_fds=[write_end],
            start_new_session=True,
            env={**os.environ, "PYTHONPATH": os.pathsep.join(part for part in sys.path if part)},
        )
    except BaseException:
        os.close(read_end)
        raise
    finally:
        os.close(write_end)
    try:
        answer, _ = await asyncio.gather(_read(read_end), process.communicate(text.encode()))
    finally:
        if process.returncode is None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            await process.wait()
    return _answered(answer, await process.wait())


async def _read(read_end: int) -> bytes:
    loop = asyncio.get_running_loop()
    reader = asyncio.StreamReader()
    pipe = os.fdopen(read_end, "rb")
    transport, _ = await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), pipe)
    try:
        return await reader.read(-1)
    finally:
        transport.close()


def _answered(answer: bytes, code: int) -> Any:
    if not answer:
        how = f"was ended by {signal.Signals(-code).name}" if code < 0 else f"left with exit code {code}"
        raise ChildFailed(f"The child process {how} without an answer.")
    told = payload.decode(answer.decode())
    if "error" not in told:
        return told["result"]
    if told.get("retry") is False:
        raise errors.DoNotRetry(told["error"])
    raise ChildFailed(told["error"])


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


def main(where: str, answer_fd: int) -> None:
    """Read a payload, call the function, write the answer."""
    answer = _answer(where, sys.stdin.buffer.read().decode())
    with os.fdopen(answer_fd, "wb") as pipe:
        pipe.write(answer.encode())


def _answer(where: str, text: str) -> str:
    try:
        handler = handlers.declare(_find(where), name=where, process=True, defaults=Defaults())
        result = handler.function(**handler.fit(text))
    except errors.DoNotRetry as error:
        return payload.encode({"error": readable(error.reason), "retry": False})
    except BaseException as error:  # noqa: BLE001 - SystemExit too is an answer
        return payload.encode({"error": said(error)})
    try:
        return payload.encode({"result": result}, error=errors.TaskInvalidResult)
    except errors.TaskInvalidResult as error:
        return payload.encode({"error": readable(f"{error.code}: {error.message}"), "retry": False})


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
