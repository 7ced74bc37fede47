"""The ends of turns, and what follows from them, in one transaction (A13, K6).

Every end goes through `finish` (a head holds the turn) or `close` (none does), whoever says it: the turn's holder, a stop, a
cancel, the watchdog. The order of locks is that of all agents' work: the owners of callbacks (batches) first, then heads by
(tenant, agent_id), then messages and waiting calls, then tasks. What to ring for after the commit is put into an `Aftermath`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field
from uuid import UUID

from ferryman.agents import rules
from ferryman.agents.model import Close, End, Stop, Terms
from ferryman.agents.ports import Rings, TurnOwners
from ferryman.agents.states import TurnStatus
from ferryman.agents.store import heads, inbox
from ferryman.kernel import ids, telemetry
from ferryman.kernel.db import Row, Tx
from ferryman.kernel.doorbell import MAX_HINTS, Doorbell
from ferryman.tasks import joins
from ferryman.tasks.ports import Owners

# Malformed messages are put aside one set after another; more than so many at once wait for the watchdog (W9).
TRIES = 5
TURN_ENDED = "its turn has ended"


@dataclass(frozen=True)
class Parties:
    """Whom an end concerns: who owns turns, who owns tasks, and how long things may take."""

    terms: Terms = field(default_factory=Terms)
    owners: TurnOwners = field(default_factory=TurnOwners)
    tasks: Owners = field(default_factory=Owners)


@dataclass
class Aftermath:
    """What there is to ring for after the commit."""

    targets: set[str] = field(default_factory=set)
    ended: list[UUID] = field(default_factory=list)
    stopped: list[UUID] = field(default_factory=list)
    stops: bool = False
    tasks: joins.Aftermath = field(default_factory=joins.Aftermath)
    bells: dict[str, set[str]] = field(default_factory=dict)

    def take(self, rings: Rings) -> None:
        """Take along what owners of turns have to ring for."""
        self.targets |= rings.targets
        self.stops |= rings.stops
        for topic, hints in rings.bells.items():
            self.bells.setdefault(topic, set()).update(hints)

    def ring(self, doorbell: Doorbell) -> None:
        """Tell the workers that there is something to take, and whoever waits that something has ended."""
        if self.targets:
            # An empty name: somebody's, and it was not looked up whose.
            doorbell.ring("agents", () if "" in self.targets else sorted(self.targets))
        if self.stops:
            doorbell.ring("stops")
        if self.stopped:
            doorbell.ring("stopped", map(str, self.stopped))
        if self.ended:
            # Too many to name: whoever waits looks.
            doorbell.ring("turns", map(str, self.ended) if len(self.ended) <= MAX_HINTS else ())
        for topic, hints in self.bells.items():
            doorbell.ring(topic, hints)
        if self.tasks.lanes:
            doorbell.ring("ready", self.tasks.lanes)
        if self.tasks.cancelled:
            doorbell.ring("cancel", map(str, self.tasks.cancelled))
            doorbell.ring("done", map(str, self.tasks.cancelled))


async def hold(
    tx: Tx,
    parties: Parties,
    owed: Iterable[tuple[str | None, str | None]],
    *,
    beside: Collection[tuple[str, str]] = (),
) -> dict[tuple[str, str], Row]:
    """Lock those to whom ends are owed, and then heads, theirs and those `beside`, all at once in the one order of heads.

    In two goes they would stand in another order than where a turn asks another agent for one.
    """
    agents = await parties.owners.parents(tx, owed) | set(beside)
    return await heads.lock(tx, agents) if agents else {}


async def _reach(
    tx: Tx, parties: Parties, owed: Iterable[tuple[str | None, str | None]]
) -> set[tuple[str | None, str]]:
    """Lock those to whom ends are owed, and then their heads, unless somebody else holds them; answer with what was had."""
    found = await parties.owners.try_parents(tx, owed)
    agents = {agent for each in found.values() for agent in each}
    busy = await heads.try_lock(tx, agents) if agents else set()
    return {each for each, needed in found.items() if busy.isdisjoint(needed)}


async def finish(tx: Tx, ends: Sequence[End], parties: Parties, *, after: Aftermath) -> tuple[Sequence[Row], set[UUID]]:
    """End turns that heads hold; answer with those that ended, and with those that were busy; the rest was stale.

    Nobody is waited for: neither for the turns' own heads, so that those of their owners may come before them whatever their
    names, nor for their owners.
    """
    had = await _reach(tx, parties, [(each.callback, each.callback_ref) for each in ends])
    left = {each.id for each in ends if each.callback and (each.callback, each.callback_ref or "") not in had}
    ends = [each for each in ends if each.id not in left]
    rows, busy, undone = await heads.finish(tx, ends) if ends else ([], set[UUID](), [])
    busy |= left
    await _follow(tx, rows, parties, after=after)
    forced = {each.id for each in ends if each.owner is None}
    after.stopped += [row["id"] for row in rows if row["id"] in forced]
    await _stop_children(tx, [row for row in rows if row["id"] in forced], after=after)
    if undone:
        cancelled = await joins.end(tx, parties.tasks, undone, reason=TURN_ENDED, after=after.tasks)
        after.tasks.cancelled += [row["id"] for row in cancelled]
    more = [(row["tenant"], row["agent_id"]) for row in rows if row["more"]]
    if more:
        await dispatch(tx, more, parties, after=after)
    return rows, busy


async def _stop_children(tx: Tx, ended: Sequence[Row], *, after: Aftermath) -> None:
    """Ask that the turns end which these asked for by calls of their own: only a turn that is ended by others leaves some."""
    if not ended:
        return
    turns, tenants = [row["id"] for row in ended], {row["tenant"] for row in ended}
    left = await inbox.delegated(tx, turns, tenants=tenants)
    if left:
        stops = [
            Stop(tenant=row["tenant"], agent_id=row["agent_id"], turn=row["id"], id=ids.new_id(), reason=TURN_ENDED)
            for row in left
        ]
        await inbox.stop(tx, stops)
        after.stops = True


async def close(tx: Tx, ends: Sequence[Close], parties: Parties, *, after: Aftermath) -> Sequence[Row]:
    """End messages that no head holds; answer with those that ended. Those that were merged into them end with them."""
    await hold(tx, parties, [(each.callback, each.callback_ref) for each in ends])
    rows = await inbox.close(tx, ends)
    turns = [row for row in rows if row["moved"]]
    await _follow(tx, turns, parties, after=after)
    behind = await inbox.followers(tx, [(row["tenant"], row["agent_id"], row["id"]) for row in turns]) if turns else ()
    if behind:
        first = ends[0]
        again = [
            rules.closed_by(row, first.status, first.code, first.error, expects=("queued",), to="skipped")
            for row in behind
        ]
        await close(tx, again, parties, after=after)
    return rows


async def _follow(tx: Tx, rows: Sequence[Row], parties: Parties, *, after: Aftermath) -> None:
    after.ended += [row["id"] for row in rows]
    owing = [heads.ended(row) for row in rows if row["callback"] is not None]
    if owing:
        after.take(await parties.owners.settle(tx, owing))
    for (status, code), count in Counter((row["status"], row["code"]) for row in rows).items():
        telemetry.ended("turn", status, code, count)


async def dispatch(
    tx: Tx, agents: Collection[tuple[str, str]], parties: Parties, *, after: Aftermath
) -> dict[UUID, int]:
    """Put the next turn of each idle agent before the workers; answer with the epochs of those turns (dispatch_next)."""
    epochs: dict[UUID, int] = {}
    for _ in range(TRIES):
        leased, missed = await heads.dispatch(tx, agents, terms=parties.terms)
        for row in leased:
            epochs[row["id"]] = row["turn_epoch"]
            after.targets.add(row["worker_target"])
        if not missed:
            break
        malformed = [row for row in missed if row["id"] is not None]
        message = "The message lacks what a turn needs."
        ends = [
            rules.closed_by(
                {"id": row["id"], "tenant": row["tenant"], "callback": None, "callback_ref": None},
                TurnStatus.FAILED,
                "missing_required_fields",
                message,
                expects=("queued",),
                to="error",
            )
            for row in malformed
        ]
        if ends:
            await close(tx, ends, parties, after=after)
        done = {(row["tenant"], row["agent_id"]) for row in leased}
        agents = {(row["tenant"], row["agent_id"]) for row in missed} - done
        if not agents:
            break
    return epochs
