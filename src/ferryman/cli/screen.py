"""Where answers go: tables for people, JSON for programs.

What a task's creator or handler wrote is shown as text, never obeyed: no markup, and control characters are spelled out, so
that an error message cannot speak to the reader's terminal.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import Any
from uuid import UUID

from rich import box
from rich.console import Console
from rich.progress import BarColumn, Progress, ProgressColumn, SpinnerColumn, TextColumn, TimeElapsedColumn
from rich.table import Table
from rich.text import Text

from ferryman.app.doctor.report import plain
from ferryman.cli.spelling import clean, moment

# A table that goes into a file or a pipe is not folded at the width of a terminal that is not there.
WIDE = 220

STYLES = {
    "succeeded": "green", "failed": "red", "cancelled": "yellow", "running": "cyan", "ready": "blue", "pending": "blue",
    "active": "green", "paused": "yellow", "good": "green", "bad": "bold red", "note": "yellow",
}  # fmt: skip


class Screen:
    """One command's output."""

    def __init__(self, *, json: bool = False) -> None:
        """Decide once whether a person or a program reads."""
        self.json = json
        self.out = _console(sys.stdout)
        self.err = _console(sys.stderr)

    def document(self, value: Any) -> None:
        """Write the one JSON document of an answer."""
        sys.stdout.write(json.dumps(value, ensure_ascii=False, default=plain, indent=2) + "\n")

    def line(self, value: Any) -> None:
        """Write one JSON line of an answer that goes on, at once."""
        sys.stdout.write(json.dumps(value, ensure_ascii=False, default=plain) + "\n")
        sys.stdout.flush()

    def print(self, text: str | Text | Table, *, style: str | None = None) -> None:
        """Write a part of the answer for people."""
        self.out.print(clean(text) if isinstance(text, str) else text, style=style)

    def say(self, text: str, *, style: str | None = None) -> None:
        """Tell a person something that is not the answer."""
        self.err.print(clean(text), style=style)

    def table(self, columns: Sequence[str], rows: Iterable[Sequence[Any]]) -> None:
        """Write a table; the word of a state is coloured."""
        table = Table(*columns, box=box.SIMPLE_HEAD, pad_edge=False, header_style="bold")
        for row in rows:
            table.add_row(*(cell(each) for each in row))
            for column, each in zip(table.columns, row, strict=False):
                if isinstance(each, UUID):
                    column.min_width = len(str(each))  # half an id is of no use to anybody
        self.out.print(table)

    def pairs(self, pairs: Iterable[tuple[str, Any]]) -> None:
        """Write names with their values."""
        table = Table(box=None, show_header=False, pad_edge=False)
        table.add_column(style="dim", no_wrap=True)
        table.add_column(overflow="fold")
        for name, value in pairs:
            if value is not None and value != "":
                table.add_row(name, cell(value))
        self.out.print(table)

    def bar(self, *columns: ProgressColumn) -> Progress:
        """Make a progress bar, on stderr; where nobody looks it stays silent."""
        shown = columns or (
            SpinnerColumn(), TextColumn("{task.description}"), BarColumn(), TextColumn("{task.percentage:>3.0f} %"),
            TextColumn("{task.fields[word]}"), TimeElapsedColumn(),
        )  # fmt: skip
        return Progress(*shown, console=self.err, transient=False, disable=self.json or not self.lively)

    @property
    def lively(self) -> bool:
        """Whether somebody looks who can see a line change."""
        return self.err.is_terminal and not self.err.is_dumb_terminal


def _console(stream: Any) -> Console:
    seen = stream.isatty()
    width = None if seen or "COLUMNS" in os.environ else WIDE
    return Console(file=stream, markup=False, highlight=False, emoji=False, width=width, soft_wrap=False)


def cell(value: Any) -> Text:
    """Return a value as it stands in a table."""
    if isinstance(value, Text):
        return value
    if value is None:
        return Text("")
    if isinstance(value, datetime):
        return Text(moment(value))
    text = clean(str(value))
    return Text(text, style=STYLES.get(text, ""))
