"""Batches are forked (B2 to B4): every target is looked at before anything is made, and all of it is one transaction.

The agents, the context of each task, the batch, its tasks and the edge that says who waits are written together; the dispatch
comes after the commit, so that a batch is there whole or not at all.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal, Protocol
from uuid import UUID

from ferryman.agents import intake as agents
from ferryman.agents.model import AgentRecord, Card, NewAgent
from ferryman.batches import rules
from ferryman.batches.ends import join
from ferryman.batches.model import (
    Asked,
    Caller,
    Fork,
    Forked,
    NewBatch,
    NewBatchTask,
    Refused,
    Target,
    Terms,
)
from ferryman.batches.store import batches
from ferryman.batches.store import tasks as rows
from ferryman.kernel import errors, ids
from ferryman.kernel.db import Tx


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


async def fork(
    tx: Tx,
    asked: Fork,
    caller: Caller,
    terms: Terms,
    *,
    profiles: Mapping[str, Profile],
    policy: Policy | None,
    id: UUID | None = None,
    structured_output: Literal["digest", "tool_result"] = "digest",
) -> Forked | Refused:
    """Make a batch; answer with it, or with why not, and then nothing was made. The same id again is the same batch."""
    batch = id or ids.new_id()
    if caller.depth + 1 >= terms.max_depth:
        told = f"The children would be {caller.depth + 1} deep; the limit is {terms.max_depth}."
        return Refused("recursion_depth_exceeded", told)
    try:
        targets = await _preview(tx, asked.tasks, caller, profiles, policy)
        boxes = await _inherited(tx, asked.tasks, targets, caller)
    except errors.BatchRefused as refused:
        details = refused.details
        return Refused(details.get("code", "bad_request"), refused.message, details.get("field"))
    made = NewBatch(
        id=batch,
        caller=caller,
        fail_fast=asked.fail_fast,
        deadline=asked.deadline,
        structured_output=structured_output,
        tasks=tuple(_task(task, target, index) for index, (task, target) in enumerate(zip(asked.tasks, targets, strict=True))),
    )  # fmt: skip
    if not await batches.create(tx, made):
        return await _met(tx, made)
    born = [each.agent for each in targets if each.agent is not None]
    if born:
        await agents.create(tx, born)
    await _pack(tx, asked.tasks, targets, made, boxes)
    await agents.join(tx, [join(batch, "request", caller.source, tenant=caller.tenant)])
    return Forked(batch)


async def _met(tx: Tx, asked: NewBatch) -> Forked | Refused:
    """Answer with the batch that has this id; one asked for from outside must be the same in all (K11)."""
    found = await batches.get(tx, [asked.id], tenant=asked.caller.tenant)
    if not found or found[0].parent_agent_id != asked.caller.agent_id:
        return Refused("conflict", f"{asked.id} is another's batch.", "id")
    if asked.caller.agent_id is None:
        differs = rules.differences(asked, found[0], (await rows.of(tx, [asked.id]))[asked.id])
        if differs:
            return Refused("conflict", f"The batch {asked.id} differs in {', '.join(differs)}.", differs[0])
    return Forked(asked.id, created=False)


# Before anything is made (B2)


async def _preview(
    tx: Tx, tasks: Sequence[Asked], caller: Caller, profiles: Mapping[str, Profile], policy: Policy | None
) -> list[Target]:
    """Say who does each task; refuse what is not there, not allowed, or asked for twice."""
    named = sorted({each.ref for each in tasks if each.strategy != "new"})
    there = {each.agent_id: each for each in await agents.read.agents(tx, named, tenant=caller.tenant)} if named else {}
    reused = any(each.strategy == "reuse" for each in tasks)
    above = await batches.ancestors(tx, caller.turn, tenant=caller.tenant) if reused and caller.turn else set()
    seen: set[str] = set()
    targets = []
    for index, task in enumerate(tasks):
        where = f"tasks[{index}].target_ref"
        target = _new(task, where, caller, profiles) if task.strategy == "new" else _there(task, where, there, caller)
        names = (task.ref, target.profile)
        if policy is not None and not policy.may_ask(*names):
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
    output = agent.output_box_id or agent.last_output_box_id
    if output is None:
        raise rules.refusal(where, f"{agent.agent_id} has no output yet that a clone could begin with.")
    return _derived(
        agent.profile, caller, worker_target=agent.worker_target, when_busy=agent.when_busy, origin=agent.agent_id,
        output=output,
    )  # fmt: skip


def _derived(
    profile: str,
    caller: Caller,
    *,
    worker_target: str,
    when_busy: str,
    origin: str | None = None,
    output: UUID | None = None,
) -> Target:
    # A profile's name may have dots, an agent's id not.
    name = f"{profile.lower().replace('.', '_')[:150]}_{ids.new_id().hex}"
    agent = NewAgent(
        caller.tenant, name, profile, worker_target, when_busy, derived_from=origin or caller.agent_id or rules.AUTHOR
    )  # fmt: skip
    return Target(agent_id=name, profile=profile, agent=agent, output=output)


async def _inherited(
    tx: Tx, tasks: Sequence[Asked], targets: Sequence[Target], caller: Caller
) -> dict[UUID, list[UUID]]:
    """Read the cards of the boxes that children inherit; the caller must be allowed to see those that it names."""
    named = {each.context_box for each in tasks if each.context_box is not None}
    outputs = {each.output for each in targets if each.output is not None}
    found = await batches.visible(tx, sorted(named), caller) if named else {}
    for index, task in enumerate(tasks):
        if task.context_box is not None and task.context_box not in found:
            raise rules.refusal(
                f"tasks[{index}].context_box_id", f"there is no box {task.context_box} that the caller may see."
            )
    if outputs:
        # A clone may read what its origin wrote, by the policy that lets the caller ask for it.
        found |= await batches.visible(tx, sorted(outputs), Caller(tenant=caller.tenant))
    return found


# Then it is made: contexts, agents, the batch


def _task(asked: Asked, target: Target, index: int) -> NewBatchTask:
    args: dict[str, Any] = {
        "target_strategy": asked.strategy,
        "target_ref": asked.ref,
        "instruction": asked.instruction,
        "context_box_id": None if asked.context_box is None else str(asked.context_box),
    }
    context, output = ids.new_id(), ids.new_id()
    parts = {**args, "agent_id": target.agent_id, "profile": target.profile, "context": context, "output": output}
    return NewBatchTask(
        id=ids.new_id(),
        turn=ids.new_id(),
        index=index,
        agent_id=target.agent_id,
        profile=target.profile,
        context_box=context,
        output_box=output,
        payload_hash=rules.payload_hash(parts),
        args=args,
    )


async def _pack(
    tx: Tx, asked: Sequence[Asked], targets: Sequence[Target], batch: NewBatch, boxes: Mapping[UUID, Sequence[UUID]]
) -> None:
    """Write the context of each task: what it inherits, its instruction, and who asks; and the box it will write into."""
    caller = batch.caller
    author = caller.agent_id or "user"
    facts, contents = [], {}
    for given, target, task in zip(asked, targets, batch.tasks, strict=True):
        pointer = {
            "agent_id": caller.agent_id,
            "agent_turn_id": None if caller.turn is None else str(caller.turn),
            "tool_call_id": caller.tool_call_id,
            "batch_id": str(batch.id),
            "task_index": task.index,
        }
        own = [
            _card(caller.tenant, task.turn, "task.instruction", given.instruction, role="user", author=author),
            _card(caller.tenant, task.turn, "meta.parent_pointer", pointer, role="system", author=rules.AUTHOR),
        ]
        inherited = [boxes[box] for box in (target.output, given.context_box) if box is not None]
        # The instruction comes last of its kind: a turn reads the newest.
        contents[task.context_box] = rules.packed(inherited, *(card.id for card in own))
        contents[task.output_box] = []
        facts += own
    await agents.cards.pack(tx, facts, contents, tenant=caller.tenant)


def _card(tenant: str, turn: UUID, type: str, content: Any, *, role: str, author: str) -> Card:
    return Card(tenant=tenant, id=ids.new_id(), type=type, role=role, author=author, content=content, turn=turn)
