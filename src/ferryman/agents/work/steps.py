"""The steps of a turn: done once, remembered with what they used, within the turn's limits and budget (A17, A18, A21)."""

from __future__ import annotations

import asyncio
import time
import typing
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Any, Generic, Protocol, TypeVar
from uuid import UUID

from ferryman.agents.model import Amount, Card, Step, Taken
from ferryman.agents.states import TurnStatus
from ferryman.agents.work.memory import CALL, POSITION, Mark, Memory, Over, inside
from ferryman.agents.work.profiles import Profile
from ferryman.agents.work.scribe import Scribe, Use, Written
from ferryman.kernel import errors, ids, payload, retry
from ferryman.tasks.rules.ending import said
from ferryman.tasks.work.revive import Reader, Readers, revived

Value = TypeVar("Value")
Function = Callable[..., Any]


@dataclass(frozen=True, slots=True)
class Spent(Generic[Value]):
    """What a step returned, and what it used."""

    value: Value
    input_tokens: int | None = None
    output_tokens: int | None = None
    cost: float | None = None


class Emits(Protocol):
    """Who carries what a turn streams."""

    def emit(self, taken: Taken, text: str) -> None:
        """Send a piece of text to whoever listens now; never blocks, never raises."""


class Steps:
    """The steps of one turn."""

    def __init__(self, memory: Memory, profile: Profile, scribe: Scribe, streams: Emits, *, limit: int) -> None:
        """Belong to one run of a handler; `limit` bounds the size of what a step returns."""
        self._memory = memory
        self._profile = profile
        self._scribe = scribe
        self._limit = limit
        self.emit = streams.emit

    async def step(
        self,
        mark: Mark,
        function: Function,
        args: Sequence[Any],
        *,
        retries: int,
        backoff: retry.Backoff,
        tokens: int,
        cost: float,
    ) -> Any:
        """Do a step once, or return what it came to."""
        known = self._memory.steps.get(mark.key)
        if known is not None:
            self._memory.last_step = known.id
            if known.status == "failed":
                raise errors.StepFailed(f"The {mark} failed: {known.error}.", step=mark.name)
            return _revived(function, known.result)
        await self._memory.held()
        self._allow()
        with self._memory.working():
            use = await self._reserve(mark, Amount(tokens=max(1, tokens), cost=cost))
            return await self._done(mark, lambda: _tried(mark, function, args, retries, backoff), function, use)

    def _allow(self) -> None:
        limits, memory = self._profile.limits, self._memory
        over = (
            ("max_steps", memory.steps_made > limits.max_steps, f"{limits.max_steps} steps"),
            ("max_tokens", memory.tokens >= limits.max_tokens, f"{limits.max_tokens} tokens"),
            ("max_cost", memory.cost >= limits.max_cost, f"a cost of {limits.max_cost}"),
        )
        for code, passed, amount in over:
            if passed:
                raise memory.end(TurnStatus.PARTIAL, code, f"The turn has used all it may: {amount}.")

    async def _reserve(self, mark: Mark, amount: Amount) -> Use | None:
        taken = self._memory.taken
        if taken.budget_id is None:
            return None
        use = Use(taken.tenant, taken.budget_id, taken.id, f"{mark.kind}:{mark.name}:{mark.nth}", amount)
        if not await self._scribe.reserve(use):
            raise self._memory.end(TurnStatus.PARTIAL, "budget_exceeded", "The budget of this turn is used up.")
        return use

    async def _done(self, mark: Mark, work: Callable[[], Awaitable[Any]], function: Function, use: Use | None) -> Any:
        began = time.monotonic()
        try:
            value = await work()
        except (Over, asyncio.CancelledError):
            raise
        except Exception as error:
            reason = said(error)
            await self._remember(mark, began, use, Spent(None), status="failed", error=reason)
            raise errors.StepFailed(f"The {mark} failed: {reason}.", step=mark.name) from error
        spent = value if isinstance(value, Spent) else Spent(value)
        text = self.text(spent.value, f"What the {mark} returned")
        await self._remember(mark, began, use, spent, result=payload.decode(text))
        return _revived(function, text)

    def text(self, value: Any, what: str) -> str:
        """Return JSON text of a value; one that is none ends the turn."""
        try:
            return payload.encode(value, limit=self._limit, error=errors.TaskInvalidResult)
        except errors.TaskInvalidResult as error:
            message = f"{what} cannot be stored: {error.message}"
            raise self._memory.end(TurnStatus.FAILED, "result_not_serializable", message) from None

    async def _remember(
        self,
        mark: Mark,
        began: float,
        use: Use | None,
        spent: Spent[Any],
        *,
        status: str = "completed",
        result: Any = None,
        error: str | None = None,
        cards: tuple[Card, ...] = (),
    ) -> UUID:
        step = Step(
            turn=self._memory.taken.id,
            epoch=self._memory.taken.epoch,
            owner=self._scribe.owner,
            id=ids.new_id(),
            kind=mark.kind,
            name=mark.row,
            nth=mark.nth,
            status=status,  # type: ignore[arg-type]
            seconds=time.monotonic() - began,
            result=result,
            error=error,
            input_tokens=spent.input_tokens,
            output_tokens=spent.output_tokens,
            cost=spent.cost,
            metadata=_place(mark),
        )
        if use is not None:
            used = Amount((spent.input_tokens or 0) + (spent.output_tokens or 0), 0, spent.cost or 0.0)
            use = use._replace(amount=used)
        try:
            await self._scribe.remember(Written(step, cards, use))
        except errors.TurnLost as lost:
            raise self._memory.end(TurnStatus.FAILED, lost.code, lost.message) from None
        self._memory.use(spent.input_tokens, spent.output_tokens, spent.cost)
        self._memory.last_step = step.id
        return step.id

    async def write(self, mark: Mark, content: Any, *, role: str) -> UUID:
        """Write a card, once."""
        known = self._memory.steps.get(mark.key)
        if known is not None:
            return UUID(payload.decode(known.result or '""'))
        await self._memory.held()
        with self._memory.working():
            taken, id = self._memory.taken, ids.new_id()
            card = Card(
                tenant=taken.tenant, id=id, type=mark.name, role=role, author=taken.agent_id, turn=taken.id,
                content=payload.decode(self.text(content, "The card")), step=self._memory.last_step,
            )  # fmt: skip
            await self._remember(mark, time.monotonic(), None, Spent(None), result=str(id), cards=(card,))
        return id

    async def refuse(self, mark: Mark, missing: Sequence[str]) -> None:
        """Note that a result was refused because fields are missing."""
        if mark.key in self._memory.steps:
            return
        await self._memory.held()
        self._allow()
        with self._memory.working():
            named = ", ".join(missing)
            await self._remember(mark, time.monotonic(), None, Spent(None), status="failed", error=f"missing: {named}")

    async def answered(self, mark: Mark, content: dict[str, Any], *, cards: tuple[Card, ...]) -> None:
        """Remember a call that was answered here, without having been asked for."""
        with self._memory.working():
            error = content["error"]["message"]
            await self._remember(
                mark, time.monotonic(), None, Spent(None), status="failed", result=content, error=error, cards=cards
            )


