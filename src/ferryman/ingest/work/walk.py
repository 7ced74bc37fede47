"""The walk over one slice: page after page, from where the last good batch led, until nothing is left or something says stop.

A batch is there before its request goes out, under a key made of its position in the slice. A position that has succeeded, in
this run or an earlier one, is read and not fetched again. The records of a page, the end of its batch and what it covers commit
together where the sink is in this database; elsewhere the records are written first, by a sink that does not mind
seeing a page twice. Every write compares the fence: a run whose lease has passed leaves nothing behind.

One statement turns the page: it ends a batch and gives birth to the one that follows, if the gate lets that go at once; a
page for a table goes with it (ADR 38). Whatever does not fit there goes the longer way, in a transaction, and begins the next
batch by a statement of its own. No page is asked for before the last one is committed, so a kill costs one page at most.
"""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Sequence
from contextlib import suppress
from datetime import timedelta

from ferryman.ingest import coverage
from ferryman.ingest.model import Claimed, Records
from ferryman.ingest.ports import Allow, Gate, Item, Joining, Page, Request, Written
from ferryman.ingest.registry import Declared
from ferryman.ingest.rules import budget, keys, reslicing, signals, slicing
from ferryman.ingest.rules.ending import Broken, Done, End, Postponed, Spent, Unwieldy
from ferryman.ingest.store import batches
from ferryman.ingest.store.cursors import Lineage
from ferryman.ingest.work.desk import Desk, Stale
from ferryman.ingest.work.fetch import Fetch
from ferryman.ingest.work.journal import Journal
from ferryman.ingest.work.leaf import Leaf, Place, Step, end_of
from ferryman.ingest.work.lot import LATE_SECONDS
from ferryman.kernel import errors, faults, guest, ids, payload
from ferryman.kernel.db import Row, Tx
from ferryman.tasks.rules.ending import readable

# How long one batch may take, with all its tries and waits. The views of the watchdog count on it.
BATCH_TIME = timedelta(minutes=10)
LONGEST_REASON = 2000


