"""What a turn has done durably, its replay, and its waiting (A9).

A durable call (a step, a tool's call, another agent's turn) is known again by its kind, its name and how often that name was
called; what is called in sequence by the handler itself also by its place. Its answer is written before the handler goes on. A
worker that takes a turn in hand anew runs the handler from its beginning: what is remembered is answered at once, and a call
that is not where it was ends the turn, instead of taking one answer for another. In parallel branches there is no sequence:
there a tool's call is known by its arguments, and a step by its name alone, so that two branches must not share one.

A call that must wait does not return: it is noted, and when nothing else durable of the handler is under way the turn is
suspended with all the calls it waits for. Which branches go on after a step is known only some rounds of the event loop later,
so that many rounds are waited for; no timer is involved. The handler itself stays where it is: if the turn comes back to this
worker soon it goes on from there (work/kept.py), else it is ended and run anew elsewhere.
"""

from __future__ import annotations

import asyncio
import hashlib
from collections import Counter
from collections.abc import Callable, Collection, Generator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, NamedTuple
from uuid import UUID

import orjson

from ferryman.agents.model import Call, CallRecord, StepRecord, Taken
from ferryman.agents.states import TurnStatus
from ferryman.kernel import errors, payload

STEP, CARD, CALL = "step", "card", "call"
POSITION = "position"
ROUNDS = 8

Key = tuple[str, str, int]

inside: ContextVar[str | None] = ContextVar("ferryman_turn_step", default=None)


class Mark(NamedTuple):
    """One durable call of a handler: `nth` of its kind and name, and its place among those made in sequence.

    A call of a tool also has an id, the same at every replay; in a branch it is made of what was `said`, the arguments.
    """

    kind: str
    name: str
    nth: int
    position: int | None
    said: str = ""
    id: str = ""

    @property
    def row(self) -> str:
        """The name under which it is written down."""
        return self.name if self.position is not None or not self.said else f"{self.name}#{self.said}"

    @property
    def key(self) -> Key:
        """What tells it from the other calls of its turn."""
        return self.kind, self.name, self.nth

    def __str__(self) -> str:
        """Name it as a person would."""
        return f"{self.kind} {self.name!r}" + (f" (number {self.nth})" if self.nth > 1 else "")


class Over(BaseException):
    """Ends its turn, whatever the handler makes of it: not an Exception, so that few handlers catch it."""

    def __init__(
        self, status: TurnStatus, code: str | None = None, message: str | None = None, *, content: Any = None
    ) -> None:
        """Say how the turn ends; `content` is its deliverable."""
        super().__init__(message or code or status.value)
        self.status = status
        self.code = code
        self.message = message
        self.content = content


class Answer(NamedTuple):
    """What a tool's call came to: the content of its tool.result card."""

    status: str
    result: Any
    error: Mapping[str, Any] | None
    terminates: bool
    card: UUID | None


