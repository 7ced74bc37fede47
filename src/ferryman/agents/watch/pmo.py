"""The rules for dispatches and wall times, and for stops that were asked for (W5, W6, W9, A16, A18)."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from functools import partial

from ferryman.agents import rules as say
from ferryman.agents.ends import Parties, dispatch, finish
from ferryman.agents.states import TurnStatus
from ferryman.agents.store import heads, inbox
from ferryman.agents.watch.messages import message_rules
from ferryman.agents.watch.told import DISPATCH_TIMEOUT, WALL_TIME, Told
from ferryman.agents.work import stops
from ferryman.kernel import ids
from ferryman.kernel.db import Row, Tx
from ferryman.kernel.watchdog import Rule


def pmo_rules(parties: Parties, told: Told, *, sweep: timedelta) -> list[Rule]:
    """Return the rules that dispatch again, and end what nobody picked up or finished."""
    kinds, retry_after = parties.owners.kinds, parties.terms.dispatched_retry
    rule = partial(told.rule, setting="pmo.watchdog_interval_seconds", every=parties.terms.interval)
    return [
        rule(
            "W5",
            "a dispatched turn that nobody has picked up",
            "puts its envelope into the inbox again and rings; its clock goes on",
            setting="pmo.dispatched_retry_seconds",
            find=partial(heads.undispatched, over=False, kinds=kinds, retry_after=retry_after),
            act=partial(_retry, parties, told),
        ),
        rule(
            "W6",
            "a turn that has been dispatched for too long",
            "ends it as timeout / dispatch_timeout",
            setting="pmo.dispatched_timeout_seconds",
            find=partial(heads.undispatched, over=True, kinds=kinds, retry_after=retry_after),
            act=partial(_give_up, parties, told),
            reaps=True,
            only_bound=True,
        ),
        rule(
            "A18",
            "a suspended turn past its wall time",
            "ends it as partial / wall_time_exceeded",
            find=partial(heads.overrun, kinds=kinds),
            act=partial(_overrun, parties, told),
            only_bound=True,
        ),
        *message_rules(parties, told),
        rule(
            "W9",
            "an agent at rest with turns that wait",
            "dispatches the next",
            find=inbox.waiting,
            act=partial(_serve, parties, told),
        ),
        rule(
            "A16",
            "a stop that was asked for and not carried out",
            "ends the turn as failed / stopped; a stop that comes too late is consumed",
            every=sweep,
            find=inbox.stops,
            act=partial(_stop, parties, told),
            only_bound=True,
        ),
    ]


async def _retry(parties: Parties, told: Told, tx: Tx, waiting: Sequence[Row]) -> int:
    rows = await heads.retry(
        tx,
        [row["id"] for row in waiting],
        [row["turn_epoch"] for row in waiting],
        [ids.new_id() for _ in waiting],
        retry_after=parties.terms.dispatched_retry,
        look_after=parties.terms.pending_wakeup,
    )
    told.after.targets |= {row["worker_target"] for row in rows}
    return len(rows)


async def _give_up(parties: Parties, told: Told, tx: Tx, waiting: Sequence[Row]) -> int:
    message = "No worker took the turn in hand."
    ends = [
        say.ended_by(row, TurnStatus.TIMEOUT, DISPATCH_TIMEOUT, message, expects=("dispatched",), overdue=True)
        for row in waiting
    ]
    return len((await finish(tx, ends, parties, after=told.after))[0])


async def _overrun(parties: Parties, told: Told, tx: Tx, waiting: Sequence[Row]) -> int:
    message = "The turn used up its wall time while it waited."
    ends = [
        say.ended_by(row, TurnStatus.PARTIAL, WALL_TIME, message, expects=("suspended",), overdue=True)
        for row in waiting
    ]
    return len((await finish(tx, ends, parties, after=told.after))[0])


async def _serve(parties: Parties, told: Told, tx: Tx, waiting: Sequence[Row]) -> int:
    agents = [(row["tenant"], row["agent_id"]) for row in waiting]
    return len(await dispatch(tx, agents, parties, after=told.after))


async def _stop(parties: Parties, told: Told, tx: Tx, asked: Sequence[Row]) -> int:
    return await stops.carry_out(tx, asked, parties, after=told.after)
