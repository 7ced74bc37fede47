"""Running `ferryman` as a process of its own."""

from __future__ import annotations

import json
import os
import signal
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

import psycopg

import ferryman
from tests.patience import PATIENCE_SECONDS
from tests.surfaces import slip

HERE = Path(__file__).parent
SOURCE = Path(ferryman.__file__).parent.parent
COMMAND = [sys.executable, "-m", "ferryman.cli"]


@dataclass(frozen=True)
class Ran:
    """What a command left behind."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        return json.loads(self.out)


def environ(url: str | None, **more: str) -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if not name.startswith("FERRYMAN_") and name != "COLUMNS"}
    named = {} if url is None else {"FERRYMAN_DATABASE_URL": url}
    return {**kept, "PYTHONPATH": str(SOURCE), "TERM": "dumb", **named, **more}


def run(
    *arguments: str, url: str | None = None, given: str = "", cwd: Path = HERE, patience: float = PATIENCE_SECONDS,
    **more: str,
) -> Ran:  # fmt: skip
    """Run a command to its end."""
    with tempfile.TemporaryFile("w+") as into, tempfile.TemporaryFile("w+") as out, tempfile.TemporaryFile("w+") as err:
        into.write(given)
        into.seek(0)
        stdio = (into.fileno(), out.fileno(), err.fileno())
        code = slip.launch(list(arguments), stdio=stdio, env=environ(url, **more), cwd=cwd, patience=patience)
        out.seek(0)
        err.seek(0)
        return Ran(code, out.read(), err.read())


class Running:
    """A command that runs in parallel with the test, with what it writes."""

    def __init__(self, arguments: list[str], env: dict[str, str]) -> None:
        (out, stdout), (err, stderr) = os.pipe(), os.pipe()
        with open(os.devnull, "rb") as nothing:
            self._process = slip.begin(arguments, stdio=(nothing.fileno(), stdout, stderr), env=env, cwd=HERE)
        os.close(stdout)
        os.close(stderr)
        self.stdout = os.fdopen(out, encoding="utf-8")
        self.stderr = os.fdopen(err, encoding="utf-8")
        self.pid = self._process.pid

    def send_signal(self, number: int) -> None:
        self._process.send_signal(number)

    def wait(self, timeout: float | None = None) -> int:
        return self._process.wait(timeout)

    def end(self) -> None:
        """Kill the command if it runs."""
        self._process.send_signal(signal.SIGKILL)
        self._process.wait()
        self.stdout.close()
        self.stderr.close()


@contextmanager
def running(*arguments: str, url: str) -> Iterator[Running]:
    """Run a command in parallel with the test, and kill it at the end if it still runs."""
    made = Running(list(arguments), environ(url, PYTHONUNBUFFERED="1"))
    try:
        yield made
    finally:
        made.end()


def read_until(stream: IO[str] | None, word: str) -> list[str]:
    """Read lines up to the one that holds a word."""
    assert stream is not None
    lines = []
    for line in stream:
        lines.append(line)
        if word in line:
            return lines
    raise AssertionError(f"{word!r} never came: {lines}")


@contextmanager
def worker(*arguments: str, url: str) -> Iterator[Running]:
    """Run a worker of the shop, from the moment when others can see that it lives: it says that it works before that."""
    with running("worker", "--app", "shop:app", *arguments, url=url) as process:
        read_until(process.stderr, "working")
        _wait_for_beat(url, process.pid)
        yield process


def _wait_for_beat(url: str, pid: int) -> None:
    deadline = time.monotonic() + PATIENCE_SECONDS
    with psycopg.connect(url, autocommit=True) as connection:
        while connection.execute("select from ferryman.workers where pid = %s", [pid]).fetchone() is None:
            assert time.monotonic() < deadline, "the worker never said that it lives"
            time.sleep(0.01)