class Memory:
    """The durable calls of one turn, as long as its handler lives here."""

    def __init__(self, taken: Taken, *, steps: Collection[StepRecord] = (), calls: Collection[CallRecord] = ()) -> None:
        """Begin a replay of what is remembered."""
        self.taken = taken
        self.steps: dict[Key, StepRecord] = {}
        self.answers: dict[str, Answer] = {}  # by the id of the call
        self.main: asyncio.Task[Any] | None = None
        self.over: Over | None = None
        self.last_step: UUID | None = None
        self.tokens = 0
        self.cost = 0.0
        self.told: Callable[[], None] = lambda: None  # set by whoever runs the handler: it waits, or its end was said
        self._places: dict[int, Key] = {}
        self._where: dict[Key, int] = {}
        self._counts: Counter[tuple[str, str, str]] = Counter()
        self._callers: dict[tuple[str, str], asyncio.Task[Any] | None] = {}
        self._position = 0
        self._asked: dict[str, tuple[Call, asyncio.Future[Answer]]] = {}
        self._busy = 0
        self._rounds = 0
        self._watching = False
        self._held: asyncio.Event = asyncio.Event()  # set while a worker holds the turn
        self._held.set()
        for step in steps:
            self._recall(step)
        self._recall_calls(calls)

    def _recall(self, step: StepRecord) -> None:
        key = (step.kind, step.name, step.nth)
        self.steps[key] = step
        self.use(step.input_tokens, step.output_tokens, step.cost)
        told = payload.decode(step.metadata) if step.metadata else {}
        if step.kind == CALL:  # one that was refused here, and never asked for
            self.answers[told.get(CALL, "")] = answer_of(payload.decode(step.result or "{}"))
        if told.get(POSITION) is not None:
            self._place(key, told[POSITION])

    def use(self, input_tokens: int | None, output_tokens: int | None, cost: Any) -> None:
        """Count what a step used."""
        self.tokens += (input_tokens or 0) + (output_tokens or 0)
        self.cost += float(cost or 0)

    def _recall_calls(self, calls: Collection[CallRecord]) -> None:
        for call in calls:
            key = (CALL, call.tool_name, call.nth)
            place = position_in(call.tool_call_id)
            if place is not None:
                self._place(key, place)
            if call.result is not None and call.tool_call_id not in self.answers:
                self.answers[call.tool_call_id] = read(call)

    def _place(self, key: Key, position: int) -> None:
        self._places[position] = key
        self._where[key] = position

    @property
    def steps_made(self) -> int:
        """How many steps the handler has begun."""
        return sum(count for (kind, _, _), count in self._counts.items() if kind == STEP)

    @property
    def calls_made(self) -> int:
        """How many calls of tools and of other agents it has begun."""
        return sum(count for (kind, _, _), count in self._counts.items() if kind == CALL)

    # Numbering

    def mark(self, kind: str, name: str, *, said: str = "") -> Mark:
        """Number a call at the moment it is made, and refuse one that is not where it was."""
        if self.over is not None:
            raise self.over
        outer = inside.get()
        if outer is not None:
            raise self.end(
                TurnStatus.FAILED,
                "step_nested",
                f"The {kind} {name!r} is called inside the step {outer!r}, which is one piece.",
            )
        current = asyncio.current_task()
        branch = None if current is self.main else current
        if kind != CALL:
            self._check_branch(kind, name, branch)
        counted = (kind, name, said if branch is not None else "")
        self._counts[counted] += 1
        if branch is None:
            self._position += 1
        mark = Mark(kind, name, self._counts[counted], self._position if branch is None else None, said)
        if branch is None:
            self._check_place(mark)
        return mark._replace(id=_call_id(self.taken.id, mark)) if kind == CALL else mark

    def _check_branch(self, kind: str, name: str, branch: asyncio.Task[Any] | None) -> None:
        last = self._callers.setdefault((kind, name), branch)
        if last is branch:
            return
        if last is None or not last.done():
            raise self.end(
                TurnStatus.FAILED,
                "step_ambiguous",
                f"The {kind} {name!r} is called in two parallel branches; which is which cannot be told.",
            )
        self._callers[kind, name] = branch

    def _check_place(self, mark: Mark) -> None:
        assert mark.position is not None
        there = self._places.get(mark.position, mark.key)
        before = self._where.get(mark.key, mark.position)
        if there == mark.key and before == mark.position:
            return
        was = Mark(*there, None) if there != mark.key else f"call {before}"
        raise self.end(
            TurnStatus.FAILED,
            "replay_mismatch",
            f"Durable call {mark.position} of the handler is the {mark} now, and was {was} before it was run again.",
        )

    def end(self, status: TurnStatus, code: str | None, message: str | None, *, content: Any = None) -> Over:
        """Say how the turn ends, once; what the handler makes of it does not matter any more."""
        if self.over is None:
            self.over = Over(status, code, message, content=content)
            self._held.set()  # whoever waits for the turn hears of its end instead
            self.told()
        return self.over

    @property
    def waiting(self) -> bool:
        """Whether the turn is to be suspended, or is."""
        return not self._held.is_set()

    # Doing

    @contextmanager
    def working(self) -> Generator[None, None, None]:
        """Say that something is under way that must not be cut off by a suspension."""
        self._busy += 1
        try:
            yield
        finally:
            self._busy -= 1
            self._stir()

    async def held(self) -> None:
        """Wait until a worker holds the turn: a branch may reach its next call while the turn waits for another's."""
        while not self._held.is_set():
            await self._held.wait()
        if self.over is not None:
            raise self.over

    # Waiting

    def waits(self, call: Call) -> asyncio.Future[Answer]:
        """Note that the turn waits for a call."""
        future: asyncio.Future[Answer] = asyncio.get_running_loop().create_future()
        self._asked[call.tool_call_id] = (call, future)
        self._stir()
        return future

    @property
    def calls(self) -> list[Call]:
        """The calls that the turn waits for, in the order in which they were made."""
        return [call for call, _ in self._asked.values()]

    def _stir(self) -> None:
        """Begin to count rounds of the loop anew."""
        self._rounds = 0
        if self._asked and not self._busy and not self._watching and self._held.is_set():
            self._watching = True
            asyncio.get_running_loop().call_soon(self._watch)

    def _watch(self) -> None:
        self._rounds += 1
        if self._busy or not self._asked or self.main is None or self.main.done():
            self._watching = False
        elif self._rounds < ROUNDS:
            asyncio.get_running_loop().call_soon(self._watch)
        else:
            self._watching = False
            self._held.clear()
            self.told()

    def awaits(self, results: Collection[CallRecord]) -> bool:
        """Tell whether these are the results of all that is waited for."""
        return self._asked.keys() <= {each.tool_call_id for each in results} | self.answers.keys()

    def resume(self, taken: Taken) -> None:
        """Go on with the results that the turn came with."""
        self.taken = taken
        self._recall_calls(taken.results)
        asked, self._asked = self._asked, {}
        self._held.set()
        for id, (_, future) in asked.items():
            if not future.done():
                future.set_result(self.answers[id])

    def terminal(self) -> Answer | None:
        """Return the result that ends the turn, if one says so: the first that failed, else the first (A10)."""
        ending = [answer for answer in self.answers.values() if answer.terminates]
        failed = [answer for answer in ending if answer.status != TurnStatus.SUCCESS]
        return next(iter(failed or ending), None)


