"""The log to webhooks, second half: calls receivers, by the pump (kernel/loop.py).

How many calls are under way to one receiver is bounded over all processes: its row is held, what is leased there is counted by
a younger statement, and only then more is claimed. So a slow receiver fills its own room and nobody else's. A lease lasts as
long as a call may take and a margin: it needs no renewal, and when its sender dies the delivery is due again at its end.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Collection, Sequence
from datetime import timedelta
from typing import Final
from uuid import UUID

from ferryman.kernel import faults, telemetry
from ferryman.kernel.crew import Turned
from ferryman.kernel.pool import Line
from ferryman.relays import webhook
from ferryman.relays.model import Claimed, Outcome
from ferryman.relays.rules import ending
from ferryman.relays.store import deliveries, webhooks
from ferryman.relays.work.wire import NoAnswer, Wire

log = telemetry.logger("relays")

HELD: Final = 100
UNSTORABLE: Final = "what it failed with could not be stored"


class Sender:
    """What the pump needs to know of deliveries."""

    def __init__(self, wire: Wire, *, owner: UUID, key: str, each: int, attempts: int, timeout: timedelta) -> None:
        """Sign with secrets made of `key`; make at most `each` calls of one receiver at once, `attempts` of each delivery."""
        self._wire = wire
        self._owner = owner
        self._key = key
        self.key_id = webhook.key_id(key)
        self._each = each
        self._attempts = attempts
        self.lease = ending.lease(timeout)

    async def turn(self, line: Line, outcomes: Sequence[Outcome], room: int) -> Turned[Claimed]:
        """Settle these outcomes and claim up to `room`."""
        claimed: list[Claimed] = []
        async with line.transaction() as tx:
            settled, busy = await deliveries.settle(tx, outcomes, owner=self._owner) if outcomes else ({}, set[UUID]())
            held = await webhooks.hold(tx, key_id=self.key_id, each=self._each, limit=min(HELD, room)) if room else []
            if held:
                claimed = await deliveries.claim(
                    tx, held, owner=self._owner, each=self._each, limit=room, lease=self.lease
                )
        telemetry.fenced("webhook", "settle", len(outcomes) - len(settled) - len(busy))
        self._count(settled)
        return Turned(claimed, more=0 < room == len(claimed) or len(held) == HELD, left=busy)

    def _count(self, settled: dict[UUID, str]) -> None:
        for word, count in Counter(settled.values()).items():
            if word == ending.DELIVERED:
                telemetry.called("delivered", count)
            elif word == ending.DEAD:
                telemetry.called("dead", count)
                log.warning("deliveries of webhooks are dead", extra={"count": count})
            elif word == ending.AGAIN:
                telemetry.called("failed", count)

    async def run(self, item: Claimed) -> Outcome:
        """Call the receiver once."""
        over = ending.lost(item, most=self._attempts)
        if over is not None:
            return over
        body = item.body.encode()
        headers = {
            "Content-Type": "application/json",
            **webhook.headers(self._secrets(item), id=item.event_id, timestamp=int(time.time()), body=body),
        }
        try:
            status = await self._wire.call(item.url, body, headers)
        except NoAnswer as error:
            return ending.failed(item, str(error), most=self._attempts)
        await faults.apoint("webhook.called")
        return ending.answered(item, status, most=self._attempts)

    def _secrets(self, item: Claimed) -> list[str]:
        versions = [item.secret_version, item.secret_version - 1] if item.both_secrets else [item.secret_version]
        return [webhook.secret_of(self._key, item.webhook_id, version) for version in versions]

    async def reclaim(self, line: Line, held: Collection[UUID]) -> int:
        """Hand back what is leased to this sender but not held by it."""
        return await deliveries.reclaim(line, owner=self._owner, held=held)

    def doubt(self) -> None:
        """Every turn finds out by itself where there is something to claim."""

    def lost(self, count: int) -> None:
        """Nobody renews these leases, so none is refused."""

    def hand_back(self, item: Claimed) -> Outcome:
        """Say that the receiver was not called to the end, and that no try is used."""
        return Outcome(item.id, item.epoch, ending.BACK)

    def spoil(self, outcome: Outcome, _error: Exception) -> Outcome | None:
        """Replace an outcome that cannot be stored by one whose words can."""
        return None if outcome.error == UNSTORABLE else outcome._replace(error=UNSTORABLE)
