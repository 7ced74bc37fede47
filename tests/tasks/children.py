"""Handlers that run in a child process: they stand at the top of a module, so that the child finds them."""

import os
import signal
import subprocess
import sys
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
