"""The door to agents: what users reach as `app.agents`.

A message from one caller travels alone, at once; those that come while it is under way share the next trip (messages.py).
A caller's own transaction is taken by the functions of `ferryman.agents.intake` as they are.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, replace
from datetime import timedelta
from typing import Any, Literal, NamedTuple
from uuid import UUID

from ferryman.agents import intake
from ferryman.agents.ends import Aftermath, Parties
from ferryman.agents.intake import budgets
from ferryman.agents.model import (
    NOBODY,
    Accepted,
    AgentRecord,
    Answer,
    NewAgent,
    Order,
    Rejected,
    Report,
    Source,
    Stop,
)
from ferryman.agents.work.profiles import Budget, Profile, Profiles
from ferryman.app.messages import Beside, Messages
from ferryman.app.reads import Reads
from ferryman.app.refusals import refusal
from ferryman.app.turns import TurnHandle
from ferryman.kernel import errors, ids
from ferryman.kernel.doorbell import Doorbell
from ferryman.kernel.pool import Database, Line, spoken
from ferryman.kernel.stream import Streams

KNOWN_MAX = 10_000

Function = Callable[..., Any]


class Ensured(NamedTuple):
    """An agent that is there now, and whether it was before."""

    agent: AgentRecord
    idempotent_hit: bool


class Agents(Reads):
    """Make agents, ask them for turns, answer their calls, and read what became of it."""

    def __init__(
        self,
        db: Database,
        doorbell: Doorbell,
        parties: Parties,
        *,
        line: Callable[[], Line],
        tenant: str,
        profiles: Profiles,
        streams: Streams,
    ) -> None:
        """Send what comes together over lines of their own."""
        super().__init__(db, doorbell, streams, tenant=tenant)
        self._profiles = profiles
        self._known: dict[tuple[str, str], str] = {}
        self.parties = parties
        self._messages = Messages(doorbell, parties, line=line)

    def of(self, tenant: str) -> Agents:
        """Return the same door for one tenant."""
        door = copy.copy(self)
        door._tenant = ids.check_name(tenant, "tenant")  # noqa: SLF001 - a copy of ours
        return door

    async def close(self) -> None:
        """Let go; let nobody wait any more."""
        await self._waits.close()
        await self._messages.close()

    # Agents

    async def create(
        self,
        agent_id: str,
        *,
        profile: str,
        when_busy: str = "enqueue",
        worker_target: str = "default",
        tags: Sequence[str] = (),
        metadata: Mapping[str, Any] | None = None,
    ) -> bool:
        """Make an agent of a profile; false if it is there already, and stays as it is."""
        agent = NewAgent(
            self._tenant, agent_id, profile, worker_target, when_busy, tags=tuple(tags), metadata=metadata or {}
        )
        with spoken():
            async with self._db.transaction() as tx:
                return (await intake.create(tx, [agent]))[0]

    async def ensure(self, agent_id: str, profile: str | Function, /, **options: Any) -> AgentRecord:
        """Return an agent, made first if it is not there; one of another profile is refused."""
        return (await self.accept(agent_id, profile, **options)).agent

    async def accept(self, agent_id: str, profile: str | Function, /, **options: Any) -> Ensured:
        """Do as `ensure` does, and tell whether the agent was there before."""
        name = self._profiles.name_of(profile)
        known = self._profiles.profiles.get(name)
        if known is not None:
            options = {"when_busy": known.when_busy, "worker_target": known.worker_target, **options}
        made = await self.create(agent_id, profile=name, **options)
        found = await self.get(agent_id)
        if found.profile != name:
            raise errors.AgentDuplicate(
                f"profile: the agent {agent_id} is a {found.profile}, not a {name}.", field="profile"
            )
        return Ensured(found, idempotent_hit=not made)

    # Turns

    async def enqueue(
        self,
        agent_id: str,
        instruction: Any = None,
        *,
        turn: UUID | None = None,
        channel: str | None = "default",
        context_box: UUID | None = None,
        output_box: UUID | None = None,
        message_type: Literal["turn", "ui_action"] = "turn",
        source: Source = NOBODY,
        budget: UUID | None = None,
        wall_time: timedelta | None = None,
        payload: Mapping[str, Any] | None = None,
    ) -> Answer:
        """Ask an agent for a turn. The answer says whether it will be done; `turn` makes a repeat harmless."""
        order = Order(
            tenant=self._tenant,
            agent_id=agent_id,
            turn=turn or ids.new_id(),
            instruction=instruction,
            channel=channel,
            context_box=context_box,
            output_box=output_box,
            message_type=message_type,
            source=source,
            budget=budget,
            wall_time=wall_time,
            payload=payload,
        )
        with spoken():
            if budget is not None and not await self._has_budget(budget):
                return Rejected("budget_unknown", f"There is no budget {budget}.")
            return await self._messages.order(order)

    async def _has_budget(self, budget: UUID) -> bool:
        async with self._db.transaction() as tx:
            return await budgets.read(tx, budget, tenant=self._tenant) is not None

    async def send(
        self,
        agent_id: str,
        instruction: Any,
        /,
        *,
        turn: UUID | None = None,
        context_box: UUID | None = None,
        channel: str = "default",
        result_fields: Sequence[str] = (),
        wall_time: timedelta | float | None = None,
        budget: Budget | None = None,
        payload: Mapping[str, Any] | None = None,
    ) -> TurnHandle:
        """Ask an agent for a turn, and return it in hand; an answer that is not "accepted" is raised.

        `turn` makes a repeat harmless; another request under it is a conflict (TURN_DUPLICATE). In place of an instruction
        (None) the turn may read a `context_box` that exists.
        `result_fields` are required of `submit_result`. Messages that are sent at one time share a trip.
        """
        if context_box is not None and result_fields:
            told = "result_fields: expected none beside a context box, which holds its own."
            raise errors.AgentInvalidRequest(told, field="result_fields")
        found = self._profiles.profiles.get((await self._profile_of(agent_id)) or "")
        budget, wall, unsaid = _terms(found, budget, wall_time)
        order = Order(
            tenant=self._tenant,
            agent_id=agent_id,
            turn=turn or ids.new_id(),
            instruction=instruction,
            context_box=context_box,
            channel=channel,
            wall_time=timedelta(seconds=wall) if isinstance(wall, int | float) else wall,
            payload=payload,
            allows=None if budget is None else asdict(budget),
            result_fields=None if context_box is not None else tuple(result_fields),
            unsaid=unsaid,
        )
        beside = Beside(order.turn if budget else None, budget, ids.new_id() if result_fields else None, result_fields)
        order = replace(order, budget=beside.budget_id, inherited=(beside.card,) if beside.card else ())
        with spoken():
            answer = await self._messages.order(order, beside)
        if not isinstance(answer, Accepted):
            raise refusal(answer, agent_id=agent_id)
        return TurnHandle(self, answer.id, agent_id, idempotent_hit=not answer.created)

    async def report(
        self,
        tool_call_id: str,
        *,
        status: str = "success",
        result: Any = None,
        error: Mapping[str, Any] | None = None,
        after_execution: str | None = None,
        turn_epoch: int | None = None,
    ) -> Answer:
        """Answer a call that a turn waits for, from outside (A10)."""
        content: dict[str, Any] = {"status": status, "result": result}
        if error is not None:
            content["error"] = dict(error)
        if after_execution is not None:
            content["after_execution"] = after_execution
        said = Report(
            tenant=self._tenant,
            tool_call_id=tool_call_id,
            id=ids.new_id(),
            card_id=ids.new_id(),
            content=content,
            turn_epoch=turn_epoch,
        )
        with spoken():
            return await self._messages.report(said)

    async def cancel(self, turn: UUID) -> Answer:
        """Take back a turn that still waits in line."""
        after = Aftermath()
        with spoken():
            async with self._db.transaction() as tx:
                [answer] = await intake.cancel(
                    tx, [turn], self.parties, tenant=self._tenant, source=NOBODY, after=after
                )
        after.ring(self._doorbell)
        return answer

    async def stop(self, turn: UUID, *, epoch: int | None = None, reason: str = "stopped") -> Answer:
        """End a turn at once; one that still waits in line is taken back."""
        found = await self.turn(turn)
        if found.head_status is None and not found.terminal:
            canceled = await self.cancel(turn)
            if canceled.status == "accepted":
                return canceled
        asked = Stop(
            tenant=self._tenant, agent_id=found.agent_id, turn=turn, id=ids.new_id(), epoch=epoch, reason=reason
        )
        after = Aftermath()
        with spoken():
            async with self._db.transaction() as tx:
                [answer] = await intake.stop(tx, [asked], after=after)
        after.ring(self._doorbell)
        return answer

    async def wakeup(self, agent_id: str, *, dispatch_next: bool = False) -> Answer:
        """Ring for an agent; with `dispatch_next` its next turn is put before the workers first."""
        after = Aftermath()
        with spoken():
            async with self._db.transaction() as tx:
                [answer] = await intake.wakeup(
                    tx, [(self._tenant, agent_id)], self.parties, dispatch_next=dispatch_next, after=after
                )
        after.ring(self._doorbell)
        return answer

    async def _profile_of(self, agent_id: str) -> str | None:
        """Return the profile of an agent, where profiles are registered here; it never changes."""
        key = (self._tenant, agent_id)
        if self._profiles.profiles and key not in self._known:
            with spoken():
                async with self._db.session() as tx:
                    found = await intake.read.agents(tx, [agent_id], tenant=self._tenant)
            if not found:
                return None
            if len(self._known) >= KNOWN_MAX:
                self._known.clear()
            self._known[key] = found[0].profile
        return self._known.get(key)


def _terms(
    profile: Profile | None, budget: Budget | None, wall_time: timedelta | float | None
) -> tuple[Budget | None, timedelta | float | None, frozenset[str]]:
    """Return what a turn may use and how long it may take, and which of that nobody said: it stands in the profile, or may."""
    own = (None, None) if profile is None else (profile.budget, profile.limits.wall_time)
    unsaid = {
        field
        for field, said, default in (("budget", budget, own[0]), ("wall_time", wall_time, own[1]))
        if said is None and (profile is None or default is not None)
    }
    return budget or own[0], own[1] if wall_time is None else wall_time, frozenset(unsaid)