class Walk:
    """One walk."""

    def __init__(self, task: Claimed, declared: Declared, journal: Journal, desk: Desk, gate: Gate) -> None:
        """Begin where the last good batch led."""
        self._task = task
        self._declared = declared
        self._journal = journal
        self._desk = desk
        self._fetch = Fetch(declared, gate, strike=lambda: desk.strike(task), clock=desk.clock)
        self._seen: set[str] = set()
        self._number = 0
        # Asked once: whether something keeps a protocol is dear to find out, and a page is short.
        self._joining = declared.sink if isinstance(declared.sink, Joining) else None
        self._joins = True
        self._took = 0.0

    async def go(self) -> End:
        """Walk to the end."""
        step = Step(self._journal.begun.position)
        while step.position is not None:
            place = await self._open(step.place, step.position)
            after = await self._page(place) if isinstance(place, Place) else place
            if not isinstance(after, Step):
                return after
            step = after
        return Done()

    def _stop(self, journal: Journal, position: str) -> End | None:
        """Say why a position is not to be asked for."""
        over = budget.gone(self._task.budget, journal.usage)
        if over is not None:
            return Spent(over)
        journal.sign = journal.sign or signals.suggested(journal.signs())
        task = self._task
        divisible = reslicing.can_divide(task.cut, covered=task.covered, depth=task.depth)
        if journal.sign is not None and journal.pages and divisible:
            return Unwieldy(journal.sign)
        if position in self._seen:
            return Broken(f"the source led back to {position[:200]}")
        return None

    def _place(self, position: str) -> Place:
        self._seen.add(position)
        self._number += 1
        return Place(ids.new_id(), self._number, position, keys.batch(self._task.slice_id, position))

    async def _open(self, place: Place | None, position: str) -> Place | Step | End:
        """Have the batch of a position there, and leave to ask; or tell what is there already, or why it must not be asked."""
        if place is None:
            stop = self._stop(self._journal, position)
            if stop is not None:
                return stop
            place = self._place(position)
        if not place.admitted or time.monotonic() - place.admitted > LATE_SECONDS:
            barrier = await self._fetch.admit(place.fetches, None if place.admitted else place.decision)
            if barrier is not None:
                return barrier
        if place.there:
            return place
        row = await self._begin(place)
        if row["there"] is None and row["made"] is None and (row["shut_for"] or 0.0) <= 0:
            row = await self._begin(place)  # it met its own first try, whose answer never came
        if row["there"] is not None:
            self._journal.met += 1
            return Step(row["after_token"] if row["has_next"] else None)
        if row["made"] is None:
            return Postponed(timedelta(seconds=max(0.1, row["shut_for"] or 0.1)), "the circuit breaker is open")
        self._journal.current = place.fetches
        return place

    async def _begin(self, place: Place) -> Row:
        birth = place.birth()
        row = await self._desk.write(
            lambda tx: batches.begin(tx, self._task, birth, owner=self._desk.owner, patience=BATCH_TIME)
        )
        if row is None:
            raise Stale
        return row

    async def _ahead(self, page: Page) -> Place | None:
        """Return the position after a page, if it would be asked for, with what the gate says; nobody waits here."""
        if not page.has_next or page.next is None:
            return None
        journal = self._journal.after(page)
        stop = self._stop(journal, page.next)
        self._journal.sign = journal.sign
        if stop is not None:
            return None
        place = self._place(page.next)
        with suppress(Exception):  # the page in hand comes first: the gate is asked again after it, and says it there
            place.decision = await self._fetch.ask(place.fetches)
        if isinstance(place.decision, Allow):
            place.admitted = time.monotonic()
        return place

    async def _page(self, place: Place) -> Step | End:
        """Do one page."""
        await faults.apoint("ingest.begun")
        task = self._task
        request = Request(
            task.source, task.endpoint, task.operation, slicing.window(task.cut), place.position,
            {**task.params.get("request", {}), "from": task.cut.first, "to": task.cut.last},
        )  # fmt: skip
        try:
            async with asyncio.timeout(BATCH_TIME.total_seconds() * 0.9):
                page = await self._fetch.page(request, place.fetches)
        except TimeoutError:
            page = Broken(f"not done in {BATCH_TIME}")
        self._journal.asked(place.fetches)
        if isinstance(page, Page):
            await faults.apoint("ingest.fetched")
            return await self._take(page, place)
        if isinstance(page, Broken):
            await self._fail(place, page)
        return page

    async def _take(self, page: Page, place: Place) -> Step | End:
        """Write a page, and end its batch."""
        sink, written, records = self._declared.sink, Written(0), None
        try:
            finished = end_of(self._task, self._declared, page, place.fetches)
            # What moves a cursor takes a transaction, and what has no records needs none.
            at_once = finished.covered is None and (not sink.same_database or self._joining is not None)
            if not sink.same_database:
                written = await guest.ask(sink.write, None, page.items, batch_key=place.key)
                at_once = at_once and not written.quarantined
            elif at_once and page.items:
                records = self._joining.join(page.items) if self._joins and self._joining is not None else None
                at_once = records is not None
        except Exception as error:  # noqa: BLE001 - records that cannot be written fail their batch, not the executor
            return await self._refused(place, error)
        # Where writing takes long, leave to ask would be old after it, and its slot lost to everybody.
        quick = (at_once or not sink.same_database) and self._took < LATE_SECONDS
        leaf = Leaf(page, place, finished, written, records, await self._ahead(page) if quick else None)
        began = time.monotonic()
        try:
            written = await self._commit(leaf, at_once=at_once)
        except (errors.DatabaseUnavailable, Stale):
            raise
        except Exception as error:  # noqa: BLE001 - as above
            return await self._refused(place, error)
        self._took = time.monotonic() - began
        await faults.apoint("ingest.committed")
        self._journal.took(page, quarantined=len(written.quarantined))
        ahead = leaf.ahead
        self._journal.current = ahead.fetches if ahead is not None and ahead.there else None
        return Step(page.next if page.has_next else None, ahead)

    async def _commit(self, leaf: Leaf, *, at_once: bool) -> Written:
        """Commit the batch with its records; again while the database is away, until it is known what became of it."""
        try:
            if at_once and await self._turn_at_once(leaf):
                return leaf.written
            return await self._desk.write(lambda tx: self._turn(tx, leaf), whole=True)
        except Stale:
            found = await self._desk.write(lambda tx: batches.find(tx, leaf.place.id))
            if found is not None and found["status"] == "SUCCEEDED":
                return leaf.written  # an earlier try had committed, and its answer never came
            raise

    async def _turn_at_once(self, leaf: Leaf) -> bool:
        """Turn the page in one statement, its records with it; False: they are refused, and want a transaction."""
        try:
            await self._desk.write(lambda tx: self._end(tx, leaf, leaf.records))
        except (errors.DatabaseUnavailable, Stale):
            raise
        except Exception as error:
            if leaf.records is None or self._joining is None:
                raise
            # A record that is refused is found the longer way, which the pages that follow take too.
            self._joins = self._joining.rejoins(leaf.records, error)
            return False
        return True

    async def _turn(self, tx: Tx, leaf: Leaf) -> Written:
        sink, task, written = self._declared.sink, self._task, leaf.written
        if sink.same_database:
            written = await guest.ask(sink.write, tx, leaf.page.items, batch_key=leaf.place.key)
        row = await self._end(tx, leaf)
        if written.quarantined:
            await batches.quarantine(tx, task, leaf.place.id, _put_aside(written.quarantined))
        if row["cursor_id"] is not None:
            lineage = Lineage(task.plan_id, task.slice_id, task.id, task.run_id, leaf.place.id)
            await coverage.advance(tx, row["cursor_id"], tenant=task.tenant, lineage=lineage, tell=False)
        await faults.apoint("ingest.written")
        return written

    async def _end(self, tx: Tx, leaf: Leaf, records: Records | None = None) -> Row:
        """End the batch, and begin the next if it may be asked for at once."""
        ahead = leaf.ahead
        row = await batches.turn(
            tx, self._task, leaf.finished, owner=self._desk.owner, id=leaf.place.id, patience=BATCH_TIME,
            following=ahead.birth() if ahead is not None and ahead.admitted else None, records=records,
        )  # fmt: skip
        if row is None:
            raise Stale
        if ahead is not None:
            ahead.there = row["made"] is not None
        return row

    async def _refused(self, place: Place, error: Exception) -> Broken:
        broken = Broken(readable(f"the sink failed: {errors.said(error)}"))
        await self._fail(place, broken)
        return broken

    async def _fail(self, place: Place, broken: Broken) -> None:
        reason, asked = broken.reason[:LONGEST_REASON], place.fetches
        await self._desk.write(
            lambda tx: batches.fail(
                tx, self._task, owner=self._desk.owner, id=place.id, requests=asked.requests, reason=reason, stats=asked.stats()
            )
        )  # fmt: skip


def _put_aside(bad: Sequence[tuple[Item, str]]) -> list[tuple[int, str, str]]:
    return [(number, readable(errors.said(reason)), _text(item)) for number, (item, reason) in enumerate(bad, 1)]


def _text(item: Item) -> str:
    try:
        return payload.encode(item)
    except errors.FerrymanError:
        # What cannot be stored as it is is kept as it looks.
        return json.dumps({"repr": ascii(item)[:LONGEST_REASON]})
