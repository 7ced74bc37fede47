"""The acts of the story: each makes something happen to real processes, and says whether what was promised held."""

from __future__ import annotations

import asyncio
import signal
import time
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from typing import Any
from uuid import UUID

from ferryman.app.ferryman import Ferryman
from ferryman.app.handle import Handle
from ferryman.cli.demo.hands import LEASE_SECONDS, Hand, Hands
from ferryman.cli.demo.tale import Tale
from ferryman.kernel import db, errors
from ferryman.tasks.intake import read
from ferryman.tasks.states import CANCELLED, FAILED, READY, RUNNING, SUCCEEDED

NOW = db.load("ferryman.cli.demo", "now")

SWEEP_SECONDS = 1
# A laptop that does something else beside the story is late by so much; the time itself is shown.
BUSY_SECONDS = 0.5
CROWD = 10_000
PATIENCE_SECONDS = 30.0
LATE_SECONDS = 5.0


class Story:
    """One run of the story."""

    def __init__(self, app: Ferryman, hands: Hands, tale: Tale) -> None:
        """Tell what happens to an app's tasks in other processes' hands."""
        self._app = app
        self._hands = hands
        self._tale = tale
        self.recovery: float | None = None
        self.fenced = 0
        self.rate = 0.0

    async def run(self) -> None:
        """Play all acts."""
        for act in (
            self.now, self.later, self.stumbling, self.timing_out, self.cancelling, self.repeating,
            self.killing, self.freezing, self.crowding,
        ):  # fmt: skip
            await act()

    async def now(self) -> None:
        """A task that runs at once."""
        self._tale.act("A task, now")
        cold = await self._greet("Ada")
        warm = await self._greet("Grace")
        self._tale.hold(
            warm < PATIENCE_SECONDS,
            f"greet answered from another process after {cold * 1000:.0f} ms, its next call after {warm * 1000:.0f} ms",
        )

    async def _greet(self, name: str) -> float:
        began = time.monotonic()
        answer = await (await self._app.tasks.create("greet", name=name)).result(timeout=PATIENCE_SECONDS)
        self._tale.tell(repr(answer))
        return time.monotonic() - began

    async def later(self) -> None:
        """A task that waits for its time."""
        self._tale.act("A task in two seconds")
        due = datetime.now(UTC) + timedelta(seconds=2)
        handle = await self._app.tasks.create("greet", {"name": "later"}, at=due)
        self._tale.tell(f"created, {handle.task.state.value} until {due:%H:%M:%S.%f}"[:-3])
        await handle.result(timeout=PATIENCE_SECONDS)
        started = (await handle.refresh()).started_at
        assert started is not None
        after = (started - due).total_seconds() * 1000
        self._tale.hold(after >= 0, f"it ran {after:.0f} ms after its time")

    async def stumbling(self) -> None:
        """A task that fails twice and succeeds."""
        self._tale.act("A task that fails twice and succeeds")
        handle = await self._app.tasks.create("stumble", falls=2)
        answer = await handle.result(timeout=PATIENCE_SECONDS)
        for event, after in pairwise(await self._app.tasks.events(handle.id)):
            if event.to_state == READY and event.from_state == RUNNING:
                pause = (after.at - event.at).total_seconds()
                self._tale.tell(f"attempt {event.attempt}: {event.reason_message}; the next began {pause:.2f} s later")
        task = await handle.refresh()
        self._tale.hold(task.attempt == 3 and task.state is SUCCEEDED, f"it {answer}")

    async def timing_out(self) -> None:
        """A task that takes too long."""
        self._tale.act("A task that takes longer than its half second")
        handle = await self._app.tasks.create("dawdle")
        try:
            await handle.result(timeout=PATIENCE_SECONDS)
        except errors.FerrymanError as error:
            self._tale.tell(f"{error.code}: {error.details.get('reason')}")
        task = await handle.refresh()
        self._tale.hold(
            task.state is FAILED and "TASK_TIMEOUT" in (task.last_error_reason or ""), "it was ended as a timeout"
        )

    async def cancelling(self) -> None:
        """A task that is cancelled while it runs."""
        self._tale.act("A task that is cancelled while it runs")
        handle = await self._app.tasks.create("cross", seconds=30)
        await self._holder(handle)
        began = time.monotonic()
        await handle.cancel(reason="the story wants it")
        took = (time.monotonic() - began) * 1000
        task = await handle.refresh()
        self._tale.hold(
            task.state is CANCELLED, f"cancelled in {took:.0f} ms; the handler is told, its result would be ignored"
        )

    async def repeating(self) -> None:
        """A create that is sent twice."""
        self._tale.act("The same create twice, with one idempotency key")
        first = await self._app.tasks.create("greet", {"name": "once"}, idempotency_key="demo")
        again = await self._app.tasks.create("greet", {"name": "once"}, idempotency_key="demo")
        self._tale.hold(again.idempotent_hit and again.id == first.id, "the second answered with the task of the first")

    async def killing(self) -> None:
        """A worker that is killed in the middle of a task."""
        self._tale.act(f"A worker is killed with SIGKILL in the middle (lease {LEASE_SECONDS} s)")
        handle = await self._app.tasks.create("cross", seconds=1.5)
        victim = await self._holder(handle)
        self._tale.tell(f"worker {victim.pid} holds it; kill -KILL {victim.pid}")
        victim.send(signal.SIGKILL)
        await victim.process.wait()
        killed = await self._now()
        answer = await handle.result(timeout=PATIENCE_SECONDS)
        again = [event.at for event in await self._app.tasks.events(handle.id) if event.to_state == RUNNING][-1]
        self.recovery = (again - killed).total_seconds()
        self._tale.hold(
            answer["pid"] != victim.pid and self.recovery <= LEASE_SECONDS + SWEEP_SECONDS + BUSY_SECONDS,
            f"worker {answer['pid']} ran it again {self.recovery:.2f} s after the kill (promised: lease + 1 s)",
        )
        task = await handle.refresh()
        self._tale.hold(task.state is SUCCEEDED and task.attempt == 2, "it succeeded at attempt 2")

    async def freezing(self) -> None:
        """A worker that is frozen, loses its task, and comes back."""
        self._tale.act("A worker is frozen with SIGSTOP, and wakes up too late")
        handle = await self._app.tasks.create("insist", seconds=1.0)
        frozen = await self._holder(handle)
        before = await frozen.fenced()
        self._tale.tell(f"worker {frozen.pid} holds it; kill -STOP {frozen.pid}")
        frozen.send(signal.SIGSTOP)
        try:
            answer = await handle.result(timeout=PATIENCE_SECONDS)
        finally:
            frozen.send(signal.SIGCONT)
        self._tale.tell(f"worker {answer['pid']} took it over and finished it; kill -CONT {frozen.pid}")
        self.fenced = await self._fenced(frozen, above=before) - before
        task = await handle.refresh()
        self._tale.hold(
            self.fenced > 0,
            f"the late result of worker {frozen.pid} was fenced: it touched nothing",
        )
        self._tale.hold(
            answer["pid"] != frozen.pid and task.state is SUCCEEDED and task.attempt == 2,
            "the successor's result stands",
        )

    async def crowding(self) -> None:
        """Ten thousand tasks at once."""
        self._tale.act(f"{CROWD:,} tasks at once")
        began = time.monotonic()
        await self._app.tasks.create_many("count", [{"n": n} for n in range(CROWD)])
        created = time.monotonic() - began
        self._tale.tell(f"created in {created:.1f} s ({CROWD / created:,.0f}/s), all or none")
        with self._tale.counting("done", CROWD) as counter:
            while left := await self._left():
                counter.now(CROWD - left)
                await asyncio.sleep(0.1)
            counter.now(CROWD)
        took = time.monotonic() - began
        self.rate = CROWD / took
        self._tale.hold(
            await self._left() == 0, f"all ended {took:.1f} s after the first was created: {self.rate:,.0f}/s"
        )

    async def _left(self) -> int:
        async with self._app.database.session() as tx:
            return sum(each.count for each in await read.depth(tx))

    async def _now(self) -> Any:
        async with self._app.database.session() as tx:
            row = await db.one(tx, NOW)
        assert row is not None
        return row["now"]

    async def _holder(self, handle: Handle) -> Hand:
        """Wait until somebody runs a task, and say who."""
        async for word in handle.watch():
            if word.state is RUNNING and word.percent is not None:
                break
        owner = (await handle.refresh()).lease_owner
        return self._hands.by_pid(await self._pid(owner))

    async def _pid(self, boot_id: UUID | None) -> int:
        async with self._app.database.session() as tx:
            return next(each.pid for each in await read.workers(tx) if each.boot_id == boot_id)

    async def _fenced(self, hand: Hand, *, above: int) -> int:
        """Wait until a worker has sent a late result, and say how many it has."""
        until = time.monotonic() + LATE_SECONDS
        count = await hand.fenced()
        for _ in range(100):
            if count > above or time.monotonic() > until:
                break
            await asyncio.sleep(0.05)
            count = await hand.fenced()
        return count
