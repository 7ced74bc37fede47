"""Running one claimed task: every way it can end is an outcome."""

from __future__ import annotations

import asyncio
import contextlib
import functools
import logging
from collections.abc import Callable, Mapping
from typing import Any, assert_never
from uuid import UUID

from ferryman.kernel import codec, errors, faults, payload, telemetry
from ferryman.tasks.joins import CHILD
from ferryman.tasks.model import Claimed, Outcome
from ferryman.tasks.rules import ending
from ferryman.tasks.work import child, context, outcomes
from ferryman.tasks.work.deadlines import Deadline, Deadlines
from ferryman.tasks.work.durable import Desk
from ferryman.tasks.work.handlers import Handler, Kind, prepare
from ferryman.tasks.work.scribe import Outlasting
from ferryman.tasks.work.threads import Threads, TooManyLeftBehind
from ferryman.tasks.work.words import Words

log = logging.getLogger("ferryman.tasks")


class Runner:
    """Call handlers; each in its own error boundary."""

    def __init__(
        self,
        handlers: Mapping[str, Handler],
        words: Words,
        desk: Desk,
        *,
        owner: UUID,
        limit: int,
        concurrency: int,
        home: object = None,
        freed: Callable[[], None] | None = None,
        seal: codec.Seal = codec.PLAIN,
    ) -> None:
        """Run for one worker of one app (`home`); `limit` bounds the size of a result; `freed` hears of new room."""
        if handlers:
            prepare()
        self._handlers = handlers
        self._home = home
        self._owner = owner
        self._limit = limit
        self._seal = seal
        self._words = words
        self._desk = desk
        self._threads = Threads(concurrency, freed=freed)
        self._names = sorted(handlers)
        self._others = sorted(name for name, handler in handlers.items() if handler.kind is not Kind.THREAD)
        self._deadlines = Deadlines()

    @property
    def names(self) -> list[str]:
        """The handlers that there is room for now: none in threads while too many were left behind."""
        return self._others if self._threads.full else self._names

    async def run(self, task: Claimed) -> Outcome | None:
        """Run a task to the end of this attempt; what it has said is written before its outcome, or soon after."""
        if task.payload.startswith(codec.BEGINS):
            try:
                task = task._replace(payload=self._seal.open(task.payload))
            except errors.PayloadSealed as error:
                return self._lost(task, error.code, error.message)
        told = context.Context(task, report=self._words.report, say=self._words.say, desk=self._desk, home=self._home)
        outcome = await self._attempt(task, told)
        if outcome is not None and told.memory is not None and told.memory.bore:
            outcome = outcome._replace(bore=True)
        if outcome is not None and told.spoke:
            # The next claim fences this one's words. A cancel by the pump changes nothing: the outcome has its fence.
            with contextlib.suppress(asyncio.CancelledError):
                await self._words.written()
        return outcome

    async def _attempt(self, task: Claimed, told: context.Context) -> Outcome | None:
        timer = self._deadlines.begin(task.timeout_ms / 1000)
        told.main = timer.task
        try:
            faults.point("handler.started")
            handler = self._handlers.get(task.name)
            if handler is None:
                return self._unfit(task, errors.TaskUnknownHandler(f"No handler is named {task.name} in this worker."))
            try:
                arguments = handler.fit(task.payload)
            except errors.TaskInvalidPayload as error:
                return self._unfit(task, error)
            with telemetry.span(task.name, task.traceparent, {"ferryman.task_id": told.task_id}):
                result = await self._call(handler, arguments, told)
            faults.point("handler.returned")
            # The handler may have caught its cancellation and returned, or raised something else, all the same.
            return self._cut_short(task, told, timer) or self._won(task, result)
        except TooManyLeftBehind:
            return self.hand_back(task)  # claimed a moment before there was no room any more
        except (child.UnfitResult, Outlasting) as error:
            return self._cut_short(task, told, timer) or self._unfit(task, error)
        except BaseException as error:  # noqa: BLE001 - SystemExit and KeyboardInterrupt of a handler end its task only
            return self._cut_short(task, told, timer) or self._raised(task, error)
        finally:
            self._deadlines.end(timer)
            told.end()

    def _cut_short(self, task: Claimed, told: context.Context, timer: Deadline) -> Outcome | None:
        """Return how the attempt ended if that was not for the handler to say."""
        memory = told.memory
        if memory is not None and memory.broken is not None:
            return self._unfit(task, memory.broken)
        if memory is not None and memory.park is not None:
            return self.hand_back(task)._replace(park=memory.park)
        return self._timed_out(task) if timer.expired else None

    async def _call(self, handler: Handler, arguments: dict[str, Any], told: context.Context) -> Any:
        if handler.context is not None:
            arguments[handler.context] = told
        token = context.enter(told)
        try:
            match handler.kind:
                case Kind.ASYNC:
                    return await handler.function(**arguments)
                case Kind.THREAD:
                    return await self._threads.run(functools.partial(handler.function, **arguments))
                case Kind.PROCESS:
                    return await child.run(handler.function, told.task.payload)
                case other:
                    assert_never(other)
        finally:
            context.leave(token)

    def _won(self, task: Claimed, result: Any) -> Outcome:
        try:
            text = None if result is None else payload.encode(result, limit=self._limit, error=errors.TaskInvalidResult)
        except errors.TaskInvalidResult as error:
            return self._unfit(task, error)
        # What is owed to another domain is read there.
        if text is not None and self._seal.active and task.callback in {None, CHILD}:
            text = self._seal.close(text)
        return outcomes.won(task, owner=self._owner, result=text)

    def _unfit(self, task: Claimed, error: errors.FerrymanError) -> Outcome:
        return self._lost(task, error.code, error.message, again=False)

    def _raised(self, task: Claimed, error: BaseException) -> Outcome | None:
        """Whatever came out of the handler's own code is its failure; so is what cannot even be told."""
        try:
            return self._failed(task, error)
        except BaseException:  # the attempt must end, whatever is wrong with what was raised
            log.exception("what a handler raised could not be read", extra={"task": str(task.id)})
            again = not issubclass(type(error), errors.DoNotRetry)
            return self._lost(task, ending.EXECUTION_FAILED, ending.UNREADABLE, again=again)

    def _failed(self, task: Claimed, error: BaseException) -> Outcome | None:
        if isinstance(error, errors.DoNotRetry):
            return self._lost(task, ending.EXECUTION_FAILED, errors.said(error.reason), again=False)
        current = asyncio.current_task()
        if isinstance(error, asyncio.CancelledError) and current is not None and current.cancelling():
            return None  # by the pump: the lease is gone, or the task has been handed back; nothing more is owed
        if isinstance(error, errors.TaskStepFailed) and error.__cause__ is not None:
            error = error.__cause__
        log.debug("a handler raised", exc_info=error, extra={"task": str(task.id), "handler": task.name})
        return self._lost(task, ending.EXECUTION_FAILED, ending.said(error))

    def _timed_out(self, task: Claimed) -> Outcome:
        return self._lost(task, ending.TIMEOUT, f"start_to_close timeout after {task.timeout_ms} ms")

    def hand_back(self, task: Claimed) -> Outcome:
        """Return a task that was not done here; no attempt is used."""
        return outcomes.hand_back(task, owner=self._owner)

    def _lost(self, task: Claimed, code: str, reason: str, *, again: bool = True) -> Outcome:
        return outcomes.lost(task, owner=self._owner, code=code, reason=reason, again=again)

    def spoil(self, outcome: Outcome, error: Exception) -> Outcome | None:
        """Replace an outcome that PostgreSQL refuses by one that it cannot refuse."""
        return outcomes.spoil(outcome, error)

    def close(self) -> None:
        """Let idle threads go."""
        self._threads.close()
