"""What a handler can do durably: the part of its context that remembers (T19)."""

from __future__ import annotations

import asyncio
from abc import abstractmethod
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from datetime import datetime, timedelta
from typing import Any, Protocol, TypeVar, TypeVarTuple, Unpack, overload

from ferryman.kernel import errors, ids, payload, retry
from ferryman.kernel.codec import PLAIN, Seal
from ferryman.tasks.joins import CHILD
from ferryman.tasks.model import Claimed, NewTask
from ferryman.tasks.rules import request
from ferryman.tasks.work.memory import EVENT, SLEEP, STEP, Memory
from ferryman.tasks.work.offspring import Child
from ferryman.tasks.work.scribe import Scribe

Result = TypeVar("Result")
Args = TypeVarTuple("Args")
Function = Callable[..., Any]

RETRIES_MAX = 1000


class Drafts(Protocol):
    """Who can check the request for a child."""

    def __call__(self, task: str | Function, *, tenant: str, **fields: Any) -> tuple[NewTask, Callable[[Any], NewTask]]:
        """Return the row that it asks for, without its payload, and what checks a payload and makes the whole row of it."""


class Desk:
    """What a worker lends to handlers that want to remember: its scribe, and its drafts of children."""

    def __init__(self, scribe: Scribe, drafts: Drafts, *, limit: int, seal: Seal = PLAIN) -> None:
        """Serve one worker; `limit` bounds the size of a step's result."""
        self._scribe = scribe
        self.drafts = drafts
        self._limit = limit
        self._seal = seal

    def open(self, task: Claimed, main: asyncio.Task[Any]) -> Memory:
        """Begin a replay of one claim."""
        return Memory(task, self._scribe, main, limit=self._limit, seal=self._seal)


class Durable:
    """Steps, sleeps, events and children of a handler."""

    __slots__ = ()

    @property
    @abstractmethod
    def tenant(self) -> str:
        """The tenant of the task."""

    @abstractmethod
    def _remembering(self) -> tuple[Memory, Desk]:
        """Return the memory of this attempt, begun at its first use."""

    @overload
    def step(
        self,
        name: str,
        function: Callable[[Unpack[Args]], Awaitable[Result]],
        /,
        *args: *Args,
        retries: int = 0,
        backoff: retry.Spelling = None,
    ) -> Coroutine[Any, Any, Result]: ...

    @overload
    def step(
        self,
        name: str,
        function: Callable[[Unpack[Args]], Result],
        /,
        *args: *Args,
        retries: int = 0,
        backoff: retry.Spelling = None,
    ) -> Coroutine[Any, Any, Result]: ...

    # mypy does not see that *Any takes what *Args takes.
    def step(  # type: ignore[misc]
        self, name: str, function: Function, /, *args: Any, retries: int = 0, backoff: Any = None
    ) -> Any:
        """Do a piece of work once, and remember what it returned across attempts and restarts.

        The function is async, or plain and short. It is tried `retries` times more at once, before its failure is raised
        as TASK_STEP_FAILED.
        """
        memory, _ = self._remembering()
        call = memory.call(STEP, ids.check_name(name, "name"))
        tries = request.whole(retries, "retries", 0, RETRIES_MAX)
        return memory.step(call, function, args, retries=tries, backoff=retry.Backoff.parse(backoff))

    def sleep(
        self, duration: timedelta | float | None = None, /, *, until: datetime | None = None, name: str = SLEEP
    ) -> Coroutine[Any, Any, None]:
        """Wait for so many seconds, or until a time, without holding a worker."""
        memory, _ = self._remembering()
        if (duration is None) == (until is None):
            raise errors.TaskInvalidRequest("sleep: expected a duration or until, one of the two.", field="duration")
        seconds = None if duration is None else _seconds(duration, "duration")
        moment = None if until is None else request.moment(until, "until")
        return _slept(memory, memory.call(SLEEP, ids.check_name(name, "name")), seconds, moment)

    def wait_event(self, name: str, /, timeout: timedelta | float | None = None) -> Coroutine[Any, Any, Any]:
        """Wait for an event that somebody sends to this task, and return its payload, without holding a worker.

        An event that came before is there still; each is taken by one wait. After the timeout TASK_WAIT_TIMEOUT is
        raised; without one the task waits for as long as it may live.
        """
        memory, _ = self._remembering()
        seconds = None if timeout is None else _seconds(timeout, "timeout")
        return _event(memory, memory.call(EVENT, ids.check_name(name, "name")), seconds)

    @overload
    def child(self, task: Callable[..., Awaitable[Result]], given: Any = ..., /, **options: Any) -> Child[Result]: ...

    @overload
    def child(self, task: Callable[..., Result], given: Any = ..., /, **options: Any) -> Child[Result]: ...

    @overload
    def child(self, task: str, given: Any = ..., /, **options: Any) -> Child[Any]: ...

    def child(
        self,
        task: str | Function,
        given: Any = None,
        /,
        *,
        name: str | None = None,
        queue: str | None = None,
        priority: int | None = None,
        timeout: timedelta | float | None = None,
        max_retries: int | None = None,
        backoff: Any = None,
        **arguments: Any,
    ) -> Child[Any]:
        """Create a task of this one's own; await it, or several by `join`, for the result.

        A child is created once, however often this handler is tried, and does not outlive its parent. The payload is given
        whole, or as keyword arguments; one that does not fit is refused where the child is awaited, and so is a child whose
        queue is full or whose singleton lives. `name` tells children of parallel branches apart.
        """
        memory, desk = self._remembering()
        if given is not None and arguments:
            raise errors.TaskInvalidPayload("Give the payload whole or as keyword arguments, not both.")
        like, whole = desk.drafts(
            task,
            tenant=self.tenant,
            queue=queue,
            priority=priority,
            timeout_ms=request.milliseconds(timeout),
            max_retries=max_retries,
            backoff=backoff,
        )
        call = memory.call(CHILD, like.name if name is None else ids.check_name(name, "name"))
        value = arguments if given is None else given
        return memory.child(call, lambda: whole(value), None if isinstance(task, str) else task)

    def join(self, children: Sequence[Child[Result]]) -> Coroutine[Any, Any, list[Result]]:
        """Wait until all these children have ended, without holding a worker; return their results in order.

        When one of them did not succeed, TASK_CHILD_FAILED is raised for the first such, after all have ended.
        """
        memory, _ = self._remembering()
        return memory.join(list(children))


async def _slept(memory: Memory, call: Any, seconds: float | None, until: datetime | None) -> None:
    await memory.wait(call, seconds=seconds, until=until)


async def _event(memory: Memory, call: Any, seconds: float | None) -> Any:
    answer = await memory.wait(call, seconds=seconds)
    if answer.state == "failed":
        raise errors.TaskWaitTimeout(f"The {call} did not come in its time.", event=call.name)
    text = memory.opened(answer)
    return None if text is None else payload.decode(text)


def _seconds(value: Any, field: str) -> float:
    seconds = value.total_seconds() if isinstance(value, timedelta) else value
    if isinstance(seconds, bool) or not isinstance(seconds, int | float) or not 0 <= seconds < request.SECONDS_MAX:
        raise errors.TaskInvalidRequest(f"{field}: expected seconds, 0 or more, got {value!r}.", field=field)
    return float(seconds)
