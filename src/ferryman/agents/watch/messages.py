"""The rules for messages that nobody takes in hand (W8, A3)."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from ferryman.agents import rules as say
from ferryman.agents.ends import Parties, close, finish
from ferryman.agents.states import TurnStatus
from ferryman.agents.store import inbox
from ferryman.agents.watch.told import (
    ANY,
    MISSING_CHANNEL,
    QUEUE_TIMEOUT,
    Told,
    columns,
)
from ferryman.kernel.db import Row, Tx
from ferryman.kernel.watchdog import Rule


def message_rules(parties: Parties, told: Told) -> list[Rule]:
    """Return the rules that ring for messages, and end those whose time is over."""
    terms = parties.terms
    rule = partial(told.rule, setting="pmo.watchdog_interval_seconds", every=terms.interval)

    last: Row | None = None

    async def knockers(tx: Tx, limit: int) -> Sequence[Row]:
        # Ringing changes nothing: what was rung for would be found again, and hide whoever stands behind it. So each look
        # goes on behind the last one, until one is not full. There is nothing in it that could fail for what was found.
        nonlocal last
        found = await inbox.pending(tx, limit, patience=terms.pending_wakeup, past=last)
        last = found[-1] if len(found) == limit else None
        return found

    async def knock(_tx: Tx, waiting: Sequence[Row]) -> int:
        told.after.targets |= {row["worker_target"] or "" for row in waiting}
        return len(waiting)

    async def forget(tx: Tx, late: Sequence[Row]) -> int:
        message = "The message waited for longer than it may."
        ends = [
            say.closed_by(
                row,
                TurnStatus.TIMEOUT,
                QUEUE_TIMEOUT,
                message,
                expects=(row["status"],),
                to="error" if row["status"] == "processing" else "skipped",
            )
            for row in late
        ]
        return len(await close(tx, ends, parties, after=told.after))

    return [
        rule(
            "W8",
            "a message that has waited too long to be taken in hand",
            "rings",
            setting="pmo.pending_wakeup_seconds",
            find=knockers,
            act=knock,
        ),
        rule(
            "W8-lost",
            "a message without a channel that has waited for so long that it is skipped",
            "skips it, and its turn ends as failed",
            setting="pmo.pending_wakeup_seconds",
            find=partial(inbox.lost, skip_after=terms.pending_wakeup_skip),
            act=partial(skip, parties=parties, told=told),
        ),
        rule(
            "A3",
            "a live message whose time is over and that no head holds",
            "ends it, and the turn it asked for as timeout",
            find=partial(inbox.forgotten, kinds=parties.owners.kinds),
            act=forget,
            only_bound=True,
        ),
    ]


async def skip(tx: Tx, lost: Sequence[Row], *, parties: Parties, told: Told) -> int:
    """End the turns of messages that cannot be delivered: no channel is known."""
    message = "No channel is known for the message."
    held = [row for row in lost if row["turn_epoch"] is not None]
    ends = [
        say.ended_by(
            {**columns(row), "id": row["agent_turn_id"]},
            TurnStatus.FAILED,
            MISSING_CHANNEL,
            message,
            expects=ANY,
            to="skipped",
        )
        for row in held
    ]
    done = len((await finish(tx, ends, parties, after=told.after))[0]) if ends else 0
    loose = [
        say.closed_by(columns(row), TurnStatus.FAILED, MISSING_CHANNEL, message, expects=("pending",), to="skipped")
        for row in lost
        if row["turn_epoch"] is None
    ]
    return done + (len(await close(tx, loose, parties, after=told.after)) if loose else 0)
