"""What is repaired: the watchdog's rules for batches, acting through the normal functions; and what must always be true."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from datetime import timedelta
from functools import partial
from typing import Any
from uuid import UUID

from ferryman.agents import intake as agents
from ferryman.agents import leavings
from ferryman.agents.ends import Aftermath
from ferryman.agents.model import EndedTurn
from ferryman.agents.states import TurnStatus
from ferryman.batches import rules as say
from ferryman.batches.ends import BatchEnds, absorb, cancel, conclude, expire, hold, tell
from ferryman.batches.model import Closed, TaskEnd
from ferryman.batches.states import FAILED
from ferryman.batches.store import batches, tasks
from ferryman.batches.store import retention as past
from ferryman.batches.work.dispatch import TooMuch, alone_instead, dispatch
from ferryman.batches.work.part import ORPHANED
from ferryman.kernel import faults
from ferryman.kernel.db import Row, Tx
from ferryman.kernel.doorbell import Doorbell
from ferryman.kernel.invariants import Invariant, declare
from ferryman.kernel.watchdog import OutOfTime, Rule, walking

_HERE = "ferryman.batches"
QUEUED = "queued"
MISSING = "missing"
UNTOLD, ENDED = "untold", "ended"

Finding = tuple[str, Row]

BATCH_INVARIANTS: tuple[Invariant, ...] = (
    declare(_HERE, "closed_has_no_open_tasks", "A batch that has ended has no open task.", deep=True),
    declare(
        _HERE, "closed_as_its_tasks_say", "A batch has ended as its tasks, its deadline or who ended it say.", deep=True
    ),
    declare(_HERE, "running_has_an_open_task", "A running batch has an open task.", deep=True),
    declare(_HERE, "tasks_are_whole", "A batch has as many tasks as its count says, from 0 on.", deep=True),
    declare(_HERE, "closed_is_told", "The parent of a batch that has ended was told in the same moment.", deep=True),
    declare(_HERE, "tasks_follow_their_turns", "A child that has ended has no open task.", deep=True),
    declare(_HERE, "batches_have_one_end", "A batch has ended if and only if one event says so.", deep=True),
)


class _Rules:
    """The acts of the rules; what they leave to ring for is rung after the commit."""

    def __init__(self, ends: BatchEnds, doorbell: Doorbell) -> None:
        self.parties = ends.parties
        self.terms = ends.terms
        self._doorbell = doorbell
        self.after = Aftermath()

    def ring(self, _found: Sequence[Any]) -> None:
        after, self.after = self.after, Aftermath()
        after.ring(self._doorbell)

    def ring_for_sent(self, found: Sequence[Any]) -> None:
        faults.point("batch.sent")
        self.ring(found)

    async def send(self, tx: Any, limit: int) -> Sequence[Row]:
        """Send what is due; looking and acting are one, for the look locks. What is too much is found in smaller sets."""
        try:
            async with tx.transaction():
                done = await dispatch(tx, self.parties, self.terms, after=self.after, room=limit)
        except TooMuch as error:
            raise OutOfTime(str(error), tried=error.size) from error
        except Exception as error:
            if not alone_instead(error):
                raise
            done = await dispatch(tx, self.parties, self.terms, after=self.after, room=limit, careful=True)
        return [{"id": n} for n in range(done.taken)]

    async def expire(self, tx: Tx, found: Sequence[Row]) -> int:
        return await expire(tx, [row["id"] for row in found], self.parties, self.terms, after=self.after)

    async def end_orphans(self, tx: Tx, found: Sequence[Row]) -> int:
        ids = [row["id"] for row in found]
        return len(await cancel(tx, ids, self.parties, self.terms, reason=ORPHANED, after=self.after))

    async def hear(self, tx: Tx, found: Sequence[Row]) -> int:
        """Take epochs from the inbox; warn of what stays silent; end what was never there, where somebody waits for it (B5)."""
        lined = {(row["tenant"], row["agent_id"]) for row in found if _in_line(row)}
        held = await hold(tx, sorted({row["batch_id"] for row in found}), beside=lined)
        known = {row["id"]: row["turn_epoch"] for row in found if row["turn_epoch"] is not None}
        acted = len(await tasks.accept(tx, known)) if known else 0
        late = [row for row in found if row["turn_epoch"] is None and row["late"] and row["batch_id"] in held]
        silent = [row for row in late if not row["warned"]]
        if silent:
            acted += len(await tasks.warn(tx, [await self._note(tx, row) for row in silent]))
        lost = [
            TaskEnd(id=row["id"], status=FAILED, error=say.UNAVAILABLE)
            for row in late
            if row["message_status"] is None and row["pressing"]
        ]
        if lost:
            touched = await tasks.end(tx, lost)
            await conclude(tx, sorted(touched), self.parties, self.terms, after=self.after)
            acted += len(lost)
        return acted

    async def _note(self, tx: Tx, row: Row) -> tuple[Any, str, str | None]:
        """Say what the message of a silent child is, and ring its agent if it waits in line."""
        answer = None
        if _in_line(row):
            agent = (row["tenant"], row["agent_id"])
            [said] = await agents.wakeup(tx, [agent], self.parties, dispatch_next=True, after=self.after)
            answer = said.status
        return row["id"], row["message_status"] or MISSING, answer

    async def make_good(self, tx: Tx, found: Sequence[Finding]) -> int:
        """Tell parents, and settle children: what each finding lacks."""
        untold = [row for kind, row in found if kind == UNTOLD]
        ended = [row for kind, row in found if kind == ENDED]
        await hold(tx, sorted({row["id"] for row in untold} | {row["batch_id"] for row in ended}))
        if untold:
            closed = [Closed(*(row[name] for name in Closed._fields)) for row in untold]
            await tell(tx, closed, self.parties, self.terms, after=self.after)
        if ended:
            await absorb(tx, [_ended(row) for row in ended], self.parties, self.terms, after=self.after)
        return len(found)


def _in_line(row: Row) -> bool:
    return bool(row["message_status"] == QUEUED and not row["woken"])


async def _unheard_of(tx: Tx, limit: int) -> Sequence[Finding]:
    untold = [(UNTOLD, row) for row in await batches.untold(tx, limit)]
    return untold + [(ENDED, row) for row in await tasks.ended(tx, limit - len(untold))]


def _key(finding: Finding) -> Hashable:
    return finding[0], finding[1]["id"]


def _ended(row: Row) -> EndedTurn:
    return EndedTurn(
        id=row["turn"],
        tenant=row["tenant"],
        agent_id=row["agent_id"],
        status=TurnStatus(row["turn_status"]),
        code=row["error_code"],
        error=row["error"],
        output_box_id=row["output_box_id"],
        deliverable_card_id=row["deliverable_card_id"],
        tool_result_card_id=row["tool_result_card_id"],
        callback=say.BATCH,
        callback_ref=say.reference(row["batch_id"], row["id"]),
    )


def retention(*, kept: timedelta) -> Rule:
    """Return the rule by which ended batches leave (T20)."""

    async def forget(tx: Tx, ids: Sequence[UUID]) -> int:
        rows = await past.forget(tx, ids)
        gone = {(row["tenant"], row["id"]) for row in rows}
        bare = [
            leavings.Bare(
                row["tenant"], row["agent_id"], row["agent_turn_id"], row["context_box_id"], row["output_box_id"]
            )
            for row in rows
            if row["agent_turn_id"] is not None
        ]
        await leavings.forget_bare(tx, bare, edges=[(tenant, str(id)) for tenant, id in gone], kept=kept)
        return len(gone)

    return walking.retention(
        "T20-batches",
        finds="a batch that ended longer ago than batches are kept",
        does="deletes it, with its tasks, and what was made for tasks whose turns are not there",
        walk=partial(past.walk, kept=kept),
        forget=forget,
        limit=100,
    )


def rules(ends: BatchEnds, doorbell: Doorbell, *, sweep: timedelta) -> list[Rule]:
    """Return the rules that send what is due and end every batch whose time, parent or news is gone."""
    acts = _Rules(ends, doorbell)
    terms = ends.terms
    rule = partial(Rule, setting="pmo.watchdog_interval_seconds", after=acts.ring)
    return [
        rule(
            name="B5",
            finds="a task of a batch that is due to be dispatched",
            does="asks its agent for the turn",
            every=sweep,
            find=acts.send,
            after=acts.ring_for_sent,
            limit=terms.dispatch_concurrency,
            only_bound=True,
        ),
        rule(
            name="W10",
            finds="a batch past its deadline",
            does="ends it as timeout, stops its children, tells its parent",
            every=sweep,
            find=batches.expired,
            act=acts.expire,
            limit=50,
            only_bound=True,
        ),
        rule(
            name="B11",
            finds="a running batch whose parent's turn has ended",
            does="ends it as failed and stops its children",
            every=terms.interval,
            find=batches.orphans,
            act=acts.end_orphans,
            limit=50,
            only_bound=True,
        ),
        rule(
            name="W11",
            finds="a task that was dispatched, and of which no epoch is known",
            does="reads it from the inbox; warns after a minute, and rings; never sends it again",
            every=terms.interval,
            find=partial(tasks.unheard, look_after=terms.look_after, warn_after=terms.warn_after),
            act=acts.hear,
        ),
        rule(
            name="W12",
            finds="a closed batch whose parent was not told, or a child that has ended while its task is open",
            does="tells it, settles it, as the normal path does",
            every=terms.interval,
            find=_unheard_of,
            act=acts.make_good,
            key=_key,
            only_bound=True,
        ),
    ]
