"""What others must provide: the owner of a callback settles what a finished task owes it."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import Protocol

from ferryman.kernel import errors
from ferryman.kernel.db import Tx
from ferryman.tasks.model import Ended


class Settles(Protocol):
    """The owner of one kind of callback (a tool call, an async task, a batch's child).

    Both phases run in the transaction that ends the tasks, for the whole set of that kind at once, on the worker's path
    and on the watchdog's alike. `lock` comes before any task row is written, because the order of locks is parent
    before child, then id: the other order deadlocks against a parent that stops its children. A set that raises is split
    until the one task that cannot be settled stands alone.
    """

    async def lock(self, tx: Tx, refs: Sequence[str]) -> None:
        """Lock the parents named by these callback references, in the order of their ids."""

    async def settle(self, tx: Tx, ended: Sequence[Ended]) -> Sequence[str] | None:
        """Write what these ends owe their owners; answer with the lanes that have something to claim now, if any."""


class Owners:
    """Who settles which kind of callback; filled once, where the domains meet."""

    def __init__(self, settlers: Mapping[str, Settles] | None = None) -> None:
        """Take the owners by the kind that tasks carry."""
        self._settlers = dict(settlers or {})

    @property
    def kinds(self) -> list[str]:
        """The kinds of callback that can be settled here; tasks of other kinds are left to processes that know them."""
        return sorted(self._settlers)

    def _of(self, kind: str) -> Settles:
        owner = self._settlers.get(kind)
        if owner is None:
            raise errors.CallbackUnknown(f"Nobody here settles callbacks of kind {kind}.", kind=kind)
        return owner

    async def lock(self, tx: Tx, owed: Iterable[tuple[str, str | None]]) -> None:
        """Lock the parents of a set, kind by kind in one order."""
        refs: dict[str, set[str]] = defaultdict(set)
        for kind, ref in owed:
            refs[kind].add(ref or "")
        for kind in sorted(refs):
            await self._of(kind).lock(tx, sorted(refs[kind]))

    async def settle(self, tx: Tx, ended: Iterable[Ended]) -> list[str]:
        """Tell each owner the ends of its tasks, a whole set at once; answer with the lanes to ring for after the commit."""
        sets: dict[str, list[Ended]] = defaultdict(list)
        for each in ended:
            sets[each.callback].append(each)
        lanes: list[str] = []
        for kind in sorted(sets):
            lanes += await self._of(kind).settle(tx, sets[kind]) or ()
        return lanes
