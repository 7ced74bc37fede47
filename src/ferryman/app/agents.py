"""The door to agents: what users reach as `app.agents`.

A message from one caller travels alone, at once; those that come while it is under way share the next trip (kernel/gather.py).
A caller's own transaction is taken by the functions of `ferryman.agents.intake` as they are.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from datetime import timedelta
from typing import Any, Literal
from uuid import UUID

from ferryman.agents import intake
from ferryman.agents.ends import Aftermath, Parties
from ferryman.agents.model import (
    NOBODY,
    AgentRecord,
    Answer,
    CardRecord,
    NewAgent,
    Order,
    Report,
    Source,
    StepRecord,
    Stop,
    TurnRecord,
)
from ferryman.app.repeat import repeated
from ferryman.kernel import errors, ids
from ferryman.kernel.doorbell import Doorbell
from ferryman.kernel.gather import Gather
from ferryman.kernel.pool import Database, Line, spoken

PATIENCE = timedelta(seconds=10)
LOOK_SECONDS = 1.0


class Agents:
    """Make agents, ask them for turns, answer their calls, and read what became of it."""

    def __init__(
        self, db: Database, doorbell: Doorbell, parties: Parties, *, line: Callable[[], Line], tenant: str
    ) -> None:
        """Send what comes together over lines of their own."""
        self._db = db
        self._doorbell = doorbell
        self.parties = parties
        self._tenant = tenant
        self._lines = [line(), line()]
        self._orders: Gather[Order, Answer] = Gather(self._enqueue)
        self._reports: Gather[Report, Answer] = Gather(self._report)

    async def close(self) -> None:
        """Let go."""
        await self._orders.stop()
        await self._reports.stop()
        for line in self._lines:
            await line.close()

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

    async def get(self, agent_id: str) -> AgentRecord:
        """Read an agent and what it is doing."""
        with spoken():
            async with self._db.session() as tx:
                found = await intake.read.agents(tx, [agent_id], tenant=self._tenant)
        if not found:
            raise errors.AgentNotFound(f"There is no agent {agent_id}.", agent_id=agent_id)
        return found[0]

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
            return await self._orders(order)

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
            return await self._reports(said)

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

    # What became of it

    async def turn(self, turn: UUID) -> TurnRecord:
        """Read a turn: how far it is, or how it ended."""
        with spoken():
            async with self._db.session() as tx:
                found = await intake.read.turns(tx, [turn], tenant=self._tenant)
        if not found:
            raise errors.TurnNotFound(f"There is no turn {turn}.", turn=str(turn))
        return found[0]

    async def wait(self, turn: UUID, *, timeout: timedelta | None = None) -> TurnRecord:
        """Wait until a turn has ended; raises TimeoutError after `timeout`."""
        rung = asyncio.Event()
        hush = self._doorbell.listen("turns", lambda hints: rung.set() if not hints or str(turn) in hints else None)
        try:
            async with asyncio.timeout(None if timeout is None else timeout.total_seconds()):
                while not (found := await self.turn(turn)).terminal:
                    await _heard(rung)
                return found
        finally:
            hush()

    async def cards(self, box: UUID) -> list[CardRecord]:
        """Read the cards of a box, in order."""
        with spoken():
            async with self._db.session() as tx:
                return await intake.read.cards(tx, box, tenant=self._tenant)

    async def steps(self, turn: UUID) -> list[StepRecord]:
        """Read what a turn did, in order (A17)."""
        with spoken():
            async with self._db.session() as tx:
                return await intake.read.steps(tx, turn, tenant=self._tenant)

    # Sets

    async def _enqueue(self, orders: list[Order]) -> list[Answer | Exception]:
        return await repeated(lambda: self._enqueue_once(orders), PATIENCE)

    async def _enqueue_once(self, orders: list[Order]) -> list[Answer | Exception]:
        after = Aftermath()
        async with self._lines[0].transaction() as tx:
            answers = await intake.enqueue(tx, orders, self.parties, after=after)
        after.ring(self._doorbell)
        return list(answers)

    async def _report(self, reports: list[Report]) -> list[Answer | Exception]:
        return await repeated(lambda: self._report_once(reports), PATIENCE)

    async def _report_once(self, reports: list[Report]) -> list[Answer | Exception]:
        after = Aftermath()
        async with self._lines[1].transaction() as tx:
            answers = await intake.report(tx, reports, self.parties, after=after)
        after.ring(self._doorbell)
        return list(answers)


async def _heard(rung: asyncio.Event) -> None:
    try:
        await asyncio.wait_for(rung.wait(), LOOK_SECONDS)
    except TimeoutError:
        return
    rung.clear()
