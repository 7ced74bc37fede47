"""What can be asked about agents and turns."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Collection, Sequence
from datetime import datetime, timedelta
from functools import partial
from uuid import UUID

from ferryman.agents import intake
from ferryman.agents.intake.timeline import Moment, timeline
from ferryman.agents.model import (
    AgentRecord,
    BudgetRecord,
    CardRecord,
    EdgeRecord,
    MessageRecord,
    StepRecord,
    TurnRecord,
    WaitRecord,
)
from ferryman.agents.work.turns import subject_of
from ferryman.kernel import errors
from ferryman.kernel.doorbell import Doorbell
from ferryman.kernel.pool import Database, spoken
from ferryman.kernel.stream import Streams
from ferryman.kernel.waiting import Waiting, Waits

LOOK_SECONDS = 1.0


class Reads:
    """Read what agents do, how turns ended, and what they wrote."""

    def __init__(self, db: Database, doorbell: Doorbell, streams: Streams, *, tenant: str) -> None:
        """Serve one tenant."""
        self._db = db
        self._doorbell = doorbell
        self._streams = streams
        self._tenant = tenant
        self._waits = Waits[Waiting[TurnRecord]](
            lambda tenant: Waiting(partial(self._ended, tenant=tenant), doorbell, topic="turns", poll=LOOK_SECONDS)
        )

    async def get(self, agent_id: str) -> AgentRecord:
        """Read an agent and what it is doing."""
        with spoken():
            async with self._db.session() as tx:
                found = await intake.read.agents(tx, [agent_id], tenant=self._tenant)
        if not found:
            raise errors.AgentNotFound(f"There is no agent {agent_id}.", agent_id=agent_id)
        return found[0]

    async def list(
        self, *, profile: str | None = None, status: str | None = None, after: str = "", limit: int = 50
    ) -> Sequence[AgentRecord]:
        """Read a page of agents by name, and what they are doing."""
        with spoken():
            async with self._db.session() as tx:
                return await intake.read.listed(
                    tx, tenant=self._tenant, profile=profile, status=status, after=after, limit=limit
                )

    async def turn(self, turn: UUID) -> TurnRecord:
        """Read a turn: how far it is, or how it ended."""
        with spoken():
            async with self._db.session() as tx:
                found = await intake.read.turns(tx, [turn], tenant=self._tenant)
        if not found:
            raise _not_found(turn)
        return found[0]

    async def wait(self, turn: UUID, *, timeout: timedelta | None = None) -> TurnRecord:
        """Wait until a turn has ended; raises TimeoutError after `timeout`."""
        async with asyncio.timeout(None if timeout is None else timeout.total_seconds()):
            return await self._waits.of(self._tenant).end(turn)

    async def _ended(self, turns: Collection[UUID], *, tenant: str) -> dict[UUID, TurnRecord | Exception]:
        """Read how turns ended; all who wait share this look."""
        with spoken():
            async with self._db.session() as tx:
                found = {each.id: each for each in await intake.read.turns(tx, turns, tenant=tenant)}
        met: dict[UUID, TurnRecord | Exception] = {id: each for id, each in found.items() if each.terminal}
        return met | {turn: _not_found(turn) for turn in turns if turn not in found}

    async def card(self, card: UUID) -> CardRecord:
        """Read a card."""
        with spoken():
            async with self._db.session() as tx:
                found = await intake.cards.get(tx, [card], tenant=self._tenant)
        if not found:
            raise errors.CardNotFound(f"There is no card {card}.", card=str(card))
        return found[0]

    async def turns(
        self, agent_id: str, *, before: datetime | UUID | None = None, limit: int = 50
    ) -> Sequence[TurnRecord]:
        """Read a page of an agent's turns, newest first; `before` is the last of the page before, or a time."""
        last = None
        if isinstance(before, UUID):
            last, before = before, (await self.turn(before)).created_at
        with spoken():
            async with self._db.session() as tx:
                return await intake.read.turns_of(
                    tx, agent_id, tenant=self._tenant, before=before, last=last, limit=limit
                )

    async def timeline(self, turn: UUID) -> Sequence[Moment]:
        """Read what a turn did, in order: its moves, its steps, its calls (A17)."""
        await self.turn(turn)
        with spoken():
            async with self._db.session() as tx:
                return await timeline(tx, turn, tenant=self._tenant)

    async def stream(self, turn: UUID) -> AsyncIterator[str]:
        """Give what a turn streams from now on, until it ends; what was said before is gone (A15)."""
        found = await self.turn(turn)
        to = subject_of(found.tenant, found.channel, found.agent_id, prefix=self._streams.prefix)
        async with self._streams.listen(str(turn), to=to) as heard:
            ended = asyncio.ensure_future(self.wait(turn))
            try:
                while not ended.done() or not heard.empty():
                    text = asyncio.ensure_future(heard.get())
                    try:
                        await asyncio.wait([text, ended], return_when=asyncio.FIRST_COMPLETED)
                    finally:
                        text.cancel()
                    if text.done():
                        yield text.result()
            finally:
                ended.cancel()

    async def cards(self, box: UUID, *, after: int = 0, limit: int | None = None) -> Sequence[CardRecord]:
        """Read the cards of a box, in order: all, or so many after the first ones."""
        with spoken():
            async with self._db.session() as tx:
                found = await intake.read.page_of(tx, box, tenant=self._tenant, after=after, limit=limit)
        if found is None:
            raise errors.BoxNotFound(f"There is no box {box}.", box=str(box))
        return found

    async def steps(self, turn: UUID) -> Sequence[StepRecord]:
        """Read what a turn did, in order (A17)."""
        await self.turn(turn)
        with spoken():
            async with self._db.session() as tx:
                return await intake.read.steps(tx, turn, tenant=self._tenant)

    async def inbox(self, agent_id: str, *, limit: int = 50) -> Sequence[MessageRecord]:
        """Read what is in an agent's inbox and not done with, oldest first."""
        with spoken():
            async with self._db.session() as tx:
                return await intake.read.messages(tx, agent_id, tenant=self._tenant, limit=limit)

    async def waits(self, turn: UUID) -> Sequence[WaitRecord]:
        """Read the calls of a turn with their times and deadlines, in order (A11)."""
        with spoken():
            async with self._db.session() as tx:
                return await intake.read.waits_of(tx, turn, tenant=self._tenant)

    async def edges(self, turn: UUID) -> Sequence[EdgeRecord]:
        """Read who asked for a turn, and whom it asked, in order (A6)."""
        with spoken():
            async with self._db.session() as tx:
                return await intake.read.edges(tx, turn, tenant=self._tenant)

    async def budget(self, turn: UUID) -> BudgetRecord | None:
        """Read what the budget of a turn allows and what is gone of it; None without one (A21)."""
        with spoken():
            async with self._db.session() as tx:
                return await intake.read.budget(tx, turn, tenant=self._tenant)


def _not_found(turn: UUID) -> errors.TurnNotFound:
    return errors.TurnNotFound(f"There is no turn {turn}.", turn=str(turn))