def read(call: CallRecord) -> Answer:
    """Read what a call came to from its record."""
    content = payload.decode(call.result or "{}")
    return answer_of(content, after=call.after_execution, card=call.tool_result_card_id)


def answer_of(content: Mapping[str, Any], *, after: str = "suspend", card: UUID | None = None) -> Answer:
    """Return what the content of a tool.result card says; it may override what was to follow the call."""
    return Answer(
        status=str(content.get("status", TurnStatus.FAILED.value)),
        result=content.get("result"),
        error=content.get("error"),
        terminates=(content.get("after_execution") or after) == "terminate",
        card=card,
    )


def _call_id(turn: UUID, mark: Mark) -> str:
    """Return the id of a tool's call: the same at every replay, with its place in it if it has one."""
    if mark.position is not None:
        return f"call_{turn.hex}_{mark.position}"
    return f"call_{turn.hex}_b{digest(f'{mark.name}/{mark.said}/{mark.nth}')}"


def digest(said: object) -> str:
    """Return a short word for a value: the same for the same arguments."""
    try:
        text = orjson.dumps(said, option=orjson.OPT_SORT_KEYS, default=str)
    except orjson.JSONEncodeError:
        text = errors.said(said).encode("utf-8", "backslashreplace")
    return hashlib.blake2b(text, digest_size=8).hexdigest()


def position_in(tool_call_id: str) -> int | None:
    """Read the place of a call from its id; None for one made in a branch."""
    last = tool_call_id.rpartition("_")[2]
    return int(last) if last.isdecimal() else None
