"""Turns in the hands of whoever asked for them."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from datetime import timedelta
from typing import Any, Protocol
from uuid import UUID

from ferryman.agents.intake.timeline import Moment
from ferryman.agents.model import Answer, CardRecord, TurnRecord
from ferryman.agents.states import TurnStatus
from ferryman.kernel import errors, payload

# A partial turn has a deliverable that somebody can use; the reason is in its record.
DELIVERED = (TurnStatus.SUCCESS.value, TurnStatus.PARTIAL.value)


class Door(Protocol):
    """What a handle asks of the door it came from."""

    async def turn(self, turn: UUID) -> TurnRecord:
        """Read a turn."""

    async def wait(self, turn: UUID, *, timeout: timedelta | None = None) -> TurnRecord:
        """Wait until a turn has ended."""

    async def card(self, card: UUID) -> CardRecord:
        """Read a card."""

    async def stop(self, turn: UUID, *, epoch: int | None = None, reason: str = "stopped") -> Answer:
        """End a turn at once."""

    async def timeline(self, turn: UUID) -> Sequence[Moment]:
        """Read what a turn did, in order."""

    def stream(self, turn: UUID) -> AsyncIterator[str]:
        """Give what a turn streams."""


class TurnHandle:
    """One turn, in the hands of whoever asked for it."""

    __slots__ = ("_door", "agent_id", "id", "idempotent_hit")

    def __init__(self, door: Door, id: UUID, agent_id: str, *, idempotent_hit: bool = False) -> None:
        """Belong to a door; `idempotent_hit` says that the turn was there before it was asked for."""
        self._door = door
        self.id = id
        self.agent_id = agent_id
        self.idempotent_hit = idempotent_hit

    async def record(self) -> TurnRecord:
        """Read the turn as it is now."""
        return await self._door.turn(self.id)

    async def end(self, *, timeout: timedelta | float | None = None) -> TurnRecord:
        """Wait for the end, whatever it is."""
        seconds = timeout.total_seconds() if isinstance(timeout, timedelta) else timeout
        return await self._door.wait(self.id, timeout=None if seconds is None else timedelta(seconds=seconds))

    async def result(self, *, timeout: timedelta | float | None = None) -> Any:
        """Wait for the end and return the deliverable; a turn that failed, was stopped or timed out raises its code."""
        end = await self.end(timeout=timeout)
        if end.turn_status in DELIVERED:
            return await self.deliverable(end)
        raise errors.TurnFailed(
            f"The turn {self.id} of {self.agent_id} ended as {end.turn_status}: {end.error or end.error_code}.",
            turn=str(self.id), status=end.turn_status, code=end.error_code, reason=end.error,
        )  # fmt: skip

    async def deliverable(self, end: TurnRecord | None = None) -> Any:
        """Read what an ended turn left; every turn leaves something (A13)."""
        end = end or await self.record()
        if end.deliverable_card_id is None:
            return None
        return payload.decode((await self._door.card(end.deliverable_card_id)).content)

    async def stop(self, *, reason: str = "stopped") -> Answer:
        """End the turn at once."""
        return await self._door.stop(self.id, reason=reason)

    async def timeline(self) -> Sequence[Moment]:
        """Read what the turn did, in order."""
        return await self._door.timeline(self.id)

    def stream(self) -> AsyncIterator[str]:
        """Give what the turn streams from now on, until it ends."""
        return self._door.stream(self.id)

    def __repr__(self) -> str:
        """Name the turn."""
        return f"<turn {self.id} of {self.agent_id}>"
