"""What a process did, told by itself: one file for each process, which a checker reads when all is over.

A line is in the file once `write` has returned, whoever is killed next. What was acknowledged to the writer is also flushed to
the disk, before anything else is done.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

Line = dict[str, Any]


class History:
    """The lines of one process."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        """Open the file for appending."""
        self.path = Path(path)
        self._file = os.open(self.path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)

    def write(self, what: str, *, acknowledged: bool = False, **more: object) -> None:
        """Append one line; the clock is that of the machine, which all processes share."""
        line = json.dumps({"what": what, "at": time.monotonic(), "pid": os.getpid(), **more})
        os.write(self._file, f"{line}\n".encode())
        if acknowledged:
            os.fsync(self._file)


def read(path: Path) -> Iterator[Line]:
    """Give the lines of one file; the last may be cut off by a death."""
    for text in path.read_text(encoding="utf-8").splitlines():
        try:
            yield json.loads(text)
        except ValueError:
            continue


def gather(folder: Path) -> list[Line]:
    """Give the lines of all processes in the order of time, each with the name of its file."""
    lines = [{**line, "who": file.stem} for file in sorted(folder.glob("*.history")) for line in read(file)]
    return sorted(lines, key=lambda line: float(line["at"]))
