"""Who does each task, and what it begins with (B2, B3): looked at for a whole set of forks before anything is made.

What the database is asked does not grow with the number of forks: agents by tenant, boxes by who wants to see them. The
decisions are then made for each fork by itself, so that a fork that is refused is refused alone.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Literal, NamedTuple, Protocol
from uuid import UUID

from ferryman.agents import intake as agents
from ferryman.agents.model import AgentRecord, NewAgent
from ferryman.batches import rules
from ferryman.batches.model import Allowed, Asked, Caller, Fork, Target
from ferryman.batches.store import batches
from ferryman.kernel import errors, ids
from ferryman.kernel.db import Tx

Cards = Mapping[UUID, Sequence[UUID]]


class Profile(Protocol):
    """What of a profile a fork needs."""

    @property
    def worker_target(self) -> str:
        """Which workers do its turns."""

    @property
    def when_busy(self) -> str:
        """What becomes of messages for an agent at work."""


class Policy(Protocol):
    """Whom a caller may ask for turns; None is: everybody (somebody outside of an agent)."""

    def may_ask(self, *names: str) -> bool:
        """Tell whether it may ask an agent, known by its id or its profile."""


class Wanted(NamedTuple):
    """A batch that is to be: what was asked for, by whom, under which id, and whom the caller may ask."""

    asked: Fork
    caller: Caller
    id: UUID
    policy: Policy | None = None
    allows: Allowed | None = None
    structured_output: Literal["digest", "tool_result"] = "digest"


class Previewed(NamedTuple):
    """Who does each task of a fork, and the cards that each inherits, box by box."""

    targets: Sequence[Target]
    inherited: Sequence[Sequence[Sequence[UUID]]]


async def preview(
    tx: Tx, wanted: Sequence[Wanted], *, profiles: Mapping[str, Profile]
) -> list[Previewed | errors.BatchRefused]:
    """Say of each fork who does its tasks and what they inherit, or why it cannot be."""
    there = await _agents(tx, wanted)
    found: list[list[Target] | errors.BatchRefused] = []
    for each in wanted:
        try:
            found.append(await _targets(tx, each, there[each.caller.tenant], profiles))
        except errors.BatchRefused as refused:
            found.append(refused)
    seen = await _boxes(tx, wanted, found)
    return [
        each if isinstance(each, errors.BatchRefused) else _inherit(given, each, seen)
        for given, each in zip(wanted, found, strict=True)
    ]


async def _agents(tx: Tx, wanted: Sequence[Wanted]) -> dict[str, dict[str, AgentRecord]]:
    """Read the agents that are named, by tenant."""
    named: dict[str, set[str]] = defaultdict(set)
    for each in wanted:
        named[each.caller.tenant] |= {task.ref for task in each.asked.tasks if task.strategy != "new"}
    return {
        tenant: {each.agent_id: each for each in await agents.read.agents(tx, sorted(refs), tenant=tenant)}
        if refs
        else {}
        for tenant, refs in named.items()
    }


async def _targets(
    tx: Tx, wanted: Wanted, there: Mapping[str, AgentRecord], profiles: Mapping[str, Profile]
) -> list[Target]:
    """Say who does each task; refuse what is not there, not allowed, or asked for twice."""
    tasks, caller, policy = wanted.asked.tasks, wanted.caller, wanted.policy
    reused = any(each.strategy == "reuse" for each in tasks)
    above = await batches.ancestors(tx, caller.turn, tenant=caller.tenant) if reused and caller.turn else set()
    seen: set[str] = set()
    targets = []
    for index, task in enumerate(tasks):
        where = f"tasks[{index}].target_ref"
        target = _new(task, where, caller, profiles) if task.strategy == "new" else _there(task, where, there, caller)
        if policy is not None and not policy.may_ask(task.ref, target.profile):
            told = f"{where}: the agent may not ask {task.ref} for a turn."
            raise errors.BatchRefused(told, code="delegation_refused", field=where)
        if task.strategy == "reuse":
            if task.ref in seen:
                raise rules.refusal(where, f"{task.ref} is asked for twice; an agent does one task of a batch.")
            if task.ref in above:
                raise rules.refusal(where, f"{task.ref} waits for this batch, itself or by those it asked.")
            seen.add(task.ref)
        targets.append(target)
    return targets


def _new(task: Asked, where: str, caller: Caller, profiles: Mapping[str, Profile]) -> Target:
    profile = profiles.get(task.ref)
    if profile is None:
        known = ", ".join(sorted(profiles)[:8]) or "none"
        raise rules.refusal(where, f"there is no profile {task.ref[:60]} here; known: {known}.")
    return _derived(task.ref, caller, worker_target=profile.worker_target, when_busy=profile.when_busy)


def _there(task: Asked, where: str, there: Mapping[str, AgentRecord], caller: Caller) -> Target:
    agent = there.get(task.ref)
    if agent is None:
        raise rules.refusal(where, f"there is no agent {task.ref[:60]}.")
    if task.strategy == "reuse":
        return Target(agent_id=agent.agent_id, profile=agent.profile)
    # What it is writing now, and if there is nothing yet, what it wrote before.
    outputs = [box for box in (agent.output_box_id, agent.last_output_box_id) if box is not None]
    if not outputs:
        raise _nothing(task, where)
    return _derived(
        agent.profile, caller, worker_target=agent.worker_target, when_busy=agent.when_busy, origin=agent.agent_id,
        outputs=outputs,
    )  # fmt: skip


def _nothing(task: Asked, where: str) -> errors.BatchRefused:
    return rules.refusal(where, f"{task.ref} has no output that a clone could begin with: none yet, or none any more.")


def _derived(
    profile: str,
    caller: Caller,
    *,
    worker_target: str,
    when_busy: str,
    origin: str | None = None,
    outputs: Sequence[UUID] = (),
) -> Target:
    # A profile's name may have dots, an agent's id not.
    name = f"{profile.lower().replace('.', '_')[:150]}_{ids.new_id().hex}"
    agent = NewAgent(
        caller.tenant, name, profile, worker_target, when_busy, derived_from=origin or caller.agent_id or rules.AUTHOR
    )  # fmt: skip
    return Target(agent_id=name, profile=profile, agent=agent, outputs=tuple(outputs))


# What children inherit (B3)


def _sight(caller: Caller) -> Caller:
    """Return who looks, as far as that says what it may see: all who ask from outside are one."""
    if caller.agent_id is None:
        return _everything(caller)
    return Caller(
        tenant=caller.tenant, agent_id=caller.agent_id, turn=caller.turn, context_box=caller.context_box,
        output_box=caller.output_box,
    )  # fmt: skip


def _everything(caller: Caller) -> Caller:
    return Caller(tenant=caller.tenant)


async def _boxes(
    tx: Tx, wanted: Sequence[Wanted], found: Sequence[list[Target] | errors.BatchRefused]
) -> dict[Caller, Cards]:
    """Read the cards of the boxes that children inherit, by who may see them."""
    named: dict[Caller, set[UUID]] = defaultdict(set)
    for given, each in zip(wanted, found, strict=True):
        if isinstance(each, list):
            boxes = {task.context_box for task in given.asked.tasks if task.context_box is not None}
            # A clone may read what its origin wrote, by the policy that lets the caller ask for it.
            outputs = {output for target in each for output in target.outputs}
            named[_sight(given.caller)] |= boxes
            named[_everything(given.caller)] |= outputs
    return {who: await batches.visible(tx, sorted(boxes), who) if boxes else {} for who, boxes in named.items()}


def _inherit(
    wanted: Wanted, targets: Sequence[Target], seen: Mapping[Caller, Cards]
) -> Previewed | errors.BatchRefused:
    """Give each task the cards of its boxes; the caller must be allowed to see those that it names."""
    allowed, written = seen[_sight(wanted.caller)], seen[_everything(wanted.caller)]
    inherited: list[list[Sequence[UUID]]] = []
    for index, (task, target) in enumerate(zip(wanted.asked.tasks, targets, strict=True)):
        begun = next((cards for box in target.outputs if (cards := written.get(box))), ())
        if target.outputs and not begun:
            return _nothing(task, f"tasks[{index}].target_ref")
        inherited.append([begun])
        if task.context_box is None:
            continue
        if task.context_box not in allowed:
            return rules.refusal(
                f"tasks[{index}].context_box_id", f"there is no box {task.context_box} that the caller may see."
            )
        inherited[-1].append(allowed[task.context_box])
    return Previewed(targets, inherited)
