"""Tasks are claimed, kept and moved on."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from datetime import timedelta
from uuid import UUID

import orjson

from ferryman.kernel.db import Row, Tx, load, many, one
from ferryman.tasks.model import Claimed, Ended, Outcome
from ferryman.tasks.states import SUCCEEDED, TaskState

_TURN = load("ferryman.tasks", "tasks/turn")
_LANES = load("ferryman.tasks", "tasks/lanes")
_SETTLE = load("ferryman.tasks", "tasks/settle")
_CANCEL = load("ferryman.tasks", "tasks/cancel")
_CALLBACKS = load("ferryman.tasks", "tasks/callbacks")
_PROMOTE = load("ferryman.tasks", "tasks/promote")
_RENEW = load("ferryman.tasks", "tasks/renew")
_RECLAIM = load("ferryman.tasks", "tasks/reclaim")
_LAPSED = load("ferryman.tasks", "tasks/lapsed")
_SHORTEN = load("ferryman.tasks", "tasks/shorten")
_EXPIRED = load("ferryman.tasks", "tasks/expired")


async def lanes(tx: Tx, afters: Mapping[str, str], *, limit: int) -> Sequence[Row]:
    """Find the (queue, tenant) pairs that have something to claim, from each queue's tenant on; and what is agreed."""
    return await many(tx, _LANES, queues=list(afters), afters=list(afters.values()), limit=limit)


async def turn(
    tx: Tx,
    outcomes: Sequence[Outcome],
    *,
    owner: UUID,
    lanes: Sequence[tuple[str, str, int]],
    names: Sequence[str],
    kinds: Sequence[str],
    lease: timedelta,
    margin: timedelta,
    behind: Sequence[UUID | None] = (),
) -> tuple[list[Claimed], set[UUID], set[UUID]]:
    """Settle a set and claim the next; answer with the claimed, and which outcomes were stale, and which busy.

    A lane is looked into from the place of the task that it may begin behind, if one is given for it.
    """
    won = sorted((each for each in outcomes if each.state is SUCCEEDED), key=_by_id)
    lost = sorted((each for each in outcomes if each.state is not SUCCEEDED), key=_by_id)
    rows = await many(
        tx,
        _TURN,
        won_ids=[each.id for each in won],
        won_epochs=[each.epoch for each in won],
        # Rows beyond the end of an array get null: a set without results sends none.
        won_results=[each.result for each in won] if any(each.result is not None for each in won) else [],
        lost=_words(lost) if lost else "[]",
        sent=len(outcomes),
        owner=owner,
        queues=[lane[0] for lane in lanes],
        tenants=[lane[1] for lane in lanes],
        rooms=[lane[2] for lane in lanes],
        behind=behind,
        names=names,
        kinds=kinds,
        lease=lease,
        margin=margin,
    )
    tally = rows[-1]
    return (
        [Claimed(*row) for row in rows[:-1]],  # type: ignore[misc]  # a row is a sequence in the order of the columns
        _ids(tally["task_id"]),
        _ids(tally["queue"]),
    )


def _ids(text: str | None) -> set[UUID]:
    return {UUID(each) for each in text.split(",")} if text else set()


def _by_id(outcome: Outcome) -> int:
    return outcome.id.int


def _words(outcomes: Sequence[Outcome]) -> str:
    return orjson.dumps(
        [
            {
                "id": str(each.id),
                "epoch": each.epoch,
                "owner": str(each.owner),
                "state": each.state.value,
                "result": each.result,
                "code": each.code,
                "reason": each.reason,
                "used": each.used,
                "delay": each.delay,
            }
            for each in outcomes
        ]
    ).decode()


