"""Batches are forked (B4): those that are wanted at one time in one set of statements, each whole or not at all.

The agents, the context of each task, the batch, its tasks and the edge that says who waits are written together; the dispatch
comes after the commit. Every target was looked at before anything is made (targets.py); a fork that is refused makes nothing,
and the others of its set do not hear of it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple
from uuid import UUID

from ferryman.agents import intake as agents
from ferryman.agents.model import Box, Card
from ferryman.batches import rules
from ferryman.batches.ends import join
from ferryman.batches.intake.targets import Policy, Previewed, Profile, Wanted, preview
from ferryman.batches.model import Asked, BatchRecord, Caller, Forked, NewBatch, NewBatchTask, Refused, Target, Terms
from ferryman.batches.store import batches
from ferryman.batches.store import tasks as rows
from ferryman.kernel import errors, ids
from ferryman.kernel.db import Tx

__all__ = ["Policy", "Profile", "Wanted", "fork", "parts"]

# How many tasks go in one set, and how long an instruction is that weighs as much as one more.
TASKS_MAX = 1000
TEXT_OF_ONE = 2000


class _Sound(NamedTuple):
    """A fork that nothing speaks against."""

    wanted: Wanted
    found: Previewed
    batch: NewBatch


async def fork(
    tx: Tx, wanted: Sequence[Wanted], terms: Terms, *, profiles: Mapping[str, Profile]
) -> list[Forked | Refused]:
    """Make batches; answer for each with it, or with why not, and then nothing of it was made.

    The same id again is the same batch.
    """
    return [answer for some in parts(wanted) for answer in await _fork(tx, some, terms, profiles)]


def parts(wanted: Sequence[Wanted]) -> list[list[Wanted]]:
    """Divide what is wanted, in order, into sets that one statement can carry."""
    made: list[list[Wanted]] = []
    room = 0
    for each in wanted:
        weight = sum(1 + len(task.instruction) // TEXT_OF_ONE for task in each.asked.tasks)
        if not made or weight > room:
            made.append([])
            room = TASKS_MAX
        made[-1].append(each)
        room -= weight
    return made


async def _fork(
    tx: Tx, wanted: Sequence[Wanted], terms: Terms, profiles: Mapping[str, Profile]
) -> list[Forked | Refused]:
    answers: dict[int, Forked | Refused] = {}
    for place, each in enumerate(wanted):
        if each.caller.depth + 1 >= terms.max_depth:
            told = f"The children would be {each.caller.depth + 1} deep; the limit is {terms.max_depth}."
            answers[place] = Refused("recursion_depth_exceeded", told)
    shallow = {place: each for place, each in enumerate(wanted) if place not in answers}
    sound: dict[int, _Sound] = {}
    found = await preview(tx, list(shallow.values()), profiles=profiles)
    for (place, each), seen in zip(shallow.items(), found, strict=True):
        if isinstance(seen, errors.BatchRefused):
            details = seen.details
            answers[place] = Refused(details.get("code", "bad_request"), seen.message, details.get("field"))
        else:
            sound[place] = _Sound(each, seen, _batch(each, seen.targets))
    answers |= await _make(tx, sound) if sound else {}
    return [answers[place] for place in range(len(wanted))]


async def _make(tx: Tx, sound: dict[int, _Sound]) -> dict[int, Forked | Refused]:
    """Write down what is new; who met a batch that is there, or is being made in this set, is answered with that one."""
    # Of two that want one id the first has it.
    firsts = {each.batch.id: place for place, each in reversed(sound.items())}
    born = await batches.create(tx, [sound[place].batch for place in firsts.values()])
    made = {place: sound[place] for id, place in firsts.items() if id in born}
    if made:
        new = [target.agent for each in made.values() for target in each.found.targets if target.agent is not None]
        if new:
            await agents.create(tx, new)
        await _pack(tx, list(made.values()))
        for each in made.values():
            if each.batch.allows is not None:
                await agents.budgets.create(tx, each.batch.id, tenant=each.batch.caller.tenant, **each.batch.allows)
        await agents.join(
            tx, [join(id, "request", who.source, tenant=who.tenant) for id, who in _callers(made.values())]
        )
    answers: dict[int, Forked | Refused] = {place: Forked(each.batch.id) for place, each in made.items()}
    met = {place: each.batch for place, each in sound.items() if place not in made}
    return answers | (await _meet(tx, met) if met else {})


def _callers(made: Iterable[_Sound]) -> list[tuple[UUID, Caller]]:
    return [(each.batch.id, each.batch.caller) for each in made]


async def _meet(tx: Tx, asked: Mapping[int, NewBatch]) -> dict[int, Forked | Refused]:
    """Answer with the batches that have these ids; one asked for from outside must be the same in all (K11)."""
    there: dict[tuple[str, UUID], BatchRecord] = {}
    for tenant in sorted({each.caller.tenant for each in asked.values()}):
        named = [each.id for each in asked.values() if each.caller.tenant == tenant]
        there |= {(tenant, each.id): each for each in await batches.get(tx, named, tenant=tenant)}
    found_ids = {id for _, id in there}
    tasks, beside = await rows.of(tx, found_ids), await batches.met(tx, found_ids)
    answers: dict[int, Forked | Refused] = {}
    for place, each in asked.items():
        found = there.get((each.caller.tenant, each.id))
        answers[place] = Forked(each.id, created=False)
        if found is None or found.parent_agent_id != each.caller.agent_id:
            answers[place] = Refused("conflict", f"{each.id} is another's batch.", "id")
        elif each.caller.agent_id is None and (
            differs := rules.differences(each, found, beside[each.id], tasks[each.id])
        ):
            answers[place] = Refused("conflict", f"The batch {each.id} differs in {', '.join(differs)}.", differs[0])
    return answers


def _batch(wanted: Wanted, targets: Sequence[Target]) -> NewBatch:
    asked = wanted.asked
    return NewBatch(
        id=wanted.id,
        caller=wanted.caller,
        fail_fast=asked.fail_fast,
        deadline=asked.deadline,
        allows=wanted.allows,
        structured_output=wanted.structured_output,
        tasks=tuple(_task(task, target, index) for index, (task, target) in enumerate(zip(asked.tasks, targets, strict=True))),
    )  # fmt: skip


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


async def _pack(tx: Tx, made: Sequence[_Sound]) -> None:
    """Write the context of each task: what it inherits, its instruction, and who asks; and the box it will write into."""
    facts: list[Card] = []
    boxes: list[Box] = []
    for each in made:
        tenant = each.batch.caller.tenant
        for given, inherited, task in zip(each.wanted.asked.tasks, each.found.inherited, each.batch.tasks, strict=True):
            own = _own(each.batch, given, task)
            # The instruction comes last of its kind: a turn reads the newest.
            boxes.append(Box(tenant, task.context_box, rules.packed(inherited, *(card.id for card in own))))
            boxes.append(Box(tenant, task.output_box, ()))
            facts += own
    await agents.cards.pack(tx, facts, boxes)


def _own(batch: NewBatch, given: Asked, task: NewBatchTask) -> list[Card]:
    caller = batch.caller
    pointer = {
        "agent_id": caller.agent_id,
        "agent_turn_id": None if caller.turn is None else str(caller.turn),
        "tool_call_id": caller.tool_call_id,
        "batch_id": str(batch.id),
        "task_index": task.index,
    }
    author = caller.agent_id or "user"
    return [
        _card(caller.tenant, task.turn, "task.instruction", given.instruction, role="user", author=author),
        _card(caller.tenant, task.turn, "meta.parent_pointer", pointer, role="system", author=rules.AUTHOR),
    ]


def _card(tenant: str, turn: UUID, type: str, content: Any, *, role: str, author: str) -> Card:
    return Card(tenant=tenant, id=ids.new_id(), type=type, role=role, author=author, content=content, turn=turn)
