"""What a handler has done durably, and its replay (T19).

A durable call (a step, a sleep, a wait for an event, a child) is known again by its kind, its name and how often that name
was called. What it came to is written before the handler goes on; at a later claim the handler runs from its beginning, and
calls that are remembered are answered without being done again. Memory is read at the first durable call of a claim that is
not the first: a task that makes none pays nothing.

Calls made by the handler's own asyncio task are made in sequence, and their places are remembered too: a replay that meets
another call at a place fails, instead of taking one answer for another. In parallel branches (gather, TaskGroup) there is
no sequence; there the name alone decides, so two branches that run at once must not share one.

A call that must wait for something does not return: it is noted, and when nothing else of the handler is under way the
asyncio task is cancelled and the claim ends as parked. Which of its branches go on after a step is known only some rounds
of the event loop later, so that many rounds without a durable call are waited for; no timer is involved.

A step that failed is tried again at the next attempt, unless the handler caught the failure and made another durable call:
then the failure is remembered with it, because the way that the handler took depends on it.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from datetime import datetime
from typing import Any, NamedTuple
from uuid import UUID

from ferryman.kernel import errors, payload, retry
from ferryman.kernel.codec import PLAIN, Seal
from ferryman.tasks.joins import CHILD, child_id
from ferryman.tasks.model import Answer, Asked, Birth, Call, Claimed, Kept, NewTask, Park
from ferryman.tasks.rules import ending
from ferryman.tasks.store.steps import DONE, FAILED, OPEN, Key
from ferryman.tasks.work.offspring import Child, refusal
from ferryman.tasks.work.revive import revived
from ferryman.tasks.work.scribe import Scribe

Function = Callable[..., Any]

STEP, SLEEP, EVENT = "step", "sleep", "event"
ROUNDS = 8

_inside: ContextVar[str | None] = ContextVar("ferryman_step", default=None)


class Final(errors.FerrymanError):
    """Ends its own task without another try, whatever the handler makes of it."""


class ReplayMismatch(Final, errors.TaskReplayMismatch):
    """The handler met another step than the one remembered from an earlier attempt."""


class StepAmbiguous(Final, errors.TaskStepAmbiguous):
    """Two parallel branches of a handler call durable steps of one name."""


class UnfitStep(Final, errors.TaskInvalidResult):
    """What a step returned is not JSON that can be stored."""


class _Wait(NamedTuple):
    """What one call waits for."""

    until: datetime | None = None
    name: str | None = None
    children: tuple[UUID, ...] = ()


class Memory:
    """The durable calls of one claim."""

    def __init__(
        self, task: Claimed, scribe: Scribe, main: asyncio.Task[Any], *, limit: int, seal: Seal = PLAIN
    ) -> None:
        """Begin a replay; `main` is the asyncio task that runs the handler."""
        self._task = task
        self._scribe = scribe
        self._main = main
        self._loop = main.get_loop()
        self._limit = limit
        self.seal = seal
        # A first claim has nothing to remember.
        self._known: dict[Key, Answer] | None = {} if task.epoch == 1 else None
        self._places: dict[int, Key] = {}
        self._recalling: asyncio.Future[dict[Key, Answer]] | None = None
        self._counts: Counter[tuple[str, str]] = Counter()
        self._callers: dict[tuple[str, str], asyncio.Task[Any] | None] = {}
        self._position = 0
        self._caught: list[Kept] = []
        self._unborn: list[tuple[Child[Any], Call, Callable[[], NewTask]]] = []
        self._delivery: asyncio.Task[None] | None = None
        self._busy = 0
        self._rounds = 0
        self._watching = False
        self._waits: dict[asyncio.Future[None], _Wait] = {}
        self._bore = False
        self.park: Park | None = None
        self.broken: Final | None = None

    @property
    def bore(self) -> bool:
        """Whether the task has had children."""
        return self._bore or any(kind == CHILD for kind, _, _ in self._known or ())

    # Numbering

    def call(self, kind: str, name: str) -> Call:
        """Number a call, at the moment it is made."""
        if self.park is not None:
            raise asyncio.CancelledError("parked")
        current = asyncio.current_task()
        outer = _inside.get()
        if outer is not None:
            raise errors.HandlerInvalid(f"The {kind} {name!r} is called inside the step {outer!r}, which is one piece.")
        branch = None if current is self._main else current
        last = self._callers.setdefault((kind, name), branch)
        if last is not branch:
            if last is None or not last.done():
                raise self._break(
                    StepAmbiguous(
                        f"The {kind} {name!r} is called in two parallel branches; which is which cannot be told."
                    )
                )
            self._callers[kind, name] = branch
        self._counts[kind, name] += 1
        if branch is None:
            self._position += 1
        position = self._position if branch is None else None
        return Call(self._task.id, self._task.epoch, kind, name, self._counts[kind, name], position)

    def _break(self, error: Final) -> Final:
        self.broken = self.broken or error
        return error

    # Remembering

    async def _remembered(self, call: Call) -> Answer | None:
        """Return what a call came to earlier, or None; refuse one that is not where it was."""
        if self._known is None:
            if self._recalling is None:
                self._recalling = self._scribe.recall(self._task.id)
            known = await asyncio.shield(self._recalling)
            if self._known is None:
                self._known = known
                self._places = {each.position: key for key, each in known.items() if each.position is not None}
        answer = self._known.get(call.key)
        if call.position is not None:
            there = self._places.get(call.position, call.key)
            moved = answer is not None and answer.position not in (None, call.position)
            if there != call.key or moved:
                raise self._break(_mismatch(call, there, answer))
        return answer

    async def step(
        self, call: Call, function: Function, args: Sequence[Any], *, retries: int, backoff: retry.Backoff
    ) -> Any:
        """Do a step once, or return what it came to."""
        with self._working():
            answer = await self._remembered(call)
            if answer is None:
                answer = Answer(DONE, await self._done(call, function, args, retries, backoff))
        if answer.state == FAILED:
            raise errors.TaskStepFailed(
                f"The {call} failed: {payload.decode(answer.result or 'null')}.", step=call.name
            )
        return revived(function, self.opened(answer))

    async def _done(
        self, call: Call, function: Function, args: Sequence[Any], retries: int, backoff: retry.Backoff
    ) -> str | None:
        try:
            value = await _tried(call, function, args, retries, backoff)
        except (Final, errors.DoNotRetry):
            raise
        except Exception as error:
            reason = ending.said(error)
            self._caught.append(Kept(call, FAILED, payload.encode(reason)))
            raise errors.TaskStepFailed(f"The {call} failed: {reason}.", step=call.name) from error
        try:
            text = None if value is None else payload.encode(value, limit=self._limit, error=UnfitStep)
        except UnfitStep as error:
            raise self._break(UnfitStep(f"The result of the {call} cannot be stored: {error.message}")) from None
        kept = None if text is None else self.seal.close(text)
        await self._scribe.remember([*self._forgiven(), Kept(call, DONE, kept)])
        return text

    def opened(self, answer: Answer) -> str | None:
        """Return the text of what a call came to, as it was given to be stored."""
        return None if answer.result is None else self.seal.open(answer.result)

    def _forgiven(self) -> list[Kept]:
        """Take the failures that the handler caught: it goes on, so they are part of its way."""
        caught, self._caught = self._caught, []
        return caught

    # Waiting

    async def wait(self, call: Call, *, seconds: float | None = None, until: datetime | None = None) -> Answer:
        """Wait for a time or an event; the answer is done or failed."""
        with self._working():
            answer = await self._remembered(call)
            if answer is None or answer.state == OPEN:
                if self._caught:
                    await self._scribe.remember(self._forgiven())
                answer = await self._scribe.wait(Asked(call, seconds, until))
        if answer.state == OPEN:
            await self._stay(_Wait(answer.until, call.name if call.kind == EVENT else None))
        return answer

    def child(self, call: Call, task: Callable[[], NewTask], function: Any) -> Child[Any]:
        """Create a child, or meet the one that an earlier attempt created."""
        self._bore = True
        child: Child[Any] = Child(self, child_id(call), function)
        if self._delivery is None:
            self._busy += 1
            self._delivery = self._loop.create_task(self._deliver())
            self._delivery.add_done_callback(self._delivered)
        child.born = self._delivery
        self._unborn.append((child, call, task))
        return child

    async def _deliver(self) -> None:
        """Create all the children that were asked for together, as one set."""
        while self._unborn:
            unborn, self._unborn = self._unborn, []
            births = []
            for child, call, task in unborn:
                answer = await self._remembered(call)
                if answer is None:
                    made = task()._replace(id=child.id, callback=CHILD, callback_ref=str(self._task.id))
                    births.append(Birth(call, made))
                else:
                    child.answer = answer
            if births and self._caught:
                await self._scribe.remember(self._forgiven())
            if births:
                refused = await self._scribe.bear(births)
                for child, call, _ in unborn:
                    if child.id in refused:
                        child.answer = self._refused(call, refused[child.id])

    def _refused(self, call: Call, error: errors.FerrymanError) -> Answer:
        """Note that a child could not be born: like a failed step, it is tried again unless the handler goes on without it."""
        answer = Answer(FAILED, refusal(error))
        self._caught.append(Kept(call, FAILED, answer.result))
        return answer

    def _delivered(self, delivery: asyncio.Task[None]) -> None:
        self._delivery = None
        if not delivery.cancelled():
            delivery.exception()  # told to whoever joins the children
        self._free()

    async def join(self, children: Sequence[Child[Any]]) -> list[Any]:
        """Wait until all have ended; return their results, or raise the failure of the first that failed."""
        for born in dict.fromkeys(child.born for child in children):
            await asyncio.shield(born)
        live = tuple(dict.fromkeys(child.id for child in children if child.answer.state == OPEN))
        if live:
            await self._stay(_Wait(children=live))
        return [child.result() for child in children]

    # Parking

    @contextmanager
    def _working(self) -> Generator[None, None, None]:
        """Say that something is under way that must not be cut off by a park."""
        self._busy += 1
        try:
            yield
        finally:
            self._free()

    def _free(self) -> None:
        self._busy -= 1
        self._stir()

    async def _stay(self, wait: _Wait) -> None:
        """Wait for something that only a later claim will see."""
        future: asyncio.Future[None] = self._loop.create_future()
        self._waits[future] = wait
        self._stir()
        try:
            await future
        finally:
            self._waits.pop(future, None)

    def _stir(self) -> None:
        """Begin to count rounds of the loop anew."""
        self._rounds = 0
        if self._waits and not self._busy and not self._watching:
            self._watching = True
            self._loop.call_soon(self._watch)

    def _watch(self) -> None:
        self._rounds += 1
        if self._busy or not self._waits or self._main.done():
            self._watching = False
        elif self._rounds < ROUNDS:
            self._loop.call_soon(self._watch)
        else:
            self._watching = False
            self.park = _summary(list(self._waits.values()))
            self._main.cancel("parked")

    def close(self) -> None:
        """Let nobody wait any more: the attempt is over."""
        for future in list(self._waits):
            future.cancel()


def _summary(waits: Sequence[_Wait]) -> Park:
    """Say what the task as a whole waits for: whichever of its waits is over first."""
    joins = [wait.children for wait in waits if wait.children]
    untils = [wait.until for wait in waits if wait.until is not None]
    return Park(
        wake_at=min(untils, default=None),
        names=tuple(sorted({wait.name for wait in waits if wait.name is not None})),
        children=tuple(dict.fromkeys(id for each in joins for id in each)),
        # Of several joins, none is over before the smallest could be.
        open=min((len(each) for each in joins), default=None),
    )


def _mismatch(call: Call, there: Key, answer: Answer | None) -> ReplayMismatch:
    if there != call.key:
        kind, name, nth = there
        was = str(call._replace(kind=kind, name=name, nth=nth))
        said = (
            f"Durable call {call.position} of the handler is the {call} now, and was the {was} in an earlier attempt."
        )
    else:
        before = None if answer is None else answer.position
        said = f"The {call} is durable call {call.position} of the handler now, and was call {before} in an earlier attempt."
    return ReplayMismatch(said, call=str(call), position=call.position)


async def _tried(call: Call, function: Function, args: Sequence[Any], retries: int, backoff: retry.Backoff) -> Any:
    token = _inside.set(call.name)
    try:
        return await retry.tried(function, args, retries=retries, backoff=backoff, final=(Final, errors.DoNotRetry))
    finally:
        _inside.reset(token)
