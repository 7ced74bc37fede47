"""Whether a walk from page to page gets anywhere (I8).

A source that gives the same token again, sends us in a circle, ignores the page it is asked for, or answers with empty pages
for ever would keep a slice busy until its budget is gone. A circle is found with two positions remembered, however long it is
(Brent): the second moves with every page, the first is set to it at every power of two; when the next page is the first, we
have been here. A page asked for again, or a walk that goes on somewhere else, begins a new chain: that is no circle.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

EMPTY_MAX = 10


class Chain:
    """One walk."""

    __slots__ = ("_ahead", "_edges", "_empty", "_limit", "_mark", "_steps")

    def __init__(self) -> None:
        """Begin anywhere."""
        self._ahead: str | None = None
        self._mark = ""
        self._steps = 0
        self._limit = 1
        self._empty = 0
        self._edges: tuple[Any, Any, int] | None = None

    def follow(self, position: str, next: str, items: Sequence[Any], *, empty_max: int = EMPTY_MAX) -> str | None:
        """Take the step from a page to the next; return why it must not be taken, or None."""
        if next == position:
            return f"the next page is the same one again ({next[:80]})"
        if position != self._ahead:
            self._begin(position)
        elif items and self._edges == (items[0], items[-1], len(items)):
            return f"the page at {position[:80]} is the one before it: the source may not heed what it is asked"
        if next == self._mark:
            return f"the pages go in a circle, back to {next[:80]}"
        self._steps += 1
        if self._steps == self._limit:
            self._mark, self._steps, self._limit = next, 0, 2 * self._limit
        self._empty = 0 if items else self._empty + 1
        if self._empty >= empty_max:
            return f"{self._empty} empty pages one after another, and no end"
        self._ahead = next
        self._edges = (items[0], items[-1], len(items)) if items else None
        return None

    def _begin(self, position: str) -> None:
        self._mark, self._steps, self._limit = position, 0, 1
        self._empty = 0
        self._edges = None
