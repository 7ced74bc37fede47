"""Files as a sink: one for each page, JSONL or Parquet (I14).

A file is named by its batch key and comes into being whole, by a rename: a page that is written again takes the place of its
own file and of no other. Nothing is overwritten by anything older; who reads the files takes the newest of each key.
"""

from __future__ import annotations

import hashlib
import os
import re
import secrets
from abc import ABC, abstractmethod
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import orjson

from ferryman.ingest.ports import Item, Written
from ferryman.ingest.sinks.call import PAGES_AT_ONCE
from ferryman.kernel import errors
from ferryman.kernel.db import Tx
from ferryman.tasks.work.threads import Threads

_PLAIN = re.compile(r"[A-Za-z0-9_-][A-Za-z0-9_.-]{0,99}")


class FileSink(ABC):
    """A directory of files."""

    same_database = False
    suffix = ""

    def __init__(self, directory: str | os.PathLike[str]) -> None:
        """Choose the directory; it is made at the first write."""
        self.directory = Path(directory)
        self._threads = Threads(PAGES_AT_ONCE)  # its own, as of a function: a disk may never answer

    def path(self, batch_key: str) -> Path:
        """Return where a page is kept; a key that is no plain name is kept under its hash."""
        name = batch_key if _PLAIN.fullmatch(batch_key) else hashlib.sha256(batch_key.encode()).hexdigest()
        return self.directory / f"{name}{self.suffix}"

    async def write(self, tx: Tx | None, items: Sequence[Item], *, batch_key: str) -> Written:
        """Write a page, in a thread."""
        written: Written = await self._threads.run(lambda: self._write(items, self.path(batch_key)))
        return written

    def _write(self, items: Sequence[Item], path: Path) -> Written:
        if not items and not path.exists():
            return Written(0)
        body, bad = self.encode(items)
        path.parent.mkdir(parents=True, exist_ok=True)
        _place(path, body)
        return Written(len(items) - len(bad), bad)

    @abstractmethod
    def encode(self, items: Sequence[Item]) -> tuple[bytes, list[tuple[Item, str]]]:
        """Return the file, and the records that cannot be part of it."""


class JsonlSink(FileSink):
    """One JSON object a line."""

    suffix = ".jsonl"

    def encode(self, items: Sequence[Item]) -> tuple[bytes, list[tuple[Item, str]]]:
        """Write line by line."""
        lines, bad = [], []
        for item in items:
            try:
                lines.append(orjson.dumps(item, option=orjson.OPT_APPEND_NEWLINE))
            except orjson.JSONEncodeError as error:
                bad.append((item, errors.said(error)))
        return b"".join(lines), bad


class ParquetSink(FileSink):
    """Parquet, by pyarrow. Without a schema each file has that of its own records."""

    suffix = ".parquet"

    def __init__(self, directory: str | os.PathLike[str], *, schema: Any = None) -> None:
        """Choose the directory, and a `pyarrow.Schema` if the files are to be alike."""
        super().__init__(directory)
        self._schema = schema
        _pyarrow()

    def encode(self, items: Sequence[Item]) -> tuple[bytes, list[tuple[Item, str]]]:
        """Write one row group; where the page does not fit together, each record is tried by itself."""
        arrow = _pyarrow()
        import pyarrow.parquet

        bad: list[tuple[Item, str]] = []
        try:
            made = arrow.Table.from_pylist(list(items), schema=self._schema)
        except (arrow.ArrowInvalid, arrow.ArrowTypeError, OverflowError):
            good, schema = [], self._schema
            for item in items:
                try:
                    alone = arrow.Table.from_pylist([item], schema=schema)
                except (arrow.ArrowInvalid, arrow.ArrowTypeError, OverflowError) as error:
                    bad.append((item, errors.said(error)))
                else:
                    schema = schema or alone.schema
                    good.append(item)
            made = arrow.Table.from_pylist(good, schema=schema)
        out = arrow.BufferOutputStream()
        pyarrow.parquet.write_table(made, out)
        body: bytes = out.getvalue().to_pybytes()
        return body, bad


def _pyarrow() -> Any:
    try:
        import pyarrow
    except ImportError:
        raise errors.IngestInvalidSink("ParquetSink needs pyarrow: pip install 'ferryman[parquet]'.") from None
    return pyarrow


def _place(path: Path, body: bytes) -> None:
    """Let a file come into being whole, and be there after a power cut."""
    part = path.with_name(f".{path.name}.{secrets.token_hex(4)}.part")
    try:
        with part.open("wb") as file:
            file.write(body)
            file.flush()
            os.fsync(file.fileno())
        part.replace(path)
    except BaseException:
        part.unlink(missing_ok=True)
        raise
    folder = os.open(path.parent, os.O_RDONLY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)