def _place(mark: Mark) -> dict[str, Any]:
    place: dict[str, Any] = {} if mark.position is None else {POSITION: mark.position}
    return place if not mark.id else {**place, CALL: mark.id}


def _revived(function: Function, text: str | None) -> Any:
    """Return the value that a stored result stands for, by the hint of the function, inside `Spent` too."""
    inner = _inners(function)
    return revived(function, text) if inner is None else None if text is None else inner(text)


def _inner(function: Function) -> Reader:
    try:
        hint = typing.get_type_hints(function).get("return")
    except (NameError, TypeError, AttributeError):  # a hint that cannot be resolved here says nothing
        return None
    if hint is not Spent and typing.get_origin(hint) is not Spent:
        return None
    held = typing.get_args(hint)
    if not held or isinstance(held[0], TypeVar):
        return payload.decode
    import pydantic

    return pydantic.TypeAdapter(held[0]).validate_json


_inners = Readers(_inner)


async def _tried(mark: Mark, function: Function, args: Sequence[Any], retries: int, backoff: retry.Backoff) -> Any:
    token = inside.set(mark.name)
    try:
        return await retry.tried(
            function, args, retries=retries, backoff=backoff, final=(errors.DoNotRetry, errors.TurnLost)
        )
    finally:
        inside.reset(token)
