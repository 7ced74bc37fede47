"""The rule by which ended turns leave (T20)."""

from __future__ import annotations

from datetime import timedelta
from functools import partial

from ferryman.agents import leavings
from ferryman.agents.store import retention as past
from ferryman.kernel.watchdog import Rule, walking


def retention(*, kept: timedelta) -> Rule:
    """Return the rule by which ended turns and messages leave."""
    return walking.retention(
        "T20-turns",
        finds="a turn, or another message, that ended longer ago than such are kept and that nothing live needs",
        does="deletes it, with its calls, steps, edges, boxes and cards; a derived agent goes with its last turn",
        walk=partial(past.walk, kept=kept),
        forget=partial(leavings.forget, kept=kept),
    )
