"""Results come in (A12): noted once in the turns that wait for them, which may go on when the last is there."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from ferryman.agents import rules
from ferryman.agents.ends import Aftermath, Parties
from ferryman.agents.model import Accepted, Answer, Rejected, Report
from ferryman.agents.store import heads, waits
from ferryman.kernel import ids, telemetry
from ferryman.kernel.db import Tx
from ferryman.tasks import joins
from ferryman.tasks.model import Ended

TOOL, reference = rules.TOOL, rules.reference
GIVEN_UP = "its result came too late"


async def report(
    tx: Tx, reports: Sequence[Report], parties: Parties, *, after: Aftermath, locked: bool = False
) -> list[Answer]:
    """Take results in, and answer for each: accepted, with or without effect, or rejected.

    With `locked` the caller holds the heads already, as a tool's end does, which locked them first and names no epoch.
    """
    answers: dict[int, Answer] = {}
    for place, each in enumerate(reports):
        refused = rules.unreported(each, parties.terms)
        if refused is not None:
            answers[place] = refused
    sound = {place: each for place, each in enumerate(reports) if place not in answers}
    if sound and not locked:
        sound = await _lock(tx, sound, answers)
    if sound:
        await _receive(tx, sound, answers, parties, after=after)
    dropped = sum(not isinstance(each, Accepted) or not each.effect for each in answers.values())
    if dropped:
        telemetry.fenced("turn", "settle", dropped)
    return [answers[place] for place in range(len(reports))]


async def _lock(tx: Tx, asked: dict[int, Report], answers: dict[int, Answer]) -> dict[int, Report]:
    """Lock the heads of the turns that made these calls; return those reports that are for one."""
    known = await waits.of(tx, {(each.tenant, each.tool_call_id) for each in asked.values()})
    agents: set[tuple[str, str]] = set()
    for place, each in asked.items():
        awaited = known.get((each.tenant, each.tool_call_id))
        if awaited is None:
            answers[place] = _unknown(each)
        elif each.turn_epoch is not None and each.turn_epoch != awaited.turn_epoch:
            answers[place] = Rejected("stale_epoch", f"The call was made at epoch {awaited.turn_epoch}.")
        else:
            agents.add((each.tenant, awaited.agent_id))
    if agents:
        await heads.lock(tx, agents)
    return {place: each for place, each in asked.items() if place not in answers}


async def _receive(
    tx: Tx, sound: dict[int, Report], answers: dict[int, Answer], parties: Parties, *, after: Aftermath
) -> None:
    received = await waits.receive(tx, list(sound.values()))
    for place, each in sound.items():
        if each.id in received.known:
            answers[place] = Accepted(each.id, created=each.id in received.born, effect=each.id in received.noted)
        else:
            answers[place] = _unknown(each)
    after.targets |= received.targets
    if received.late_tasks:
        cancelled = await joins.end(tx, parties.tasks, received.late_tasks, reason=GIVEN_UP, after=after.tasks)
        after.tasks.cancelled += [row["id"] for row in cancelled]


def _unknown(report: Report) -> Rejected:
    return Rejected("call_unknown", f"No turn has made the call {report.tool_call_id}.")


def woken(target: str) -> str:
    """Return how a ring for tasks names a worker's target that has a turn to go on with."""
    return f"agents:{target}"


class ToolEnds:
    """Settles the ends of tools' tasks: the owner of the callback `tool` (tasks/ports.py)."""

    def __init__(self, parties: Parties) -> None:
        """Settle under these terms; no owner of tasks is needed, for no result of a task comes too late for itself."""
        self._parties = parties

    async def lock(self, tx: Tx, refs: Sequence[str]) -> None:
        """Lock the heads of the turns that wait."""
        await heads.lock(tx, set(rules.awaiting(refs).values()))

    async def try_lock(self, tx: Tx, refs: Sequence[str]) -> Collection[str]:
        """Lock the heads that nobody else holds."""
        agents = rules.awaiting(refs)
        busy = await heads.try_lock(tx, set(agents.values()))
        return [ref for ref, agent in agents.items() if agent not in busy]

    async def settle(self, tx: Tx, ended: Sequence[Ended]) -> Sequence[str]:
        """Report the results; answer with the targets whose workers have a turn to go on with, as rings name them."""
        after = Aftermath()
        reports = [
            Report(
                tenant=each.tenant,
                tool_call_id=(each.callback_ref or "//").split("/", 2)[2],
                id=ids.new_id(),
                card_id=ids.new_id(),
                content=rules.result(each),
                author=each.name,
            )
            for each in ended
        ]
        await report(tx, reports, self._parties, after=after, locked=True)
        return [woken(target) for target in sorted(after.targets)]
