"""Stops are carried out (A16): the turn ends at once as failed, its epoch grows, its holder finds itself fenced.

A stop is asked for by a message that touches no head, so that whoever holds a batch may ask; this is the other half. It may be
called by any worker after a ring, and by the watchdog; each stop is carried out once. A turn that still waits in line is taken
back. A stop that names an epoch which has passed, or a turn that has ended, is consumed without effect.
"""

from __future__ import annotations

from collections.abc import Sequence

from ferryman.agents import rules
from ferryman.agents.ends import Aftermath, Parties, close, finish, hold
from ferryman.agents.model import Close, End
from ferryman.agents.states import TurnStatus
from ferryman.agents.store import inbox
from ferryman.kernel.db import Row, Tx

LIMIT = 200
STOPPED = "stopped"


async def carry_out(tx: Tx, found: Sequence[Row], parties: Parties, *, after: Aftermath) -> int:
    """End the turns that these stops name; answer with how many stops were dealt with."""
    owed = [(row["callback"], row["callback_ref"]) for row in found]
    held = await hold(tx, parties, owed, beside={(row["tenant"], row["agent_id"]) for row in found})
    taken = await inbox.take(tx, [(row["tenant"], row["id"]) for row in found])
    ends, waiting = [], []
    for row in found:
        head = held.get((row["tenant"], row["agent_id"]))
        if row["id"] not in taken or head is None:
            continue
        if head["active_agent_turn_id"] == row["agent_turn_id"]:
            if row["asked_epoch"] is None or row["asked_epoch"] == head["turn_epoch"]:
                ends.append(_ended(row, head))
        elif row["asked_epoch"] is None:
            waiting.append(_closed(row))
    # A turn that began after the look may owe its end to somebody else. Its stop is consumed, so he is waited for.
    late = {(each.callback, each.callback_ref) for each in ends} - set(owed)
    if late:
        await hold(tx, parties, late)
    if ends:
        await finish(tx, ends, parties, after=after)
    if waiting:
        await close(tx, waiting, parties, after=after)
    done = [(row["tenant"], row["id"]) for row in found if row["id"] in taken]
    if done:
        await inbox.consume(tx, done)
    return len(done)


def _ended(row: Row, head: Row) -> End:
    finding = {
        "id": row["agent_turn_id"],
        "turn_epoch": head["turn_epoch"],
        "tenant": row["tenant"],
        "agent_id": row["agent_id"],
        "callback": head["callback"],
        "callback_ref": head["callback_ref"],
    }
    message = f"The turn was stopped: {row['reason']}."
    return rules.ended_by(finding, TurnStatus.FAILED, STOPPED, message, expects=("dispatched", "running", "suspended"))


def _closed(row: Row) -> Close:
    """Return the end of a turn that has not begun; one that has ended by now is not touched by it."""
    finding = {
        "id": row["agent_turn_id"],
        "tenant": row["tenant"],
        "callback": row["callback"],
        "callback_ref": row["callback_ref"],
    }
    message = f"The turn was stopped before it began: {row['reason']}."
    return rules.closed_by(finding, TurnStatus.CANCELED, STOPPED, message, expects=("queued",), to="skipped")


async def sweep(tx: Tx, parties: Parties, *, after: Aftermath, limit: int = LIMIT) -> int:
    """Carry out what was asked for; answer with how many stops were dealt with."""
    found = await inbox.stops(tx, limit)
    return await carry_out(tx, found, parties, after=after) if found else 0
