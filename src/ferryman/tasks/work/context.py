"""What a running handler can know and say of its task.

The context variable follows the handler into what it awaits, the tasks it starts and the thread it runs in. The doors of the
app whose worker runs it look here for the tenant they serve (K12).
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextvars import ContextVar, Token
from typing import Any
from uuid import UUID

from ferryman.kernel import errors
from ferryman.tasks.model import Claimed
from ferryman.tasks.rules.ending import readable
from ferryman.tasks.work.durable import Desk, Durable
from ferryman.tasks.work.memory import Memory

Report = Callable[[Claimed, int, str | None], None]
Say = Callable[[Claimed, str, str], None]

PERCENT_MAX = 100
LEVELS = ("debug", "info", "warning", "error")

_current: ContextVar[Context] = ContextVar("ferryman_context")


class Context(Durable):
    """The task that runs here."""

    __slots__ = ("_desk", "_report", "_say", "_told", "heard", "home", "main", "memory", "spoke", "task")

    def __init__(self, task: Claimed, *, report: Report, say: Say, desk: Desk, home: object = None) -> None:
        """Belong to one claim; `home` tells the app whose worker runs it from others."""
        self.task = task
        self.home = home
        self._report = report
        self._say = say
        self._desk = desk
        self._told = False  # read and written whole by any thread
        self.spoke = False
        self.heard: Callable[[float], None] | None = None  # who else hears of progress, in whatever thread it is told
        self.main: asyncio.Task[Any] | None = None
        self.memory: Memory | None = None

    @property
    def id(self) -> UUID:
        """The task's key."""
        return self.task.id

    @property
    def task_id(self) -> str:
        """The name its creator gave it, or the text of its key."""
        return self.task.task_id or str(self.task.id)

    @property
    def tenant(self) -> str:
        """The tenant it belongs to."""
        return self.task.tenant

    @property
    def attempt(self) -> int:
        """The number of this try, from 1."""
        return self.task.attempt

    @property
    def ended(self) -> bool:
        """Whether this attempt has been ended from outside (timeout, cancel, lost lease): what it returns is ignored."""
        return self._told

    def check(self) -> None:
        """Raise if this attempt has been ended from outside; for loops in plain functions, which cannot be interrupted."""
        if self._told:
            raise errors.TaskCancelled("This attempt has been ended from outside.")

    def progress(self, percent: float, message: str | None = None) -> None:
        """Tell how far the work is, 0 to 100; the latest word is kept."""
        if isinstance(percent, bool) or not 0 <= percent <= PERCENT_MAX:
            raise errors.TaskInvalidRequest(f"progress: expected 0 to 100, got {percent!r}.", field="percent")
        self.spoke = True
        self._report(self.task, int(percent), None if message is None else readable(str(message)))
        if self.heard is not None:
            self.heard(float(percent))

    def log(self, message: str, *, level: str = "info") -> None:
        """Keep a line in the task's log."""
        if level not in LEVELS:
            raise errors.TaskInvalidRequest(
                f"level: expected one of {', '.join(LEVELS)}, got {level!r}.", field="level"
            )
        self.spoke = True
        self._say(self.task, level, readable(str(message)))

    def _remembering(self) -> tuple[Memory, Desk]:
        main = self.main
        if main is None or _loop() is not main.get_loop():
            raise errors.HandlerInvalid(
                "Steps, sleeps, events and children are for async handlers: make this one async."
            )
        if self.memory is None:
            self.memory = self._desk.open(self.task, main)
        return self.memory, self._desk

    def end(self) -> None:
        """Tell the handler that its attempt is over."""
        self._told = True
        if self.memory is not None:
            self.memory.close()


def _loop() -> asyncio.AbstractEventLoop | None:
    try:
        return asyncio.get_running_loop()
    except RuntimeError:
        return None


def current() -> Context:
    """Return the context of the handler that is running here."""
    try:
        return _current.get()
    except LookupError:
        raise errors.NotOpen("There is no running task here: current() is for handlers.") from None


def tenant_in(home: object) -> str | None:
    """Return the tenant of the task that is running here, if a worker of this app runs it."""
    told = _current.get(None)
    return told.tenant if told is not None and told.home is home else None


def enter(context: Context) -> Token[Context]:
    """Make a context the current one, for the handler and whatever it starts."""
    return _current.set(context)


def leave(token: Token[Context]) -> None:
    """Be nobody's context again."""
    _current.reset(token)
