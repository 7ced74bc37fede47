"""One page, asked for until it comes or cannot (I8): the gate is asked before every request and told what became of it."""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import Awaitable, Callable, Mapping
from datetime import datetime, timedelta

from ferryman.ingest.ports import (
    Allow,
    Answer,
    Decision,
    Failure,
    FetchFailed,
    Gate,
    Paced,
    Page,
    Reject,
    Request,
    WaitUntil,
)
from ferryman.ingest.registry import Declared
from ferryman.ingest.rules import limits
from ferryman.ingest.rules.ending import Barred, Broken, End, Postponed
from ferryman.ingest.work.journal import Fetches
from ferryman.kernel import errors, guest, outage, retry, telemetry
from ferryman.kernel.patience import outlast
from ferryman.tasks.rules.ending import readable

log = telemetry.logger("ingest")

# Between two tries of one page.
TRIES = 5
AGAIN = retry.Backoff(base=timedelta(milliseconds=100), factor=2.0, cap=timedelta(seconds=30), jitter=0.2)
# Longer than this nobody waits with a task in hand: it goes back into its line.
PATIENCE = timedelta(seconds=30)
# By the database's clock a gate whose own is behind has opened already: nobody runs again and again until it has.
SOONEST = timedelta(seconds=1)

OK = 200
LONGEST_POSITION = 64 * 1024

Strike = Callable[[], Awaitable[timedelta | None]]
Clock = Callable[[], Awaitable[datetime]]


def _checked(page: object) -> Page:
    """Refuse what is no page, or does not say where the next one is in a way that can be kept."""
    if not isinstance(page, Page):
        raise FetchFailed(f"the source gave {type(page).__name__} and no page", kind=Failure.BATCH)
    if not _figures(page.stats):
        raise FetchFailed("the source gave headers that cannot be read", kind=Failure.BATCH)
    if not page.has_next:
        return page
    place = page.next
    if not isinstance(place, str) or not place:
        raise FetchFailed("the source says that there is more, and not where", kind=Failure.BATCH)
    if len(place) > LONGEST_POSITION or not _whole(place):
        told = f"the source gave a position that cannot be kept ({len(place)} characters)"
        raise FetchFailed(told, kind=Failure.BATCH)
    return page


def _figures(stats: object) -> bool:
    """Tell whether what a source says beside its records can be read: the gate reads its headers."""
    headers = stats.get("headers", {}) if isinstance(stats, Mapping) else None
    return isinstance(headers, Mapping) and all(isinstance(text, str) for pair in headers.items() for text in pair)


def _whole(text: str) -> bool:
    """Tell whether PostgreSQL can keep a text: it knows no NUL and no half of a character."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return "\0" not in text


def _words(failure: Exception) -> str:
    """Return what a failure says of itself, fit to be stored; of ours and the system's without the name of its type."""
    said = errors.said(failure)
    plain = isinstance(failure, FetchFailed | OSError)
    return readable(said.removeprefix(f"{type(failure).__name__}: ") if plain else said)


def _time_to_wait(failure: Exception) -> timedelta | None:
    """Return for how long a source asks to stay away, a day at most: a length of time, or seconds."""
    said: object = failure.retry_after if isinstance(failure, FetchFailed) else None
    if isinstance(said, timedelta):
        said = said.total_seconds()
    if not isinstance(said, int | float) or not math.isfinite(said):
        return None
    return timedelta(seconds=min(max(said, 0.0), limits.LONGEST.total_seconds()))


