"""What an agent's function holds: its turn (A9).

Everything that is awaited here is durable: a step is done once, a call waits without a worker, and a function that is run anew,
here or elsewhere, gets the same answers. What is not awaited through the turn is ordinary code and is simply run again.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from functools import cached_property
from typing import Any, TypeVar, TypeVarTuple, Unpack, overload
from uuid import UUID

from ferryman.agents.model import CardRecord
from ferryman.agents.states import TurnStatus
from ferryman.agents.work.calls import Calls, call_failed
from ferryman.agents.work.memory import CALL, CARD, STEP, Answer, Memory, digest
from ferryman.agents.work.steps import Spent, Steps
from ferryman.kernel import errors, ids, payload, retry
from ferryman.tasks.rules.ending import readable

Result = TypeVar("Result")
Args = TypeVarTuple("Args")
Function = Callable[..., Any]

INSTRUCTION, RESULT_FIELDS, THOUGHT = "task.instruction", "task.result_fields", "agent.thought"
FORK_JOIN = "fork_join"
# What a handler may write of its own; the others are written by what they stand for.
WRITABLE = (THOUGHT, "agent.error", "task.deliverable", "meta.parent_pointer", "sys.profile")


@dataclass(frozen=True, slots=True)
class CardView:
    """A card as a handler reads it."""

    id: UUID
    type: str
    role: str
    author: str
    content: Any


@dataclass(frozen=True, slots=True)
class ToolResult:
    """What a call came to: its value, or its error with a code."""

    name: str
    status: str
    value: Any = None
    code: str | None = None
    message: str | None = None

    @property
    def ok(self) -> bool:
        """Whether it succeeded."""
        return self.status == TurnStatus.SUCCESS

    def unwrap(self) -> Any:
        """Return the value; raise what became of the call instead."""
        if self.ok:
            return self.value
        raise call_failed(self.name, self.status, self.code, self.message)


class Turn:
    """One turn of one agent, in the hands of its function."""

    def __init__(self, memory: Memory, context: Sequence[CardRecord], *, steps: Steps, calls: Calls) -> None:
        """Belong to one run of the function."""
        self._memory = memory
        self._context = context
        self._steps = steps
        self._calls = calls

    @property
    def id(self) -> UUID:
        """The turn's key."""
        return self._memory.taken.id

    @property
    def agent_id(self) -> str:
        """Whose turn it is."""
        return self._memory.taken.agent_id

    @property
    def tenant(self) -> str:
        """The tenant it belongs to."""
        return self._memory.taken.tenant

    @property
    def channel(self) -> str | None:
        """The channel it was asked for on."""
        return self._memory.taken.channel

    @property
    def depth(self) -> int:
        """How many turns led to this one."""
        return self._memory.taken.depth

    @cached_property
    def context(self) -> Sequence[CardView]:
        """The cards it was given, in order."""
        return [
            CardView(each.id, each.type, each.role, each.author_id, payload.decode(each.content))
            for each in self._context
        ]

    @property
    def instruction(self) -> Any:
        """What it was asked to do: the newest instruction."""
        return next((each.content for each in reversed(self.context) if each.type == INSTRUCTION), None)

    @cached_property
    def result_fields(self) -> Sequence[str]:
        """The names of the fields that a result must have (A14)."""
        named = [each.content for each in self.context if each.type == RESULT_FIELDS]
        return list(dict.fromkeys(name for content in named for name in _fields(content)))

    # Steps

    @overload
    def step(
        self, name: str, function: Callable[[Unpack[Args]], Awaitable[Spent[Result]]], /, *args: *Args, **options: Any
    ) -> Coroutine[Any, Any, Result]: ...

    @overload
    def step(
        self, name: str, function: Callable[[Unpack[Args]], Awaitable[Result]], /, *args: *Args, **options: Any
    ) -> Coroutine[Any, Any, Result]: ...

    @overload
    def step(
        self, name: str, function: Callable[[Unpack[Args]], Result], /, *args: *Args, **options: Any
    ) -> Coroutine[Any, Any, Result]: ...

    # mypy does not see that *Any takes what *Args takes.
    def step(  # type: ignore[misc]
        self,
        name: str,
        function: Function,
        /,
        *args: Any,
        retries: int = 0,
        backoff: Any = None,
        tokens: int = 0,
        cost: float = 0.0,
    ) -> Any:
        """Do a piece of work once, a model's answer as a rule, and remember what it returned.

        The function is async, or plain and short; returning `Spent(value, ...)` says what it used. `tokens` and `cost` are
        how much it may use at most: so much is reserved before it is called, where the turn has a budget.
        """
        mark = self._memory.mark(STEP, ids.check_name(name, "name"))
        return self._steps.step(
            mark, function, args, retries=retries, backoff=retry.Backoff.parse(backoff), tokens=tokens, cost=cost
        )

    def write(self, content: Any, *, type: str = THOUGHT, role: str = "assistant") -> Coroutine[Any, Any, UUID]:
        """Write a card into the output box; it is there once, however often this function is run."""
        if type not in WRITABLE:
            raise errors.AgentInvalidRequest(
                f"type: expected one of {', '.join(WRITABLE)}, got {ascii(type)[:60]}.", field="type"
            )
        return self._steps.write(self._memory.mark(CARD, type), content, role=role)

    # Calls

    def call_tool(self, name: str, /, **arguments: Any) -> Coroutine[Any, Any, Any]:
        """Call a tool and return its result, waiting without a worker; TOOL_FAILED is raised for one that failed."""
        return self._unwrapped(
            self._calls.tool(self._memory.mark(CALL, _named(name), said=digest(arguments)), arguments), name
        )

    def call_tools(
        self, calls: Sequence[tuple[str, Mapping[str, Any]]], /
    ) -> Coroutine[Any, Any, Sequence[ToolResult]]:
        """Call several tools at once; return what became of each, in order, failures too."""
        mark = self._memory.mark
        marked = [
            (name, self._calls.tool(mark(CALL, _named(name), said=digest(given)), dict(given))) for name, given in calls
        ]
        return self._together(marked)

    def delegate(
        self, agent: str | Function, instruction: Any, /, *, timeout: timedelta | float | None = None
    ) -> Coroutine[Any, Any, Any]:
        """Ask another agent for a turn, and return its deliverable, waiting without a worker.

        A profile, or its function, stands for a new agent of that profile. TOOL_FAILED is raised when its turn failed.
        """
        name = self._calls.name_of(agent)
        patience = timedelta(seconds=timeout) if isinstance(timeout, int | float) else timeout
        mark = self._memory.mark(CALL, f"agent:{name}", said=digest(instruction))
        return self._unwrapped(self._calls.delegate(mark, name, instruction, timeout=patience), name)

    def fork_join(
        self,
        tasks: Sequence[Mapping[str, Any]] = (),
        *,
        fail_fast: bool | None = None,
        deadline_seconds: float | None = None,
        **more: Any,
    ) -> Coroutine[Any, Any, Any]:
        """Ask several agents for turns at once, and return what became of all of them, waiting without a worker.

        Each task says `target_strategy` (new, reuse or clone), `target_ref`, `instruction` and perhaps `context_box_id`. The
        answer has a `status` (success, partial, failed, timeout) and `results` in the order of the tasks, whatever they came
        to. TOOL_FAILED is raised only where nothing was forked; a field that is not known is refused by its name.
        """
        asked = {"tasks": list(tasks) if isinstance(tasks, tuple) else tasks, **more}
        asked |= {} if fail_fast is None else {"fail_fast": fail_fast}
        asked |= {} if deadline_seconds is None else {"deadline_seconds": deadline_seconds}
        return self._joined(self._calls.fork(self._memory.mark(CALL, FORK_JOIN), asked))

    async def _joined(self, coming: Awaitable[Answer]) -> Any:
        answer = await coming
        return _result(FORK_JOIN, answer).unwrap() if answer.result is None else answer.result

    async def _unwrapped(self, coming: Awaitable[Answer], name: str) -> Any:
        return _result(name, await coming).unwrap()

    async def _together(self, marked: Sequence[tuple[str, Coroutine[Any, Any, Answer]]]) -> Sequence[ToolResult]:
        answers = await self._calls.together([coming for _, coming in marked])
        return [_result(name, answer) for (name, _), answer in zip(marked, answers, strict=True)]

    # Saying

    def emit(self, text: str, /) -> None:
        """Stream a piece of text to whoever listens now; it is kept nowhere, and may be said again by a replay."""
        self._steps.emit(self._memory.taken, text)

    async def submit_result(self, result: Any = None, /, **fields: Any) -> Sequence[str]:
        """End the turn with this result. Where fields are required and some are missing, return their names and go on."""
        value = fields if result is None else result
        missing = [name for name in self.result_fields if not _has(value, name)]
        if missing:
            await self._steps.refuse(self._memory.mark(STEP, "submit_result"), missing)
            return missing
        text = self._steps.text(value, "The result")
        raise self._memory.end(TurnStatus.SUCCESS, None, None, content=payload.decode(text))


def _result(name: str, answer: Answer) -> ToolResult:
    error = answer.error or {}
    return ToolResult(name, answer.status, answer.result, error.get("code"), error.get("message"))


def _named(name: object) -> str:
    """Return what a call is remembered under: a model may ask for anything."""
    return readable(str(name))[: ids.LONGEST]


def _fields(content: Any) -> list[str]:
    """Read required fields: a list of names, or of objects with a name."""
    given = content.get("fields", []) if isinstance(content, Mapping) else content
    if not isinstance(given, list):
        return []
    named = [each.get("name") if isinstance(each, Mapping) else each for each in given]
    return [name for name in named if isinstance(name, str)]


def _has(value: Any, name: str) -> bool:
    """Tell whether a result has a field: a mapping by name, or a list of {name, value}."""
    if isinstance(value, Mapping) and "fields" in value and name not in value:
        value = value["fields"]
    if isinstance(value, Mapping):
        return value.get(name) is not None
    if isinstance(value, list):
        return any(
            isinstance(each, Mapping) and each.get("name") == name and each.get("value") is not None for each in value
        )
    return False
