"""What the acts of a watchdog leave to ring for, and what every rule for agents has in common."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from typing import Any

from ferryman.agents.ends import Aftermath
from ferryman.kernel.db import Row
from ferryman.kernel.doorbell import Doorbell
from ferryman.kernel.watchdog import Rule

DISPATCH_TIMEOUT = "dispatch_timeout"
REAPED = "timeout_reaped_by_watchdog"
POISON = "poison_message"
EXHAUSTED = "resume_exhausted"
WALL_TIME = "wall_time_exceeded"
MISSING_CHANNEL = "missing_channel"
QUEUE_TIMEOUT = "queue_timeout"

ANY = ("dispatched", "running", "suspended")


class Told:
    """What the acts of one watchdog leave to ring for, until their transaction has committed."""

    def __init__(self, doorbell: Doorbell) -> None:
        """Ring with this doorbell."""
        self._doorbell = doorbell
        self.after = Aftermath()

    def ring(self, _found: Sequence[Any]) -> None:
        """Ring for what was done since the last time."""
        after, self.after = self.after, Aftermath()
        after.ring(self._doorbell)

    def rule(self, name: str, finds: str, does: str, *, setting: str, every: timedelta, **more: Any) -> Rule:
        """Declare a rule that rings when it has acted."""
        return Rule(name=name, finds=finds, does=does, setting=setting, every=every, after=self.ring, **more)


def columns(row: Row) -> dict[str, Any]:
    """Return what an end must know of a finding."""
    names = ("id", "tenant", "agent_id", "turn_epoch", "callback", "callback_ref")
    return {name: row[name] for name in names}
