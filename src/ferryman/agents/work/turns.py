"""What turns need in a worker beside their pump: who writes for them, who runs them, and who ends handlers that wait."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from datetime import timedelta
from typing import Any
from uuid import UUID

from ferryman.agents.ends import Parties
from ferryman.agents.model import Taken
from ferryman.agents.work.calls import Delegates, Desk, Drafts, Forks
from ferryman.agents.work.kept import MOST, Kept
from ferryman.agents.work.profiles import Profiles
from ferryman.agents.work.run import Runner
from ferryman.agents.work.scribe import Scribe
from ferryman.agents.work.worker import AgentWorker, Capacity
from ferryman.kernel import stream
from ferryman.kernel.doorbell import Doorbell
from ferryman.kernel.pool import Line
from ferryman.relays.model import Address
from ferryman.relays.rules.subject import subject


class TurnWorker:
    """Do the turns of an app's profiles; a part of a worker (kernel/part.py)."""

    def __init__(
        self,
        profiles: Profiles,
        parties: Parties,
        doorbell: Doorbell,
        streams: stream.Streams,
        *,
        drafts: Drafts,
        delegates: Delegates,
        forks: Forks,
        line: Callable[[], Line],
        capacity: Capacity,
        boot_id: UUID,
        kept: int = MOST,
    ) -> None:
        """Work under the boot id of the process; `line` makes connections."""
        self._doorbell = doorbell
        self._line = line().hurry()
        self._scribe = Scribe(self._line, owner=boot_id)
        terms = parties.terms
        desk = Desk(
            profiles, self._scribe, drafts, delegates, forks, patience=terms.suspend_timeout, limit=terms.card_limit
        )  # fmt: skip
        self.runner = Runner(desk, Said(streams), owner=boot_id, kept=Kept(most=kept))
        self._worker = AgentWorker(self.runner, parties, doorbell, line=line, capacity=capacity, boot_id=boot_id)
        self.pump = self._worker.pump
        self._hush: Callable[[], None] = lambda: None

    def start(self) -> Mapping[str, asyncio.Future[Any]]:
        """Begin."""
        self._hush = self._doorbell.listen("stopped", self._stopped)
        return self._worker.start()

    async def drain(self, grace: timedelta) -> None:
        """Finish what runs, within the grace period, and give up the rest."""
        await self._worker.drain(grace)

    async def close(self) -> None:
        """End whatever is still under way."""
        self._hush()
        await self._worker.close()
        self.runner.close()
        await self._scribe.close()
        await self._line.close()

    def _stopped(self, hints: frozenset[str]) -> None:
        """End handlers that wait for turns which were ended by somebody else."""
        self.runner.forget(self.runner.kept.among(lambda turn: not hints or str(turn) in hints))


class Said:
    """What turns stream, on its way out."""

    def __init__(self, streams: stream.Streams) -> None:
        """Go by these streams."""
        self._streams = streams

    def emit(self, taken: Taken, text: str) -> None:
        """Send a piece of text to whoever listens now."""
        to = subject_of(taken.tenant, taken.channel, taken.agent_id, prefix=self._streams.prefix)
        self._streams.say(str(taken.id), str(text), to=to)


def subject_of(tenant: str, channel: str | None, agent_id: str, *, prefix: str) -> str:
    """Return where an agent's turns stream to (A15)."""
    told = Address(component="agent", target=agent_id, suffix="chunk", channel=channel or "default", volatile=True)
    return subject(told, tenant=tenant, prefix=prefix)
