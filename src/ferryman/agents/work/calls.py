"""The calls of a turn: of tools, which are tasks or somebody outside, and of other agents (A10, A11).

A call that cannot be made (an unknown tool, arguments that do not fit, an agent that must not be asked) is no failure of the
turn: it has its own failed result, with both its cards, and the handler goes on with that.
"""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Coroutine, Mapping, Sequence
from datetime import timedelta
from typing import Any, Protocol
from uuid import UUID

from ferryman.agents import rules
from ferryman.agents.model import Amount, Call, Card, NewAgent, Order, Source, Taken
from ferryman.agents.states import TurnStatus
from ferryman.agents.work.memory import Answer, Mark, Memory, answer_of
from ferryman.agents.work.profiles import TOOL_TASK, Profile, Profiles, Tool
from ferryman.agents.work.scribe import Scribe, Use
from ferryman.agents.work.steps import Steps
from ferryman.kernel import errors, ids, payload
from ferryman.tasks.model import Draft
from ferryman.tasks.rules.ending import readable

SHOWN = 200


class Drafts(Protocol):
    """Who can make the task of a tool's call."""

    def __call__(self, name: str, *, tenant: str, payload: str, callback: str, callback_ref: str) -> Draft:
        """Return the task that does it."""


class Delegates(Protocol):
    """Who can say what sets another agent's turn going, in the transaction that suspends this one."""

    def __call__(self, order: Order, agent: NewAgent | None) -> object:
        """Return what the suspension starts (ports.Starts)."""


class Forks(Protocol):
    """Who can say what sets a batch of other agents' turns going, in the transaction that suspends this one."""

    def __call__(
        self, taken: Taken, tool_call_id: str, arguments: Mapping[str, Any], *, policy: Profile, step: UUID | None
    ) -> tuple[object, timedelta]:
        """Return what the suspension starts (ports.Starts) and how long it is waited for; BATCH_REFUSED says what is wrong."""


class Desk:
    """What a worker lends to turns that make calls."""

    def __init__(
        self,
        profiles: Profiles,
        scribe: Scribe,
        drafts: Drafts,
        delegates: Delegates,
        forks: Forks,
        *,
        patience: timedelta,
        limit: int,
    ) -> None:
        """Serve one worker; `patience` is how long a result is waited for at least, `limit` bounds arguments."""
        self.profiles = profiles
        self.scribe = scribe
        self.drafts = drafts
        self.delegates = delegates
        self.forks = forks
        self.patience = patience
        self.limit = limit


