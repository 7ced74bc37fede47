"""Handlers that run in a child process: they stand at the top of a module, so that the child finds them."""

import atexit
import os
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pydantic

from ferryman import DoNotRetry


class Parcel(pydantic.BaseModel):
    weight: int
    to: str = "nobody"


def double(n: int) -> int:
    print("what a handler prints goes elsewhere")
    return n * 2


def weigh(parcel: Parcel) -> dict[str, object]:
    return {"weight": parcel.weight, "to": parcel.to, "pid": os.getpid()}


def hang(file: str) -> None:
    """Say who is there, itself and a child of its own, and wait for ever."""
    inner = subprocess.Popen([sys.executable, "-c", "import signal; signal.pause()"])
    Path(file).write_text(f"{os.getpid()} {inner.pid}", encoding="utf-8")
    signal.pause()


def raises(text: str) -> None:
    raise ValueError(f"{text}\0{text}")


def refuse(text: str) -> None:
    raise DoNotRetry(text)


def leave(code: int) -> None:
    sys.exit(code)


def vanish() -> None:
    os._exit(9)


def die() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def unfit() -> object:
    return {1, 2}


def large() -> str:
    return "x" * 2 * 1024 * 1024


def fork(file: str) -> str:
    """Leave a process behind that has all that this one has, and return."""
    inner = os.fork()
    if inner == 0:
        signal.pause()
    Path(file).write_text(str(inner), encoding="utf-8")
    return "done"


def fork_twice() -> int:
    """Return in the fork, too."""
    return 0 if os.fork() == 0 else 1


def fork_and_vanish(file: str) -> None:
    fork(file)
    os._exit(9)


def say_goodbye(file: str) -> str:
    """Do something at the end of the process, after the answer."""
    atexit.register(Path(file).write_text, "goodbye", encoding="utf-8")
    return "done"


def linger(file: str) -> str:
    """Leave a thread behind that the process waits for."""
    threading.Thread(target=threading.Event().wait).start()
    Path(file).write_text(str(os.getpid()), encoding="utf-8")
    return "done"
