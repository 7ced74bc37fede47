"""A file of results: lines of conditions and lines of measurements, each written as soon as it is known.

A run that was broken off goes on with the same file: what stands there is not measured again. Of two lines about the same
measurement the later one counts, and one that failed counts as not measured. The conditions say what was planned, so that a run
that ended early cannot pass for a whole one, and of which commit the code was: figures of two are not put into one file
unawares.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

Line = dict[str, Any]


class Item(NamedTuple):
    """One measurement of a run."""

    round: int
    work: str
    peer: str
    size: int | None = None

    @classmethod
    def of(cls, line: Line) -> Item:
        return cls(line["round"], line["work"], line["peer"], line.get("size"))


class Record:
    """What is known so far."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.heads: list[Line] = []
        self._lines: dict[Item, Line] = {}
        if path.exists():
            for text in path.read_text().splitlines():
                self._take(json.loads(text))

    def _take(self, line: Line) -> None:
        if "work" in line:
            self._lines.pop(Item.of(line), None)
            self._lines[Item.of(line)] = line
        else:
            self.heads.append(line)

    def add(self, line: Line) -> None:
        """Keep a line, at once."""
        self._take(line)
        self.path.parent.mkdir(parents=True, exist_ok=True)
        with self.path.open("a") as out:
            out.write(json.dumps(line) + "\n")

    def has(self, item: Item) -> bool:
        return "figures" in self._lines.get(item, {})

    @property
    def lines(self) -> Sequence[Line]:
        return list(self._lines.values())

    @property
    def planned(self) -> Sequence[Item]:
        """What the parts of the run had planned."""
        return list(dict.fromkeys(Item(*item) for head in self.heads for item in head.get("planned", ())))

    @property
    def missing(self) -> Sequence[Item]:
        """What a part of the run had planned, and nobody has tried."""
        return [item for item in self.planned if item not in self._lines]

    @property
    def commits(self) -> Sequence[str]:
        """Of which commits the code was, in the order of the parts."""
        return list(dict.fromkeys(head["commit"] for head in self.heads if "commit" in head))

    @property
    def head(self) -> Line:
        """The conditions; of several parts of a run the last one's, with the peers of all."""
        together: Line = {}
        for head in self.heads:
            peers = {**together.get("peers", {}), **head["peers"]}
            absent = {
                name: why for name, why in {**together.get("absent", {}), **head["absent"]}.items() if name not in peers
            }
            together = head | {"peers": peers, "absent": absent}
        return together
