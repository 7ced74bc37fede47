"""Who settles which kind of callback (ADR 11): one way to lock parents and to tell owners, for whatever carries a callback."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from typing import Generic, Protocol, TypeVar

from ferryman.kernel import errors, guest
from ferryman.kernel.db import Tx


class Owing(Protocol):
    """What ended, with the kind of callback that it owes."""

    @property
    def callback(self) -> str:
        """The kind."""


Ended = TypeVar("Ended", bound=Owing)
Ended_contra = TypeVar("Ended_contra", bound=Owing, contravariant=True)
Answer = TypeVar("Answer")
Answer_co = TypeVar("Answer_co", covariant=True)


class Settler(Protocol[Ended_contra, Answer_co]):
    """The owner of one kind of callback (a tool call, an async task, a batch's child).

    Both phases run in the transaction that ends the work, for the whole set of that kind at once, on the worker's path
    and on the watchdog's alike. `lock` comes before any row of the work is written, because the order of locks is parent
    before child, then id: the other order deadlocks against a parent that stops its children. A set that raises is split
    until the one that cannot be settled stands alone.
    """

    async def lock(self, tx: Tx, refs: Sequence[str]) -> object:
        """Lock the parents named by these callback references, in the order of their ids; the answer is for its domain."""

    async def settle(self, tx: Tx, ended: Sequence[Ended_contra]) -> Answer_co:
        """Write what these ends owe their owners; answer with what there is to ring for after the commit."""


class CallbackOwners(Generic[Ended, Answer]):
    """The owners by kind; filled once, where the domains meet."""

    def __init__(self, settlers: Mapping[str, Settler[Ended, Answer]] | None = None) -> None:
        """Take the owners by the kind that the work carries."""
        self._settlers = dict(settlers or {})

    @property
    def kinds(self) -> list[str]:
        """The kinds that can be settled here; work of other kinds is left to processes that know them."""
        return sorted(self._settlers)

    def _of(self, kind: str) -> Settler[Ended, Answer]:
        owner = self._settlers.get(kind)
        if owner is None:
            raise errors.CallbackUnknown(f"Nobody here settles callbacks of kind {kind}.", kind=kind)
        return owner

    async def lock(self, tx: Tx, owed: Iterable[tuple[str | None, str | None]]) -> list[object]:
        """Lock the parents of a set, kind by kind in one order; what owes nothing has none. Answer with what they said."""
        refs: dict[str, set[str]] = defaultdict(set)
        for kind, ref in owed:
            if kind is not None:
                refs[kind].add(ref or "")
        return [await guest.ask(self._of(kind).lock, tx, sorted(refs[kind])) for kind in sorted(refs)]

    async def told(self, tx: Tx, ended: Iterable[Ended]) -> AsyncIterator[Answer]:
        """Tell each owner the ends of its own, a whole set at once; yield the answers."""
        sets: dict[str, list[Ended]] = defaultdict(list)
        for each in ended:
            sets[each.callback].append(each)
        for kind in sorted(sets):
            yield await guest.ask(self._of(kind).settle, tx, sets[kind])
