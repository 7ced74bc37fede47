"""What others must provide: where records come from, where they go, and who says how fast.

A position says where in a slice a request reads. It is one canonical text, so that the same place always has the same key,
the first page too: `start`, `page:3`, `offset:200`, `token:…`, `url:…`, `time:…`. Only the source knows how to read its own.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Any, Protocol, TypeAlias, runtime_checkable

from ferryman.ingest.model import Records
from ferryman.ingest.window import START, Window
from ferryman.kernel.db import Tx

__all__ = [
    "START",
    "Allow",
    "Answer",
    "Decision",
    "Failure",
    "FetchFailed",
    "Gate",
    "GateKey",
    "Item",
    "Joining",
    "OpenGate",
    "Paced",
    "Page",
    "Rated",
    "Records",
    "Reject",
    "Request",
    "Sink",
    "Source",
    "WaitUntil",
    "Window",
    "Written",
]  # fmt: skip

Item: TypeAlias = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Request:
    """One page that is wanted. `window` is None for a slice that is not one of time; `params` hold the slice's own bounds."""

    source: str
    endpoint: str
    operation: str
    window: Window | None
    position: str = START
    params: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Page:
    """One page that came: its records, where the next one is, and how far in time everything is known.

    `watermark` counts as coverage only for a source that declares its pages ordered by it (I11).
    """

    items: Sequence[Item]
    next: str | None = None
    has_next: bool = False
    watermark: datetime | None = None
    size: int = 0
    stats: Mapping[str, Any] = field(default_factory=dict)


class Failure(StrEnum):
    """What a failed request means for what asked for it (I8)."""

    RETRY = "retry"  # the network, 5xx: again, more slowly
    SLOW_DOWN = "slow_down"  # 429: again, when told
    AUTH = "auth"  # 401, 403, a signature: nothing of this run can succeed
    BATCH = "batch"  # another 4xx, a page that cannot be read: this page cannot succeed


class FetchFailed(Exception):
    """A source raises this for a page that did not come; any other exception is a page that could not be read this time."""

    # Also of a subclass that does not call this __init__.
    kind: Failure = Failure.RETRY
    status: int | None = None
    retry_after: timedelta | None = None

    def __init__(
        self,
        reason: str = "",
        *,
        kind: Failure = Failure.RETRY,
        status: int | None = None,
        retry_after: timedelta | None = None,
    ) -> None:
        super().__init__(reason or (f"HTTP {status}" if status is not None else kind.value))
        self.kind = kind
        self.status = status
        self.retry_after = retry_after


class Source(Protocol):
    """Where records come from: one page for one request, with no memory between them."""

    async def fetch(self, request: Request) -> Page:
        """Return the page, or raise FetchFailed."""


@dataclass(frozen=True, slots=True)
class Written:
    """What a sink did with a page; each record that it cannot take stands beside the reason."""

    rows: int
    quarantined: Sequence[tuple[Item, str]] = ()


@runtime_checkable
class Joining(Protocol):
    """A sink whose records can go with the statement that ends their batch: one round trip for a page."""

    def join(self, items: Sequence[Item]) -> Records | None:
        """Return what to write, or None for a page that wants a transaction."""

    def rejoins(self, records: Records, error: Exception) -> bool:
        """Say whether pages may go so after one that was refused, and is written in a transaction now."""


class Sink(Protocol):
    """Where records go. In every sink an older record never overwrites a newer one (I6)."""

    @property
    def same_database(self) -> bool:
        """Whether it writes in the transaction that marks the batch, so that both commit together."""

    async def write(self, tx: Tx | None, items: Sequence[Item], *, batch_key: str) -> Written:
        """Write a page. `tx` is None for a sink elsewhere, which may see the same `batch_key` twice and must not mind."""


@dataclass(frozen=True, slots=True)
class GateKey:
    """What shares one rate."""

    source: str
    endpoint: str
    credential: str = ""


@dataclass(frozen=True, slots=True)
class Allow:
    """Go now."""


@dataclass(frozen=True, slots=True)
class WaitUntil:
    """Ask again then."""

    at: datetime


@dataclass(frozen=True, slots=True)
class Reject:
    """Do not ask again in this run; with a time, nobody need ask before it: the task waits in its line and has not failed."""

    reason: str
    until: datetime | None = None


Decision: TypeAlias = Allow | WaitUntil | Reject


@dataclass(frozen=True, slots=True)
class Answer:
    """What became of one request that was allowed. `status` None: no answer came. A page that came is 200."""

    status: int | None
    latency: timedelta
    retry_after: timedelta | None = None
    headers: Mapping[str, str] = field(default_factory=dict)


class Gate(Protocol):
    """Who says how fast a source may be asked, by all executors together (I9)."""

    async def acquire(self, key: GateKey) -> Decision:
        """Ask for one request."""

    def told(self, key: GateKey, answer: Answer) -> None:
        """Hear what became of it; never waits."""


@runtime_checkable
class Rated(Protocol):
    """A gate that can say which rate is in force."""

    async def in_force(self, key: GateKey) -> float | None:
        """Return the requests a second that are allowed now, or None where there is no limit."""


@runtime_checkable
class Paced(Protocol):
    """A gate that knows, without asking anybody, at which rate it lets pass."""

    def pace_at(self, key: GateKey) -> float | None:
        """Return the requests a second that were allowed when it was last told, or None where it was not."""


class OpenGate:
    """No limit at all."""

    async def acquire(self, key: GateKey) -> Decision:
        """Let it pass."""
        return Allow()

    def told(self, key: GateKey, answer: Answer) -> None:
        """Learn nothing."""
