"""Who settles which kind of callback (ADR 11): one way to lock parents and to tell owners, for whatever carries a callback."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Iterable, Mapping, Sequence
from typing import Generic, NamedTuple, Protocol, TypeVar

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


class PassesOver(Protocol):
    """What an owner has beside `lock` that need not wait for whoever holds a parent.

    A worker's turn asks for this one where there is one: a transaction that somebody leaves open would hold up all that ends
    beside what is owed to it, and every claim behind that. Where there is none, `lock` is called, and is not waited for long.
    """

    async def try_lock(self, tx: Tx, refs: Sequence[str]) -> Collection[str]:
        """Lock the parents that nobody else holds; answer with the references of those, and of parents that are no more."""


class Reached(NamedTuple):
    """What the owner of a kind answered to `try_lock`, or to `lock`; and for which references it has what it needs."""

    kind: str
    refs: Collection[str]
    answer: object


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
        return [await guest.ask(self._of(kind).lock, tx, refs) for kind, refs in _by_kind(owed)]

    async def try_lock(self, tx: Tx, owed: Iterable[tuple[str | None, str | None]]) -> list[Reached]:
        """Lock those parents of a set that can be had at once, in the same order."""
        return [await self._reach(tx, kind, refs) for kind, refs in _by_kind(owed)]

    async def _reach(self, tx: Tx, kind: str, refs: Sequence[str]) -> Reached:
        owner = self._of(kind)
        passes: Callable[..., Awaitable[Collection[str]]] | None = getattr(owner, "try_lock", None)
        if passes is None:
            return Reached(kind, refs, await guest.ask(owner.lock, tx, refs))
        got = await guest.ask(passes, tx, refs)
        return Reached(kind, got, got)

    async def told(self, tx: Tx, ended: Iterable[Ended]) -> AsyncIterator[Answer]:
        """Tell each owner the ends of its own, a whole set at once; yield the answers."""
        sets: dict[str, list[Ended]] = defaultdict(list)
        for each in ended:
            sets[each.callback].append(each)
        for kind in sorted(sets):
            yield await guest.ask(self._of(kind).settle, tx, sets[kind])


def _by_kind(owed: Iterable[tuple[str | None, str | None]]) -> list[tuple[str, list[str]]]:
    refs: dict[str, set[str]] = defaultdict(set)
    for kind, ref in owed:
        if kind is not None:
            refs[kind].add(ref or "")
    return [(kind, sorted(refs[kind])) for kind in sorted(refs)]
