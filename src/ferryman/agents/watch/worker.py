"""The worker's rules: what is in hand for too long, and what is waited for too long (W1 to W4)."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

from ferryman.agents import rules as say
from ferryman.agents.ends import Parties, close, finish
from ferryman.agents.intake.report import report
from ferryman.agents.model import Accepted, Report
from ferryman.agents.states import TurnStatus
from ferryman.agents.store import heads, inbox, waits
from ferryman.agents.watch.told import ANY, POISON, Told, columns
from ferryman.kernel import ids
from ferryman.kernel.db import Row, Tx
from ferryman.kernel.watchdog import Rule


def worker_rules(parties: Parties, told: Told) -> list[Rule]:
    """Return the rules that bring back, or answer with a timeout."""
    rule = partial(told.rule, setting="worker.watchdog_interval_seconds", every=parties.terms.worker_interval)
    return [
        rule(
            "W1",
            "a message that has been in hand for too long, of a turn that nobody holds",
            "puts it back; at the cap it is poison, and its turn ends as failed",
            setting="worker.inbox_processing_timeout_seconds",
            find=partial(inbox.stale, patience=parties.terms.inbox_processing_timeout),
            act=partial(_bring_back, parties, told),
            reaps=True,
        ),
        rule(
            "W2",
            "a call past its deadline that a suspended turn waits for",
            "answers it with a timeout",
            setting="worker.suspend_timeout_seconds",
            find=waits.late,
            act=partial(_expire, parties, told),
            only_bound=True,
            key=_by_call,
        ),
        rule(
            "W3",
            "a result in hand whose lease has passed",
            "puts it back",
            find=waits.expired,
            act=_return_results,
            reaps=True,
        ),
        rule(
            "W4",
            "a suspended turn that waits for nothing and was not put before the workers",
            "rebuilds its results and puts it before them",
            find=heads.unresumed,
            act=partial(_resume, told),
        ),
    ]


async def _bring_back(parties: Parties, told: Told, tx: Tx, stale: Sequence[Row]) -> int:
    terms = parties.terms
    worn = [row for row in stale if row["requeue_count"] >= terms.requeue_cap]
    rest = [(row["tenant"], row["id"]) for row in stale if row["requeue_count"] < terms.requeue_cap]
    acted = await _poison(tx, worn, parties, told) if worn else 0
    if rest:
        patience, soon = terms.inbox_processing_timeout, terms.pending_wakeup
        acted += len(await inbox.requeue(tx, rest, patience=patience, look_after=soon))
        told.after.targets.add("")
    return acted


async def _poison(tx: Tx, worn: Sequence[Row], parties: Parties, told: Told) -> int:
    """End the turns of messages that were brought back too often; a message without a turn is only put aside."""
    message = "The message was brought back too often."
    held = [{**columns(row), "id": row["agent_turn_id"]} for row in worn if row["active"]]
    ends = [say.ended_by(row, TurnStatus.FAILED, POISON, message, expects=ANY, to="error") for row in held]
    done = len((await finish(tx, ends, parties, after=told.after))[0]) if ends else 0
    loose = [
        say.closed_by(columns(row), TurnStatus.FAILED, POISON, message, expects=("processing",), to="error")
        for row in worn
        if not row["active"]
    ]
    return done + (len(await close(tx, loose, parties, after=told.after)) if loose else 0)


async def _expire(parties: Parties, told: Told, tx: Tx, late: Sequence[Row]) -> int:
    reports = [
        Report(
            tenant=row["tenant"],
            tool_call_id=row["tool_call_id"],
            id=ids.new_id(),
            card_id=ids.new_id(),
            content=say.timed_out(row["tool_name"]),
            message_type="timeout",
            author="worker.watchdog",
        )
        for row in late
    ]
    answers = await report(tx, reports, parties, after=told.after)
    return sum(isinstance(each, Accepted) and each.effect for each in answers)


async def _return_results(tx: Tx, expired: Sequence[Row]) -> int:
    return len(await waits.requeue(tx, [(row["tenant"], row["id"]) for row in expired]))


async def _resume(told: Told, tx: Tx, stuck: Sequence[Row]) -> int:
    rows = await heads.resume(tx, [row["id"] for row in stuck], [row["turn_epoch"] for row in stuck])
    told.after.targets.add("")
    return len(rows)


def _by_call(row: Any) -> tuple[str, str]:
    return row["tenant"], row["tool_call_id"]
