"""The rule for turns whose lease has passed (W7, W20)."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from functools import partial

from ferryman.agents import rules as say
from ferryman.agents.ends import Parties, finish
from ferryman.agents.states import TurnStatus
from ferryman.agents.store import heads
from ferryman.agents.watch.told import (
    EXHAUSTED,
    POISON,
    REAPED,
    WALL_TIME,
    Told,
)
from ferryman.kernel.db import Row, Tx
from ferryman.kernel.watchdog import Rule


def take_over(parties: Parties, told: Told, *, sweep: timedelta) -> Rule:
    """Return the rule for turns whose lease has passed: somebody takes them over, unless they are worn or too old (W7)."""
    terms = parties.terms

    async def judge(tx: Tx, lapsed: Sequence[Row]) -> int:
        ends, free = [], []
        for row in lapsed:
            verdict = _verdict(row)
            if verdict is None:
                free.append(row)
                continue
            status, code, message, to = verdict
            ends.append(say.ended_by(row, status, code, message, expects=("running",), overdue=True, to=to))
        acted = len((await finish(tx, ends, parties, after=told.after))[0]) if ends else 0
        if free:
            epochs = [row["turn_epoch"] for row in free]
            moved, _ = await heads.release(tx, [row["id"] for row in free], epochs, lapsed=True)
            acted += len(moved)
            told.after.targets.add("")
        return acted

    return Rule(
        name="W7",
        finds="a running turn without a sign of life: its lease has passed",
        does="lets another worker take it over; ends it when nobody does, when it was brought back too often, at its wall time",
        setting="pmo.active_reap_seconds",
        every=sweep,
        find=partial(
            heads.lapsed,
            kinds=parties.owners.kinds,
            patience=max(timedelta(0), terms.active_reap - terms.lease),
            cap=terms.requeue_cap,
        ),
        act=judge,
        reaps=True,
        only_bound=True,
        after=told.ring,
    )


def _verdict(row: Row) -> tuple[TurnStatus, str, str, str] | None:
    """Say how a turn ends whose lease has passed; None while another worker may take it over."""
    if row["over"]:
        return TurnStatus.PARTIAL, WALL_TIME, "The turn used up its wall time.", "consumed"
    if row["exhausted"]:
        return TurnStatus.FAILED, EXHAUSTED, "The turn was resumed too often and never got on.", "error"
    if row["worn"]:
        return TurnStatus.FAILED, POISON, "Every worker that took the turn in hand died of it.", "error"
    if row["silent"]:
        return TurnStatus.FAILED, REAPED, "The turn gave no sign of life.", "consumed"
    return None
