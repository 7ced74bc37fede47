"""What a run has seen so far: its part of the black box (I12)."""

from __future__ import annotations

import time
from dataclasses import dataclass, field, replace
from typing import Any

from ferryman.ingest.model import Begun, Claimed, Usage
from ferryman.ingest.ports import Page
from ferryman.ingest.rules.signals import Signs


@dataclass
class Fetches:
    """What one batch asked for."""

    requests: int = 0
    throttled: int = 0
    waited: float = 0.0
    latency: float = 0.0
    rate: float | None = None
    statuses: list[int | None] = field(default_factory=list)

    def stats(self) -> dict[str, Any]:
        """Return what is kept with the batch."""
        gate: dict[str, Any] = {
            "decision": "ALLOW" if not self.waited else "WAIT_UNTIL",
            "waitMs": round(self.waited * 1000),
        }
        if self.rate is not None:
            gate["rate"] = round(self.rate, 4)
        return {
            "reqCount": self.requests,
            "retryCount": max(0, self.requests - 1),
            "429Count": self.throttled,
            "latencyMs": round(self.latency * 1000),
            "http": self.statuses,
            "gate": gate,
        }


@dataclass
class Journal:
    """What a run has done and met."""

    task: Claimed
    begun: Begun
    page_items: int | None = None
    pages: int = 0
    met: int = 0
    items: int = 0
    quarantined: int = 0
    requests: int = 0
    throttled: int = 0
    latency: float = 0.0
    slowest: float = 0.0
    largest: int = 0
    has_next: bool | None = None
    sign: str | None = None
    current: Fetches | None = None
    started: float = field(default_factory=time.monotonic)

    @property
    def usage(self) -> Usage:
        """What is gone of the task's budget, by this run and those before it."""
        seconds = self.begun.seconds + time.monotonic() - self.started
        return Usage(self.begun.requests + self.requests, self.begun.items + self.items, seconds)

    @property
    def sent(self) -> int | None:
        """Requests that went out for the batch that is open, if one is."""
        return None if self.current is None else self.current.requests

    @property
    def done(self) -> int:
        """Pages of the slice that are there, by whichever run."""
        return self.begun.pages + self.pages

    def asked(self, fetches: Fetches) -> None:
        """Count what a batch asked for."""
        self.requests += fetches.requests
        self.throttled += fetches.throttled
        self.latency += fetches.latency
        self.slowest = max(self.slowest, fetches.latency)

    def took(self, page: Page, *, quarantined: int = 0) -> None:
        """Count a page that was written."""
        self.pages += 1
        self.items += len(page.items)
        self.quarantined += quarantined
        self.largest = max(self.largest, page.size)
        self.has_next = page.has_next

    def after(self, page: Page) -> Journal:
        """Return what it will say once a page is written."""
        ahead = replace(self)
        ahead.took(page)
        return ahead

    def signs(self) -> Signs:
        """Return what tells whether the slice should be cut smaller."""
        estimate = self.task.cut.estimate
        pages = None if estimate is None or self.page_items is None else max(1, -(-estimate // self.page_items))
        usage = self.usage
        return Signs(
            requests=self.requests,
            throttled=self.throttled,
            seconds=usage.seconds,
            largest=self.largest,
            latency=self.latency / self.requests if self.requests else 0.0,
            pages=self.done,
            estimate=pages,
            items=usage.items,
            usual=self.begun.usual,
        )

    def stats(self) -> dict[str, Any]:
        """Return what is kept with the run."""
        mean = self.latency / self.requests if self.requests else 0.0
        told: dict[str, Any] = {
            "reqCount": self.requests,
            "429Count": self.throttled,
            "pagesVisited": self.pages,
            "pagesMet": self.met,
            "itemsCount": self.items,
            "quarantined": self.quarantined,
            "avgLatencyMs": round(mean * 1000),
            "maxLatencyMs": round(self.slowest * 1000),
            "maxBytes": self.largest,
            "hasNextLast": self.has_next,
            "seconds": round(time.monotonic() - self.started, 3),
        }
        return told if self.sign is None else told | {"reSliceSuggested": True, "reSliceReason": self.sign}
