"""What the checker asks of turns: who held them, what of their steps was kept, and what they delivered.

Each handler says in which claim of its turn it speaks, by the turn's epoch. What an agent delivers is made of words that no
other run of its steps would say, and of what its tools said, which name the claims that they ran in: what somebody said whose
time was over is none of what was kept.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator
from typing import Any

from chaos.checker import batches
from chaos.checker.claims import OF_TURNS
from chaos.checker.evidence import Evidence

# What the log says of a turn with its epoch: claims, ends of leases, the end; and each step that was kept.
MOVES = """
    select subject::text as turn, kind, name, to_state, epoch
    from (select id, subject, kind, to_state, data ->> 'name' as name, (data ->> 'turn_epoch')::bigint as epoch
          from ferryman.events where kind in ('agent.state', 'agent.step')) as event
    where epoch is not null
    order by id
"""
TURNS = """
    select message.id::text, message.turn_status, message.status, message.error_code, message.error, card.content
    from ferryman.agent_inbox as message left join ferryman.cards as card on card.id = message.deliverable_card_id
    where message.message_type = 'turn'
"""
STEPS = """
    select agent_turn_id::text as turn, name, turn_epoch as epoch, result as word from ferryman.agent_steps
    where kind = 'step' and status = 'completed'
"""
TOOLS = """
    select waited.agent_turn_id::text as turn, task.epoch from ferryman.turn_waiting_tools as waited
    join ferryman.tasks as task on task.id = waited.task_id
    order by waited.agent_turn_id, task.epoch
"""


def one_holder_for_each_claim_of_a_turn(seen: Evidence) -> Iterator[str]:
    """A claim of a turn has one process that works at it; no step of it is kept when the next has begun."""
    claimed: dict[str, int] = defaultdict(int)
    known: set[tuple[str, int]] = set()
    for move in seen.ask(MOVES):
        turn, epoch = move["turn"], move["epoch"]
        if move["kind"] == "agent.step" and epoch < claimed[turn]:
            yield f"the step {move['name']} of the turn {turn} was kept for claim {epoch}, and it was at {claimed[turn]}"
        elif move["kind"] == "agent.state":
            claimed[turn] = max(claimed[turn], epoch)
            known.add((turn, epoch))
    holders: dict[tuple[str, int], set[int]] = defaultdict(set)
    for line in seen.of(*OF_TURNS):
        if "turn" in line:
            holders[line["turn"], line["epoch"]].add(line["pid"])
    for (turn, epoch), pids in holders.items():
        if (turn, epoch) not in known:
            yield f"the turn {turn} was at work in claim {epoch}, which it never had"
        elif len(pids) > 1:
            yield f"claim {epoch} of the turn {turn} was held by {sorted(pids)}"


def turns_are_delivered(seen: Evidence) -> Iterator[str]:
    """Every turn that was acknowledged is there and succeeded, with what its kept steps and its tools said."""
    rows = {row["id"]: row for row in seen.ask(TURNS)}
    said = {(line["turn"], line["epoch"], line["word"]) for line in seen.of("ran") if "turn" in line}
    kept: dict[str, dict[str, Any]] = defaultdict(dict)
    for step in seen.ask(STEPS):
        kept[step["turn"]][step["name"]] = step["word"]
        if (step["turn"], step["epoch"], step["word"]) not in said:
            yield f"the step {step['name']} of the turn {step['turn']} keeps {step['word']!r}, which no run of it said"
    tools: dict[str, list[int]] = defaultdict(list)
    for tool in seen.ask(TOOLS):
        tools[tool["turn"]].append(tool["epoch"])
    for line in seen.of("ok", act="turn"):
        turn = line["turn"]
        if turn not in rows:
            yield f"the turn {turn} was acknowledged and is gone"
        elif rows[turn]["turn_status"] == "success" and not _delivered(rows[turn]["content"], kept[turn], tools[turn]):
            yield f"the turn {turn} delivered {rows[turn]['content']}, its steps say {kept[turn]}, its tools {tools[turn]}"
    children = batches.turns(seen)
    for id, row in rows.items():
        if row["turn_status"] != "success" and id not in children:
            yield f"the turn {id} ended as {row['turn_status']} ({row['error_code']}: {row['error']})"
    for row in seen.ask("select agent_id, status from ferryman.agent_state_head where status <> 'idle'"):
        yield f"the agent {row['agent_id']} is still {row['status']}"


def _delivered(words: Any, kept: dict[str, Any], tools: list[int]) -> bool:
    """Say whether words are those of the steps that were kept, and between them those of two tools, each of its last claim."""
    if not isinstance(words, list) or len(words) != 4 or [words[0], words[3]] != [kept.get("look"), kept.get("steer")]:
        return False
    ties = [str(word).partition(" of claim ") for word in words[1:3]]
    claims = sorted(tie[2] for tie in ties)
    return [tie[0] for tie in ties] == ["knot 1", "knot 2"] and claims == sorted(map(str, tools))


def children_deliver_what_their_claim_said(seen: Evidence) -> Iterator[str]:
    """What a child of a batch delivered was said in the claim that ended its turn."""
    strokes = {(line["turn"], line["epoch"]) for line in seen.of("stroke")}
    ended = {
        move["turn"]: move["epoch"] for move in seen.ask(MOVES) if (move["kind"], move["to_state"]) == ("agent.state", "idle")
    }  # fmt: skip
    children = batches.turns(seen)
    for row in seen.ask(TURNS):
        if row["id"] not in children or row["turn_status"] != "success":
            continue
        epoch = ended.get(row["id"])
        told = row["content"].get("summary", "") if isinstance(row["content"], dict) else ""
        if (row["id"], epoch) not in strokes or not told.endswith(f" of claim {epoch}"):
            yield f"the child {row['id']} ended in claim {epoch} and delivered {row['content']}"


CHECKS: tuple[Callable[[Evidence], Iterator[str]], ...] = (
    one_holder_for_each_claim_of_a_turn,
    turns_are_delivered,
    children_deliver_what_their_claim_said,
)
