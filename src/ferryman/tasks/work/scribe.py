"""Writing what handlers must remember, in sets (T19).

Many tasks of a worker make durable calls at the same time. Each waits for its own call to be durable; what comes while a set is
on its way goes with the next (kernel/gather.py). The sets go over a line of their own.

Every call carries the fence of its claim, and the statement locks the task's row: once a call is written no other holder can
have come before it. A stale holder's call is refused, and its handler is told. A row that somebody else is writing at that
moment is passed over, and its call goes with a later set: nobody else waits for it. While the database is away a set is kept
and sent again; a repeat meets its own rows. A set that PostgreSQL refuses is halved until the bad call stands alone. So is one
that it cannot do now because of a few rows, such as those of a damaged page, and one that was broken off in the middle, which
may be too large for the time that a statement has: what stands alone then goes with later sets until it can.

Children that must look before they are born (tasks/flow.py) go in sets of their own over another line: they may have to wait
for a key that an open transaction holds, and nobody else's steps wait with them.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from datetime import timedelta
from typing import TypeVar
from uuid import UUID

from ferryman.kernel import errors, faults, outage, telemetry
from ferryman.kernel.doorbell import Doorbell
from ferryman.kernel.gather import Again, Gather
from ferryman.kernel.patience import outlast
from ferryman.kernel.pool import Line
from ferryman.tasks import flow, store
from ferryman.tasks.birth import TRIES, newborn
from ferryman.tasks.model import Answer, Asked, Birth, Call, Draft, Kept
from ferryman.tasks.rules.request import NOTHING
from ferryman.tasks.store import steps
from ferryman.tasks.work import births as bells
from ferryman.tasks.work.lanes import named

log = logging.getLogger("ferryman.tasks")

Thing = TypeVar("Thing")
Value = TypeVar("Value")
Memory = dict[steps.Key, Answer]
Refused = Mapping[UUID, errors.FerrymanError]  # by the id that the child would have had


class Outlasting(errors.TaskWaitTooLong):
    """A task cannot wait for longer than it may live."""


class Overtaken(Exception):
    """Somebody else's task came in at the last moment under a child's key."""


class Scribe:
    """Write and read the durable calls of one worker."""

    def __init__(
        self,
        line: Line,
        doorbell: Doorbell,
        *,
        owner: UUID,
        ends_after: timedelta,
        flows: Line | None = None,
        looks: flow.Looks = flow.keyed,
    ) -> None:
        """Write over one line, under the worker's boot id; children that must look are born over the line `flows`."""
        self._line = line
        self._flows = flows or line
        self._looks = looks
        self._doorbell = doorbell
        self._owner = owner
        self._ends_after = ends_after
        self._kept: Gather[Sequence[Kept], None] = Gather(self._remember)
        self._asked: Gather[Asked, Answer] = Gather(self._wait)
        self._born: Gather[Sequence[Birth], Refused] = Gather(self._bear)
        self._flowing: Gather[Sequence[Birth], Refused] = Gather(self._bear_flowing)
        self._recalled: Gather[UUID, Memory] = Gather(self._recall)

    def remember(self, kept: Sequence[Kept]) -> Awaitable[None]:
        """Write what steps of one task came to."""
        return self._kept.put(kept)

    def wait(self, asked: Asked) -> Awaitable[Answer]:
        """Ask whether a sleep or a wait is over, and write that it was asked."""
        return self._asked.put(asked)

    def bear(self, births: Sequence[Birth]) -> Awaitable[Refused]:
        """Create children of one task; answer with those that were refused."""
        looking = any(self._looks(birth.task) for birth in births)
        return self._flowing.put(births) if looking else self._born.put(births)

    def recall(self, task: UUID) -> asyncio.Future[Memory]:
        """Read what a task remembers of earlier claims."""
        return self._recalled.put(task)

    async def close(self) -> None:
        """Let go of whatever is not written: its worker is gone, and what comes later would be refused."""
        for gathered in (self._kept, self._asked, self._born, self._flowing, self._recalled):
            await gathered.stop()

    # Sets

    async def _remember(self, things: list[Sequence[Kept]]) -> list[Exception | None]:
        async def ask(some: Sequence[Sequence[Kept]]) -> dict[int, None]:
            held = await steps.remember(self._line, [each for kept in some for each in kept], owner=self._owner)
            faults.point("step.committed")
            return {n: None for n, kept in enumerate(some) if kept[0].call.task in held}

        faults.point("step.before")
        return await self._fenced(things, ask, lambda kept: kept[0].call)

    async def _wait(self, things: list[Asked]) -> list[Answer | Exception]:
        async def ask(some: Sequence[Asked]) -> dict[int, Answer | Exception]:
            found: dict[int, Answer | Exception] = {}
            for part in _apart(some):
                answers = await steps.wait(self._line, [some[n] for n in part], owner=self._owner)
                faults.point("wait.committed")
                for n in part:
                    if some[n].call.task in answers:
                        answer = answers[some[n].call.task]
                        found[n] = _too_long(some[n].call) if answer is None else answer
            return found

        faults.point("wait.before")
        return await self._fenced(things, ask, lambda asked: asked.call)

    async def _bear(self, things: list[Sequence[Birth]]) -> list[Refused | Exception]:
        async def ask(some: Sequence[Sequence[Birth]]) -> dict[int, Refused]:
            births = [birth for each in some for birth in each]
            async with self._line.transaction() as tx:
                held = await steps.bear(tx, births, owner=self._owner)
                born = [birth.task for birth in births if birth.call.task in held]
                if born:
                    await store.create(tx, born, ends_after=self._ends_after)
                faults.point("birth.inside")
            faults.point("birth.committed")
            if born:
                self._doorbell.ring("ready", {named(task.queue, task.tenant) for task in born})
            return {n: {} for n, each in enumerate(some) if each[0].call.task in held}

        return await self._fenced(things, ask, lambda births: births[0].call)

    async def _bear_flowing(self, things: list[Sequence[Birth]]) -> list[Refused | Exception]:
        async def ask(some: Sequence[Sequence[Birth]]) -> dict[int, Refused]:
            for _ in range(TRIES):
                try:
                    return await self._admit(some)
                except Overtaken:
                    continue
            raise errors.TaskDuplicate("A task with this key exists and cannot be shown.")

        return await self._fenced(things, ask, lambda births: births[0].call)

    async def _admit(self, some: Sequence[Sequence[Birth]]) -> dict[int, Refused]:
        """Let children look, and those be born that may; the looks come first: parents are held last, and never waited for."""
        births = [birth for each in some for birth in each]
        async with self._flows.transaction() as tx:
            admitted = await flow.admit(tx, [Draft(birth.task, NOTHING) for birth in births])
            refused = {
                births[n].task.id: answer
                for n, answer in admitted.answers.items()
                if isinstance(answer, errors.FerrymanError)
            }
            coming = [birth for birth in births if birth.task.id not in refused]
            held = await steps.bear(tx, coming, owner=self._owner) if coming else set()
            there = {births[n].task.id for n in admitted.answers}  # sent twice: it was born the first time
            born = {each.task.id: each.task for each in coming if each.call.task in held and each.task.id not in there}
            rows = await store.create(tx, list(born.values()), ends_after=self._ends_after) if born else ()
            if len(rows) < len(born):
                raise Overtaken
            faults.point("birth.inside")
        faults.point("birth.committed")
        rings = bells.count((newborn(born[row["id"]], row), 1) for row in rows) | bells.displaced(admitted.displaced)
        for topic, hints in rings.items():
            self._doorbell.ring(topic, hints)
        return {
            n: {birth.task.id: refused[birth.task.id] for birth in each if birth.task.id in refused}
            for n, each in enumerate(some)
            if each[0].call.task in held or all(birth.task.id in refused for birth in each)
        }

    async def _recall(self, ids: list[UUID]) -> list[Memory | Exception]:
        async def ask(some: Sequence[UUID]) -> dict[int, Memory]:
            found = await steps.recall(self._line, some)
            return {n: found[id] for n, id in enumerate(some)}

        answers = await self._whole(ids, ask)
        return [answers[n] for n in range(len(ids))]

    # What all sets have in common

    async def _fenced(
        self,
        things: Sequence[Thing],
        ask: Callable[[Sequence[Thing]], Awaitable[dict[int, Value] | dict[int, Value | Exception]]],
        call_of: Callable[[Thing], Call],
    ) -> list[Value | Exception]:
        """Ask once: answered, stale, or busy and so to be asked again with a later set."""
        found = await self._whole(things, ask)
        answers: dict[int, Value | Exception] = dict(found)
        left = [n for n in range(len(things)) if n not in answers]
        if left:
            answers |= zip(left, await self._unanswered([call_of(things[n]) for n in left]), strict=True)
        return [answers[n] for n in range(len(things))]

    async def _unanswered(self, calls: Sequence[Call]) -> list[Exception]:
        async def ask(some: Sequence[Call]) -> dict[int, Exception]:
            mine = await steps.mine(self._line, [(call.task, call.epoch) for call in some], owner=self._owner)
            stale = [n for n, call in enumerate(some) if call.task not in mine]
            telemetry.fenced("task", "step", len(stale))
            ended: dict[int, Exception] = {
                n: errors.TaskCancelled("This attempt has been ended from outside.") for n in stale
            }
            return {n: Again() for n in range(len(some))} | ended

        found = await self._whole(calls, ask)
        return [found[n] for n in range(len(calls))]

    async def _whole(
        self,
        things: Sequence[Thing],
        ask: Callable[[Sequence[Thing]], Awaitable[dict[int, Value] | dict[int, Value | Exception]]],
    ) -> dict[int, Value | Exception]:
        """Ask for a set; what PostgreSQL refuses is found by halving, and told to its caller alone (K25).

        While the database is away it is asked again: whoever waits is ended by its timeout or its lease, not by us.
        """
        try:
            return dict(await outlast(lambda: ask(things), over=outage.of_any_set, told=_wait))
        except Exception as error:
            if len(things) == 1 and outage.passes(error):
                return {0: Again(error)}
            if len(things) == 1:
                log.exception("a durable call was refused")
                return {0: error}
            half = len(things) // 2
            first = await self._whole(things[:half], ask)
            second = await self._whole(things[half:], ask)
            return first | {half + n: each for n, each in second.items()}


def _wait(failures: int, error: errors.FerrymanError) -> None:
    if failures == 1:
        log.warning("durable calls wait for the database", extra={"reason": error.message})


def _apart(asked: Sequence[Asked]) -> Iterable[list[int]]:
    """Give sets in which each task stands once."""
    left = list(range(len(asked)))
    while left:
        seen: set[UUID] = set()
        part = [n for n in left if asked[n].call.task not in seen and not seen.add(asked[n].call.task)]  # type: ignore[func-returns-value]
        yield part
        left = [n for n in left if n not in set(part)]


def _too_long(call: Call) -> Outlasting:
    return Outlasting(f"The {call} would outlast its task, which ends at its ends_at.", call=str(call))
