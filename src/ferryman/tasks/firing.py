"""Firings that must look before they are born: their schedule has keys, or their queue may be full (T10, T17).

A firing is a call like any other create. What a create would be refused or answered with is no fault of the schedule, which
goes on: the firing is counted as skipped, and the event of the schedule names the reason.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any
from uuid import UUID

from ferryman.kernel import errors
from ferryman.kernel.db import Row, Tx
from ferryman.tasks import flow
from ferryman.tasks.model import Created, Draft, NewTask
from ferryman.tasks.rules.request import NOTHING
from ferryman.tasks.store import schedules
from ferryman.tasks.store.schedules import Advance, NewFiring

SKIP = "skip"


@dataclass
class Looked:
    """What a look came to: answers for the firings that are not to be, by id, and the tasks cancelled for the others."""

    answers: dict[UUID, flow.Answer] = field(default_factory=dict)
    displaced: Sequence[UUID] = ()


async def look(tx: Tx, rows: Mapping[UUID, Row], firings: Sequence[NewFiring], looks: flow.Looks) -> Looked:
    """Look for firings of schedules that are held, given by their rows; nothing is asked where none has to look."""
    tasks = [schedules.fired(rows[each.schedule], each) for each in firings]
    looking = [(each.schedule, task) for each, task in zip(firings, tasks, strict=True) if looks(task)]
    skipping = {id for id, _task in looking if rows[id]["overlap"] == SKIP}
    # What its own schedule skips takes nobody's room.
    live = await schedules.live(tx, skipping) if skipping else set()
    coming: list[NewTask] = [task for id, task in looking if id not in live]
    if not coming:
        return Looked()
    admitted = await flow.admit(tx, [Draft(task, NOTHING) for task in coming])
    return Looked({coming[n].id: answer for n, answer in admitted.answers.items()}, admitted.displaced)


def without(
    advances: Sequence[Advance], firings: Sequence[NewFiring], answers: Mapping[UUID, flow.Answer]
) -> tuple[list[Advance], list[NewFiring]]:
    """Take out the firings that have an answer: they are skipped, for a reason."""
    reasons: defaultdict[UUID, list[dict[str, Any]]] = defaultdict(list)
    for each in firings:
        if each.id in answers:
            reasons[each.schedule].append({"fire_time": each.fire_time.isoformat(), **_why(answers[each.id])})
    told = [
        each._replace(skipped=each.skipped + len(reasons[each.id]), reasons=tuple(reasons[each.id]))
        for each in advances
    ]
    return told, [each for each in firings if each.id not in answers]


def _why(answer: flow.Answer) -> dict[str, str]:
    if isinstance(answer, Created):
        return {"code": errors.TaskAlreadyLive.code, "task_id": answer.task.task_id}
    return {"code": answer.code}
