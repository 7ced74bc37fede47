"""How the story is told: bars where somebody looks, plain lines where nobody does; and what did not hold is remembered."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from textwrap import wrap

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn

from ferryman.cli import exits
from ferryman.cli.screen import Screen
from ferryman.cli.spelling import clean

EVERY_SECONDS = 1.0


class Tale:
    """One telling."""

    def __init__(self, screen: Screen) -> None:
        """Tell on stdout, or beside it when stdout is for a program."""
        self._console: Console = screen.err if screen.json else screen.out
        self._began = time.monotonic()
        self._act = 0
        self.broken: list[str] = []

    def act(self, title: str) -> None:
        """Begin the next part."""
        self._act += 1
        self._console.print(f"\n{self._act}. {clean(title)}", style="bold")

    def tell(self, text: str, *, mark: str = "", style: str | None = None) -> None:
        """Say what happens, and when; what does not fit goes on under its own beginning."""
        lead = f"   {time.monotonic() - self._began:5.1f} s  {mark}"
        told = wrap(clean(text), self._console.width - len(lead), break_on_hyphens=False)
        self._console.print(lead + f"\n{' ' * len(lead)}".join(told), style=style)

    def hold(self, held: bool, text: str) -> None:
        """Say that something held, or remember that it did not."""
        if held:
            self.tell(text, mark="ok  ", style="green")
        else:
            self.broken.append(text)
            self.tell(text, mark="NOT ", style="bold red")

    def plain(self, text: str, *, style: str | None = None) -> None:
        """Say something outside the story's time."""
        indent = " " * (len(text) - len(text.lstrip()))
        told = wrap(clean(text), self._console.width, subsequent_indent=indent, break_on_hyphens=False)
        self._console.print("\n".join(told), style=style)

    @property
    def fancy(self) -> bool:
        """Whether there are more characters than those of ASCII."""
        return self._console.encoding.lower().startswith("utf")

    def draw(self, lines: Sequence[str]) -> None:
        """Show a picture, as it is."""
        for line in lines:
            self._console.print(f"            {clean(line)}", style="cyan", soft_wrap=True)

    def verdict(self) -> int:
        """Say whether all of it held, and return the exit code for that."""
        if not self.broken:
            self.plain("All of it held.")
            return exits.OK
        self.plain(f"{len(self.broken)} did not hold:", style="bold red")
        for text in self.broken:
            self.plain(f"  {text}")
        return exits.FAILED

    @contextmanager
    def counting(self, title: str, total: int) -> Iterator[Counter]:
        """Show how many of many are done."""
        lively = self._console.is_terminal and not self._console.is_dumb_terminal
        columns = (
            TextColumn("            {task.description}"),
            BarColumn(),
            MofNCompleteColumn(),
            TextColumn("{task.fields[rate]}"),
        )
        with Progress(*columns, console=self._console, disable=not lively) as bar:
            yield Counter(self, bar, title, total, lively=lively)


class Counter:
    """How many of many are done, by now."""

    def __init__(self, tale: Tale, bar: Progress, title: str, total: int, *, lively: bool) -> None:
        """Begin at nothing."""
        self._tale = tale
        self._bar = bar
        self._title = title
        self._total = total
        self._lively = lively
        self._began = self._told = time.monotonic()
        self._shown = bar.add_task(title, total=total, rate="")

    def now(self, done: int) -> None:
        """Show a count."""
        rate = f"{done / max(0.001, time.monotonic() - self._began):,.0f}/s"
        self._bar.update(self._shown, completed=done, rate=rate)
        if not self._lively and (time.monotonic() - self._told >= EVERY_SECONDS or done >= self._total):
            self._told = time.monotonic()
            self._tale.tell(f"{self._title} {done:,} of {self._total:,}, {rate}")