async def settle(tx: Tx, outcomes: Sequence[Outcome], *, lapsed: bool = False) -> tuple[list[Row], set[UUID]]:
    """Settle a set inside a transaction; answer with those that moved, and with those that were busy; the rest was stale.

    With `lapsed` only those whose lease has passed are touched: the watchdog's word against a holder that may still renew.
    """
    rows = await many(tx, _SETTLE, outcomes=_words(sorted(outcomes, key=_by_id)), lapsed=lapsed)
    return [row for row in rows if row["state"] is not None], {row["id"] for row in rows if row["state"] is None}


async def cancel(
    tx: Tx,
    ids: Collection[UUID],
    *,
    tenant: str | None = None,
    expired: bool = False,
    code: str | None = None,
    reason: str | None = None,
) -> list[Row]:
    """Cancel live tasks; with `expired` only those that still wait at their end."""
    return list(await many(tx, _CANCEL, ids=list(ids), tenant=tenant, expired=expired, code=code, reason=reason))


async def callbacks(tx: Tx, ids: Collection[UUID], *, tenant: str | None = None) -> list[tuple[str, str]]:
    """Read whom the ends of these tasks, of one tenant or of any, are owed to: (kind, reference)."""
    rows = await many(tx, _CALLBACKS, ids=list(ids), tenant=tenant)
    return [(row["callback"], row["callback_ref"]) for row in rows]


def ended(row: Row) -> Ended:
    """Read an end from a row of settle or cancel."""
    return Ended(
        id=row["id"],
        tenant=row["tenant"],
        task_id=row["task_id"],
        name=row["name"],
        state=TaskState(row["state"]),
        attempt=row["attempt"],
        code=row["code"],
        reason=row["reason"],
        result=row["result"],
        callback=row["callback"],
        callback_ref=row["callback_ref"],
        owner=row["owner"],
    )


async def promote(tx: Tx, *, limit: int, aside: Sequence[UUID] = ()) -> tuple[int, list[str], float | None]:
    """Let in what has come due: how many, in which lanes, and in how many seconds the next will be due.

    The next of tasks and schedules, but for the schedules that were put aside.
    """
    row = await one(tx, _PROMOTE, limit=limit, aside=list(aside))
    assert row is not None
    return row["count"], row["lanes"], row["next_seconds"]


async def renew(
    tx: Tx, ids: Sequence[UUID], epochs: Sequence[int], *, owner: UUID, lease: timedelta, margin: timedelta
) -> dict[UUID, bool]:
    """Renew leases; what is not in the answer was refused, and what is false is being written by somebody else."""
    rows = await many(tx, _RENEW, ids=list(ids), epochs=list(epochs), owner=owner, lease=lease, margin=margin)
    return {row["id"]: row["renewed"] for row in rows}


async def reclaim(tx: Tx, *, owner: UUID, held: Collection[UUID]) -> tuple[int, int]:
    """Hand back what is leased to an owner that does not know of it: how many were, and how many were busy."""
    row = await one(tx, _RECLAIM, owner=owner, held=list(held))
    assert row is not None
    return row["moved"], row["busy"]


async def lapsed(
    tx: Tx,
    limit: int,
    within: timedelta | None = None,
    *,
    kinds: Sequence[str] = (),
    ahead: timedelta = timedelta(0),
) -> Sequence[Row]:
    """Find running tasks whose lease has passed, within a time or ever, and those whose lease will in a time ahead.

    Of those that owe, the ones whose owners are of these kinds.
    """
    return await many(tx, _LAPSED, limit=limit, within=within, kinds=kinds, ahead=ahead)


async def shorten(tx: Tx, limit: int, *, lease: timedelta) -> Sequence[Row]:
    """Let leases that lie further ahead than any can be end one lease from now: the clock was set back."""
    return await many(tx, _SHORTEN, limit=limit, lease=lease)


async def expired(tx: Tx, limit: int, *, kinds: Sequence[str] = ()) -> Sequence[Row]:
    """Find waiting tasks whose time is over; of those that owe, the ones whose owners are of these kinds."""
    return await many(tx, _EXPIRED, limit=limit, kinds=kinds)
