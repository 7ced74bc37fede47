"""Stops are carried out (A16): the turn ends at once as failed, its epoch grows, its holder finds itself fenced.

A stop is asked for by a message that touches no head, so that whoever holds a batch may ask; this is the other half. It may be
called by any worker after a ring, and by the watchdog; each stop is carried out once. A stop that names an epoch which has
passed, or a turn that has ended, is consumed without effect.
"""

from __future__ import annotations

from collections.abc import Sequence

from ferryman.agents import rules
from ferryman.agents.ends import Aftermath, Parties, finish
from ferryman.agents.states import TurnStatus
from ferryman.agents.store import heads, inbox
from ferryman.kernel.db import Row, Tx

LIMIT = 200
STOPPED = "stopped"


async def carry_out(tx: Tx, found: Sequence[Row], parties: Parties, *, after: Aftermath) -> int:
    """End the turns that these stops name; answer with how many stops were dealt with."""
    await parties.owners.lock(tx, [(row["callback"], row["callback_ref"]) for row in found])
    held = await heads.lock(tx, {(row["tenant"], row["agent_id"]) for row in found})
    taken = await inbox.take(tx, [(row["tenant"], row["id"]) for row in found])
    ends = []
    for row in found:
        head = held.get((row["tenant"], row["agent_id"]))
        if row["id"] not in taken or head is None or head["active_agent_turn_id"] != row["agent_turn_id"]:
            continue
        if row["asked_epoch"] is not None and row["asked_epoch"] != head["turn_epoch"]:
            continue
        finding = {
            "id": row["agent_turn_id"],
            "turn_epoch": head["turn_epoch"],
            "tenant": row["tenant"],
            "agent_id": row["agent_id"],
            "callback": head["callback"],
            "callback_ref": head["callback_ref"],
        }
        ends.append(
            rules.ended_by(
                finding,
                TurnStatus.FAILED,
                STOPPED,
                f"The turn was stopped: {row['reason']}.",
                expects=("dispatched", "running", "suspended"),
            )
        )
    if ends:
        await finish(tx, ends, parties, after=after)
    done = [(row["tenant"], row["id"]) for row in found if row["id"] in taken]
    if done:
        await inbox.consume(tx, done)
    return len(done)


async def sweep(tx: Tx, parties: Parties, *, after: Aftermath, limit: int = LIMIT) -> int:
    """Carry out what was asked for; answer with how many stops were dealt with."""
    found = await inbox.stops(tx, limit)
    return await carry_out(tx, found, parties, after=after) if found else 0