class Calls:
    """The calls of one turn."""

    def __init__(self, memory: Memory, profile: Profile, steps: Steps, desk: Desk, *, ends: float) -> None:
        """Belong to one run of a handler, whose wall time ends at a time of the loop's clock."""
        self._memory = memory
        self._profile = profile
        self._steps = steps
        self._desk = desk
        self._ends = ends
        self.name_of = desk.profiles.name_of

    async def tool(self, mark: Mark, arguments: dict[str, Any]) -> Answer:
        """Call a tool, or return what it came to."""
        if mark.id in self._memory.answers:
            return self._memory.answers[mark.id]
        await self._memory.held()
        self._allow()
        tool = self._desk.profiles.tool(mark.name, self._profile)
        if isinstance(tool, str):
            return await self._refused(mark, arguments, "tool_unknown", tool)
        try:
            text = payload.encode(arguments, limit=self._desk.limit)
            if tool.fit is not None:
                tool.fit(text)
        except errors.TaskInvalidPayload as error:
            return await self._refused(mark, arguments, "arguments_invalid", error.message)
        return await self._ask(self._call(mark, tool, text))

    def _call(self, mark: Mark, tool: Tool, text: str) -> Call:
        taken, id = self._memory.taken, mark.id
        task = None
        if not tool.external:
            task = self._desk.drafts(
                f"{TOOL_TASK}{tool.name}",
                tenant=taken.tenant,
                payload=text,
                callback=rules.TOOL,
                callback_ref=rules.reference(taken.tenant, taken.agent_id, id),
            )
        return Call(
            tool_call_id=id,
            tool_name=tool.name,
            content={"tool_name": tool.name, "arguments": payload.decode(text)},
            card_id=ids.new_id(),
            timeout=self._within(tool.patience(self._desk.patience)),
            nth=mark.nth,
            step_id=self._memory.last_step,
            after_execution=tool.after_execution,
            task=task,
            budget=taken.budget_id,
        )

    async def delegate(self, mark: Mark, name: str, instruction: Any, *, timeout: timedelta | None) -> Answer:
        """Ask another agent for a turn, or return what it came to."""
        if mark.id in self._memory.answers:
            return self._memory.answers[mark.id]
        await self._memory.held()
        self._allow()
        asked = {"agent": name, "instruction": instruction}
        profile = self._desk.profiles.profiles.get(name)
        if not self._profile.may_ask(name):
            return await self._refused(mark, asked, "delegation_refused", f"The agent may not ask {name} for a turn.")
        try:
            text = payload.encode(instruction, limit=self._desk.limit)
        except errors.TaskInvalidPayload as error:
            return await self._refused(mark, asked, "arguments_invalid", error.message)
        taken, id = self._memory.taken, mark.id
        turn = _turn_of(id)
        agent = None
        if profile is not None:
            agent = NewAgent(
                taken.tenant, _derived(name, turn), name, profile.worker_target, profile.when_busy,
                derived_from=taken.agent_id,
            )  # fmt: skip
        wait = self._within(timeout or timedelta(days=365))
        order = Order(
            tenant=taken.tenant,
            agent_id=name if agent is None else agent.agent_id,
            turn=turn,
            instruction=payload.decode(text),
            channel=taken.channel,
            source=Source(agent_id=taken.agent_id, turn=taken.id, step=self._memory.last_step, depth=taken.depth),
            author=taken.agent_id,
            callback=rules.DELEGATE,
            callback_ref=rules.reference(taken.tenant, taken.agent_id, id),
            budget=taken.budget_id,
            traceparent=taken.traceparent,
            wall_time=wait if profile is None else min(wait, profile.limits.wall_time or wait),
            unsaid=frozenset({"wall_time"}),  # it is what is left of the parent's own
        )
        return await self._ask(
            Call(
                tool_call_id=id,
                tool_name=mark.name,
                content={"tool_name": mark.name, "arguments": {**asked, "agent_turn_id": str(turn)}},
                card_id=ids.new_id(),
                timeout=wait,
                nth=mark.nth,
                step_id=self._memory.last_step,
                budget=taken.budget_id,
                start=self._desk.delegates(order, agent),
            ),
        )

    async def fork(self, mark: Mark, arguments: Mapping[str, Any]) -> Answer:
        """Fork a batch, or return what it came to."""
        if mark.id in self._memory.answers:
            return self._memory.answers[mark.id]
        await self._memory.held()
        self._allow()
        taken, id = self._memory.taken, mark.id
        try:
            start, wait = self._desk.forks(taken, id, arguments, policy=self._profile, step=self._memory.last_step)
        except errors.BatchRefused as refused:
            return await self._refused(mark, arguments, refused.details["code"], refused.message)
        return await self._ask(
            Call(
                tool_call_id=id,
                tool_name=mark.name,
                content={"tool_name": mark.name, "arguments": _shown(arguments)},
                card_id=ids.new_id(),
                timeout=wait,
                nth=mark.nth,
                step_id=self._memory.last_step,
                budget=taken.budget_id,
                start=start,
            ),
        )

    async def together(self, coming: Sequence[Coroutine[Any, Any, Answer]]) -> Sequence[Answer]:
        """Make several calls at once: the turn is suspended once for all of them."""
        return await asyncio.gather(*coming)

    async def wait(self, mark: Mark, call: Call) -> Answer:
        """Wait for a call that was made elsewhere: what other ways of waiting are built on."""
        if mark.id in self._memory.answers:
            return self._memory.answers[mark.id]
        await self._memory.held()
        self._allow()
        return await self._ask(call)

    def _within(self, patience: timedelta) -> timedelta:
        """Return how long a call may be waited for, as far as the turn's wall time allows."""
        left = self._ends - asyncio.get_running_loop().time()
        return min(patience, timedelta(seconds=max(0.001, left)))

    def _allow(self) -> None:
        most = self._profile.limits.max_tool_calls
        if self._memory.calls_made > most:
            raise self._memory.end(
                TurnStatus.PARTIAL, "max_tool_calls", f"The turn has used all it may: {most} tool calls."
            )

    async def _ask(self, call: Call) -> Answer:
        taken = self._memory.taken
        if taken.budget_id is not None:
            use = Use(taken.tenant, taken.budget_id, taken.id, call.tool_call_id, Amount(tool_calls=1))
            with self._memory.working():
                allowed = await self._desk.scribe.reserve(use)
            if not allowed:
                raise self._memory.end(TurnStatus.PARTIAL, "budget_exceeded", "The budget of this turn is used up.")
        return await self._memory.waits(call)

    async def _refused(self, mark: Mark, arguments: Mapping[str, Any], code: str, message: str) -> Answer:
        """Give a call that cannot be made its own failed result, with its cards."""
        taken, id = self._memory.taken, mark.id
        said = readable(message)
        content = {"status": "failed", "error": {"code": code, "message": said, "source": "agent"}}
        asked = {"tool_name": readable(mark.name)[:SHOWN], "arguments": _shown(arguments)}
        cards = (
            _card(self._memory, "tool.call", taken.agent_id, asked, id),
            _card(self._memory, "tool.result", "tool", content, id),
        )
        await self._steps.answered(mark, content, cards=cards)
        answer = answer_of(content, card=cards[1].id)
        self._memory.answers[mark.id] = answer
        return answer


def _card(memory: Memory, type: str, author: str, content: Any, tool_call_id: str) -> Card:
    taken, role = memory.taken, "assistant" if type == "tool.call" else "tool"
    return Card(
        tenant=taken.tenant, id=ids.new_id(), type=type, role=role, author=author, content=content, turn=taken.id,
        step=memory.last_step, tool_call_id=tool_call_id,
    )  # fmt: skip


def _shown(arguments: Mapping[str, Any]) -> Any:
    """Return arguments as far as they can be stored."""
    try:
        return payload.decode(payload.encode(arguments))
    except errors.TaskInvalidPayload:
        return readable(errors.said(arguments))


def _turn_of(tool_call_id: str) -> UUID:
    """Return the turn that a delegating call leads to: the same however often it is asked for."""
    return UUID(bytes=hashlib.blake2b(tool_call_id.encode(), digest_size=16).digest(), version=5)


def _derived(profile: str, turn: UUID) -> str:
    """Return the id of an agent that is made for one turn; a profile's name may have dots, an agent's id not."""
    return f"{profile.lower().replace('.', '_')[:150]}_{turn.hex}"


def call_failed(name: str, status: str, code: str | None, message: str | None) -> errors.ToolFailed:
    """Return what a handler is raised when a call did not succeed."""
    shown = readable(name)[:SHOWN]
    told = message or code or status
    return errors.ToolFailed(f"{shown} {status}: {told}", tool=shown, status=status, code=code)