class Fetch:
    """Ask one endpoint for pages."""

    def __init__(self, declared: Declared, gate: Gate, *, strike: Strike, clock: Clock) -> None:
        """`strike` counts a failed request and says how long the circuit breaker is open, if it is."""
        self._declared = declared
        self._gate = gate
        self._paced = gate if isinstance(gate, Paced) else None
        self._strike = strike
        self._clock = clock

    async def ask(self, fetches: Fetches) -> Decision:
        """Ask the gate for one request."""
        decision = await guest.ask(self._gate.acquire, self._declared.key)
        if isinstance(decision, Allow) and self._paced is not None:
            fetches.rate = self._paced.pace_at(self._declared.key)
        return decision

    async def admit(self, fetches: Fetches, decision: Decision | None = None) -> End | None:
        """Wait for leave to make one request, beginning with what the gate has said; an end if it is not to be had in time."""
        while True:
            try:
                # Its place is in the database, as a rule; while that is away the run waits, as with all that it writes.
                decision = decision or await outlast(lambda: self.ask(fetches))
                if isinstance(decision, Reject):
                    return await self._refused(decision)
                if not isinstance(decision, WaitUntil):
                    return None
                wait = decision.at - await self._clock()
            except Exception as error:
                if outage.passes(error):
                    raise
                log.exception("a rate gate failed", extra={"source": self._declared.name})
                return Broken(f"the rate gate failed: {_words(error)}")
            if wait > PATIENCE:
                return Postponed(wait, "the rate gate is closed")
            seconds = max(0.0, wait.total_seconds())
            fetches.waited += seconds
            await asyncio.sleep(seconds)
            decision = None

    async def _refused(self, decision: Reject) -> End:
        """A gate that opens again is no fault of whoever stands before it: what it knows of a source holds for every task."""
        told = f"the rate gate refused: {decision.reason}"
        if decision.until is None:
            return Broken(told)
        return Postponed(max(SOONEST, decision.until - await self._clock()), told)

    async def page(self, request: Request, fetches: Fetches) -> Page | End:
        """Return the page, or how the run ends without it. The first request is admitted already."""
        reason = ""
        for tried in range(1, TRIES + 1):
            if tried > 1:
                barrier = await self.admit(fetches)
                if barrier is not None:
                    return barrier
            page, failure = await self._once(request, fetches)
            if page is not None:
                return page
            assert failure is not None
            reason = _words(failure)
            end = await self._judge(failure, tried, fetches)
            if end is not None:
                return end
        return Broken(f"{TRIES} tries failed; the last: {reason}")

    async def _once(self, request: Request, fetches: Fetches) -> tuple[Page | None, Exception | None]:
        began = time.perf_counter()
        page: Page | None = None
        failure: Exception | None = None
        fetches.requests += 1  # it counts from here on, whatever becomes of it
        try:
            async with asyncio.timeout(self._declared.timeout.total_seconds()):
                page = _checked(await guest.ask(self._declared.source.fetch, request))
        except TimeoutError:
            failure = FetchFailed(f"no answer in {self._declared.timeout.total_seconds():g} s")
        except Exception as error:  # noqa: BLE001 - whatever a source raises is an answer to be judged
            failure = FetchFailed(_words(error)) if isinstance(error, OSError) else error
        took = time.perf_counter() - began
        fetches.latency += took
        try:
            self._tell(page, failure, timedelta(seconds=took), fetches)
        except Exception as error:
            log.exception("a rate gate failed", extra={"source": self._declared.name})
            return None, FetchFailed(f"the rate gate failed: {_words(error)}", kind=Failure.BATCH)
        return page, failure

    def _tell(self, page: Page | None, failure: Exception | None, took: timedelta, fetches: Fetches) -> None:
        status: int | None = OK
        retry_after = None
        if isinstance(failure, FetchFailed):
            status, retry_after = failure.status, _time_to_wait(failure)
            if failure.kind is Failure.SLOW_DOWN:
                fetches.throttled += 1
                status = status or 429
        fetches.statuses.append(status)
        # What a source says of its own limits also stands in the headers of a good answer.
        headers = {} if page is None else page.stats.get("headers", {})
        self._gate.told(self._declared.key, Answer(status, took, retry_after, headers))

    async def _judge(self, failure: Exception, tried: int, fetches: Fetches) -> End | None:
        """Say how the run ends, or None when the page is to be asked for again, after a pause."""
        kind = failure.kind if isinstance(failure, FetchFailed) else None
        wait = AGAIN.delay(tried)
        if kind is Failure.AUTH:
            return Barred(_words(failure))
        if kind is Failure.BATCH:
            return Broken(_words(failure))
        if kind is Failure.RETRY:
            shut = await self._strike()
            if shut is not None:
                return Postponed(shut, f"the circuit breaker is open: {_words(failure)}")
        wait = max(wait, _time_to_wait(failure) or wait)
        if wait > PATIENCE:
            return Postponed(wait, f"the source asks to wait: {_words(failure)}")
        if tried < TRIES:
            fetches.waited += wait.total_seconds()
            await asyncio.sleep(wait.total_seconds())
        return None
