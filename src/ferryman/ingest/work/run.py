"""One run: page after page, from where the last good batch led, until nothing is left or something says stop (I6, I7).

A batch is there before its request goes out, under a key made of its position in the slice. A position that has succeeded, in
this run or an earlier one, is read and not fetched again. The records of a page, the end of its batch and what it covers commit
together where the sink is in this database; elsewhere the records are written first, by a sink that does not mind
seeing a page twice. Every write compares the fence: a run whose lease has passed leaves nothing behind.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable, Sequence
from contextlib import AbstractAsyncContextManager
from datetime import datetime, timedelta
from typing import Protocol, TypeVar
from uuid import UUID

from ferryman.ingest import coverage
from ferryman.ingest.model import Claimed, Outcome
from ferryman.ingest.ports import Gate, Item, Page, Request, Written
from ferryman.ingest.registry import Declared, Sources
from ferryman.ingest.rules import budget, ending, keys, reslicing, signals, slicing
from ferryman.ingest.rules.ending import Broken, Done, End, Postponed, Spent, Unwieldy
from ferryman.ingest.store import batches, plans, tasks
from ferryman.ingest.store.batches import Finished
from ferryman.ingest.store.cursors import Lineage
from ferryman.ingest.work.fetch import Fetch
from ferryman.ingest.work.journal import Fetches, Journal
from ferryman.kernel import errors, faults, ids, payload, telemetry
from ferryman.kernel.db import Tx
from ferryman.kernel.loop import RECONNECT

log = telemetry.logger("ingest")

# How long one batch may take, with all its tries and waits. The views of the watchdog count on it.
BATCH_TIME = timedelta(minutes=10)
LONGEST_REASON = 2000

Answered = TypeVar("Answered")


class Pool(Protocol):
    """Connections for runs, beside those of the pump."""

    def session(self) -> AbstractAsyncContextManager[Tx]:
        """Lend one on which each statement commits itself."""

    def transaction(self) -> AbstractAsyncContextManager[Tx]:
        """Lend one for a transaction."""


class Stale(Exception):
    """The claim is not ours any more."""


class Runner:
    """Run claimed tasks."""

    def __init__(
        self, sources: Sources, gate: Gate, *, owner: UUID, pool: Pool, strikes: int, pause: timedelta
    ) -> None:
        """Write under one boot id; `strikes` failed requests in a row open the circuit breaker for `pause`."""
        self._sources = sources
        self._gate = gate
        self._owner = owner
        self._pool = pool
        self._strikes = strikes
        self._pause = pause
        self._journals: dict[UUID, Journal] = {}

    async def run(self, task: Claimed) -> Outcome | None:
        """Do one run; None when the claim was lost meanwhile."""
        try:
            return await self._run(task)
        except Stale:
            telemetry.fenced("ingest", "step")
            return None
        except asyncio.CancelledError:
            return None  # by the pump: the lease is gone, or the task has been handed back
        finally:
            self._journals.pop(task.id, None)

    def hand_back(self, task: Claimed) -> Outcome:
        """Return a task that was not finished here; what it has fetched stays."""
        journal = self._journals.get(task.id)
        verdict = ending.handed_back(journal.pages if journal else 0)
        return Outcome(task.id, task.epoch, self._owner, verdict, stats=journal.stats() if journal else {})

    async def _run(self, task: Claimed) -> Outcome:
        declared = self._sources.declared[task.source, task.endpoint]
        begun = await self._write(lambda tx: tasks.execute(tx, task, owner=self._owner))
        if begun is None:
            raise Stale
        journal = self._journals[task.id] = Journal(task, begun, declared.page_items)
        end = await self._pages(task, declared, journal)
        verdict = ending.verdict(
            end, done_now=journal.pages, done=journal.done, used=task.used, max_attempts=task.max_attempts
        )
        covered = task.cut.upper if isinstance(end, Done) else None
        return Outcome(task.id, task.epoch, self._owner, verdict, covered=covered, stats=journal.stats())

    async def _pages(self, task: Claimed, declared: Declared, journal: Journal) -> End:
        position, number, seen = journal.begun.position, 0, set[str]()
        while position is not None:
            over = budget.gone(task.budget, journal.usage)
            if over is not None:
                return Spent(over)
            journal.sign = journal.sign or signals.suggested(journal.signs())
            divisible = reslicing.can_divide(task.cut, covered=task.covered, depth=task.depth)
            if journal.sign is not None and journal.pages and divisible:
                return Unwieldy(journal.sign)
            if position in seen:
                return Broken(f"the source led back to {position[:200]}")
            seen.add(position)
            number += 1
            after = await self._page(task, declared, journal, position, number)
            if after is not None and not isinstance(after, str):
                return after
            position = after
        return Done()

    async def _page(
        self, task: Claimed, declared: Declared, journal: Journal, position: str, number: int
    ) -> str | End | None:
        """Do one page; answer with the next position, None after the last, or how the run ends."""
        fetches = Fetches()
        fetch = Fetch(declared, self._gate, strike=lambda: self._strike(task), clock=self._clock)
        barrier = await fetch.admit(fetches)
        if barrier is not None:
            return barrier
        id, key = ids.new_id(), keys.batch(task.slice_id, position)
        stats = json.dumps(fetches.stats())
        there = await self._write(
            lambda tx: batches.begin(
                tx, task, owner=self._owner, id=id, number=number, position=position, key=key, patience=BATCH_TIME, stats=stats
            )
        )  # fmt: skip
        if there is None:
            raise Stale
        if there["there"] is not None:
            journal.met += 1
            after: str | None = there["after_token"] if there["has_next"] else None
            return after
        if there["made"] is None:
            return Postponed(timedelta(seconds=max(0.1, there["shut_for"] or 0.1)), "the circuit breaker is open")
        await faults.apoint("ingest.begun")
        request = Request(
            task.source, task.endpoint, task.operation, slicing.window(task.cut), position,
            {**task.params.get("request", {}), "from": task.cut.first, "to": task.cut.last},
        )  # fmt: skip
        try:
            async with asyncio.timeout(BATCH_TIME.total_seconds() * 0.9):
                page = await fetch.page(request, fetches)
        except TimeoutError:
            page = Broken(f"not done in {BATCH_TIME}")
        journal.asked(fetches)
        if isinstance(page, Page):
            await faults.apoint("ingest.fetched")
            return await self._take(task, declared, journal, page, id=id, key=key, fetches=fetches)
        if isinstance(page, Broken):
            await self._fail(task, id, page, fetches)
        return page

    async def _take(
        self, task: Claimed, declared: Declared, journal: Journal, page: Page, *, id: UUID, key: str, fetches: Fetches
    ) -> str | End | None:
        """Write a page, and end its batch."""
        written = Written(0)
        try:
            if not declared.sink.same_database:
                written = await declared.sink.write(None, page.items, batch_key=key)
            finished = _finished(task, declared, page, fetches)
            written = await self._commit(task, declared, page, finished, written, id=id, key=key)
        except (errors.DatabaseUnavailable, Stale):
            raise
        except Exception as error:  # noqa: BLE001 - records that cannot be written fail their batch, not the executor
            broken = Broken(f"the sink failed: {errors.said(error)}"[:LONGEST_REASON])
            await self._fail(task, id, broken, fetches)
            return broken
        await faults.apoint("ingest.committed")
        journal.pages += 1
        journal.items += len(page.items)
        journal.quarantined += len(written.quarantined)
        journal.largest = max(journal.largest, page.size)
        journal.has_next = page.has_next
        return page.next if page.has_next else None

    async def _commit(
        self, task: Claimed, declared: Declared, page: Page, finished: Finished, written: Written, *, id: UUID, key: str
    ) -> Written:
        """Commit the batch with its records; again while the database is away, until it is known what became of it."""

        async def write(tx: Tx) -> Written:
            told = written
            if declared.sink.same_database:
                told = await declared.sink.write(tx, page.items, batch_key=key)
            row = await batches.succeed(tx, task, finished, owner=self._owner, id=id)
            if row is None:
                raise Stale
            if told.quarantined:
                await batches.quarantine(tx, task, id, _put_aside(told.quarantined))
            if row["cursor_id"] is not None:
                lineage = Lineage(task.plan_id, task.slice_id, task.id, task.run_id, id)
                await coverage.advance(tx, row["cursor_id"], tenant=task.tenant, lineage=lineage, tell=False)
            await faults.apoint("ingest.written")
            return told

        try:
            return await self._write(write, whole=True)
        except Stale:
            found = await self._write(lambda tx: batches.find(tx, id))
            if found is not None and found["status"] == "SUCCEEDED":
                return written  # an earlier try had committed, and its answer never came
            raise

    async def _fail(self, task: Claimed, id: UUID, broken: Broken, fetches: Fetches) -> None:
        reason = broken.reason[:LONGEST_REASON]
        await self._write(
            lambda tx: batches.fail(
                tx, task, owner=self._owner, id=id, requests=fetches.requests, reason=reason, stats=fetches.stats()
            )
        )

    async def _strike(self, task: Claimed) -> timedelta | None:
        row = await self._write(
            lambda tx: tasks.strike(
                tx, tenant=task.tenant, source=task.source, most=self._strikes, pause=self._pause
            )
        )  # fmt: skip
        if row is None or row["failures"] < self._strikes:
            return None
        log.warning("the circuit breaker of %s is open", task.source, extra={"source": task.source})
        return self._pause

    async def _clock(self) -> datetime:
        return await self._write(plans.clock)

    async def _write(self, act: Callable[[Tx], Awaitable[Answered]], *, whole: bool = False) -> Answered:
        """Do something, `whole` in a transaction, again while the database is away; the pump ends the wait with the lease."""
        failures = 0
        while True:
            try:
                async with self._pool.transaction() if whole else self._pool.session() as tx:
                    return await act(tx)
            except errors.DatabaseUnavailable:
                failures += 1
                await asyncio.sleep(RECONNECT.delay(failures).total_seconds())


def _finished(task: Claimed, declared: Declared, page: Page, fetches: Fetches) -> Finished:
    covered = None
    if declared.ordered and page.watermark is not None and task.cut.dimension == "time":
        covered = keys.number(page.watermark)
    stats = {**fetches.stats(), "itemsCount": len(page.items), "hasNext": page.has_next, "bytes": page.size}
    return Finished(
        after=page.next if page.has_next else None,
        has_next=page.has_next,
        records=len(page.items),
        requests=fetches.requests,
        watermark=page.watermark,
        covered=covered,
        stats=stats | {"source": dict(page.stats)} if page.stats else stats,
    )


def _put_aside(bad: Sequence[tuple[Item, str]]) -> list[tuple[int, str, str]]:
    return [(number, reason[:LONGEST_REASON], _text(item)) for number, (item, reason) in enumerate(bad, 1)]


def _text(item: Item) -> str:
    try:
        return payload.encode(item)
    except errors.FerrymanError:
        # What cannot be stored as it is is kept as it looks.
        return json.dumps({"repr": ascii(item)[:LONGEST_REASON]})
