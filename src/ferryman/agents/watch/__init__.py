"""What is repaired: the watchdog's rules for agents, acting through the normal functions; and what must always be true.

The worker's rules (W1 to W4) only bring things back or inject messages: the end of a turn comes from the normal path. The
others end what nobody else will, through `ends.finish` and `ends.close`, which every end goes through. A rule's look locks
nothing; its act looks again under lock, so two watchdogs act once.
"""

from __future__ import annotations

from datetime import timedelta

from ferryman.agents.ends import Parties
from ferryman.agents.store import heads
from ferryman.agents.watch.lapsed import take_over
from ferryman.agents.watch.pmo import pmo_rules
from ferryman.agents.watch.retention import retention
from ferryman.agents.watch.told import Told
from ferryman.agents.watch.worker import worker_rules
from ferryman.kernel.doorbell import Doorbell
from ferryman.kernel.invariants import Invariant, declare
from ferryman.kernel.watchdog import Rule, far_leases

__all__ = ["AGENT_INVARIANTS", "retention", "rules", "set_back"]

_HERE = "ferryman.agents"

AGENT_INVARIANTS: tuple[Invariant, ...] = (
    declare(_HERE, "busy_has_a_turn", "An agent is busy if and only if it has an active turn, a box and a deadline."),
    declare(_HERE, "suspended_is_waiting", "A suspended turn waits for as many calls as its count says.", deep=True),
    declare(_HERE, "turns_have_one_end", "A turn has ended if and only if one event says so.", deep=True),
    declare(_HERE, "ended_has_a_deliverable", "Every turn that ended with a box left a deliverable in it.", deep=True),
    declare(_HERE, "one_writer", "No two live turns write into one output box.", deep=True),
    declare(_HERE, "active_has_a_message", "The active turn of an agent has a live message.", deep=True),
    declare(_HERE, "waits_belong_to_turns", "What is waited for belongs to a suspended turn, at its epoch.", deep=True),
    declare(_HERE, "head_and_log_agree", "A head and its last event tell the same status.", deep=True),
)


def set_back(*, every: timedelta, lease: timedelta) -> Rule:
    """Return the rule for turns whose leases are of a time before the clock was set back."""
    return far_leases("K5-turns", heads.shorten, every=every, lease=lease)


def rules(parties: Parties, doorbell: Doorbell, *, sweep: timedelta) -> list[Rule]:
    """Return the rules that end every turn whose worker, message, tool or time is gone."""
    told = Told(doorbell)
    return [
        *worker_rules(parties, told),
        take_over(parties, told, sweep=sweep),
        *pmo_rules(parties, told, sweep=sweep),
    ]
