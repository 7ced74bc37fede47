"""What the checker asks of batches: what each may come to hangs on what its producer asked for.

One that nobody spoils succeeds, with every child. One of which a child fails has that child failed: with fail_fast the batch is
failed and the rest has succeeded or is stopped, without it the batch is partial and the rest has succeeded. One that somebody
asked to cancel has succeeded before that, or is failed with what was not over stopped.

A child whose holders were lost so often is poison by the contract (W7): it is failed, whatever was asked for. That no fault was
needed for one of these losses another check would say (again.py).
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from chaos.checker import claims
from chaos.checker.evidence import Evidence

ACTS = ("batch", "wreck", "revoke")
STOPPED = frozenset({"success", "canceled"})
POISON, POISON_AFTER = "poison_message", 5


class Child(NamedTuple):
    """One task of a batch, and how the turn ended that was asked for it."""

    place: int
    status: str
    turn: str | None  # None where there is none
    code: str | None = None
    worn: bool = False  # its holders were lost until it was poison


def batches_are_whole(seen: Evidence) -> Iterator[str]:
    """Every batch came to what it may, with as many tasks as were asked for, in order, each with its own turn."""
    ended, children = _read(seen)
    asked = {line["arguments"]["batch"]: line for act in ACTS for line in seen.of("invoke", act=act)}
    for line in _acknowledged(seen):
        id, count = line["batch"], asked[line["batch"]]["arguments"]["count"]
        if id not in ended:
            yield f"the batch {id} was acknowledged and is gone"
        elif [child.place for child in children[id]] != list(range(count)):
            yield f"the batch {id} was to have {count} tasks, and has {children[id]}"
        elif line.get("stopped") and ended[id] != "failed":
            yield f"the batch {id} was cancelled, and is {ended[id]}"
    for id, status in ended.items():
        wish = asked.get(id)
        if wish is None:
            yield f"nobody asked for the batch {id}"
        elif not may_come_to(wish["act"], wish["arguments"], *_but_for_worn(status, children[id])):
            yield f"the batch {id} ({wish['act']}) came to {status} with {children[id]}"
        yield from (
            f"the task {child.place} of the batch {id} is {child.status}, and {_told(child)}"
            for child in children[id]
            if not _agree(child)
        )
    twice = seen.ask("select agent_turn_id from ferryman.pmo_batch_tasks group by agent_turn_id having count(*) > 1")
    yield from (f"the turn {row['agent_turn_id']} belongs to two tasks" for row in twice)


def _acknowledged(seen: Evidence) -> Iterator[Mapping[str, Any]]:
    for act in ACTS:
        yield from seen.of("ok", act=act)


def _read(seen: Evidence) -> tuple[dict[str, str], dict[str, list[Child]]]:
    ended = {row["id"]: row["status"] for row in seen.ask("select id::text, status from ferryman.pmo_batches")}
    children: dict[str, list[Child]] = defaultdict(list)
    over, _ = claims.turns(seen)
    lost = Counter(turn for (turn, _), claim in over.items() if claim.lapsed)
    for row in seen.ask(
        "select task.batch_id::text as batch, task.task_index, task.status, turn.turn_status, turn.error_code,"
        " turn.id::text as turn"
        " from ferryman.pmo_batch_tasks as task left join ferryman.agent_inbox as turn on turn.id = task.agent_turn_id"
        " order by task.batch_id, task.task_index"
    ):
        worn = row["error_code"] == POISON and lost[row["turn"]] >= POISON_AFTER
        children[row["batch"]].append(
            Child(row["task_index"], row["status"], row["turn_status"], row["error_code"], worn)
        )
    return ended, children


def _but_for_worn(status: str, children: Sequence[Child]) -> tuple[str, list[str]]:
    """Give what a batch and its tasks would have come to, had those succeeded that are worn."""
    tasks = ["success" if child.worn and child.status == "failed" else child.status for child in children]
    spoilt = any(child.worn for child in children) and status in ("partial", "failed")
    return "success" if spoilt and set(tasks) == {"success"} else status, tasks


def may_come_to(act: str, arguments: Mapping[str, Any], status: str, tasks: Sequence[str]) -> bool:
    """Say whether what was asked for may end like this."""
    if act == "wreck":
        broken, rest = arguments["breaks"], list(tasks)
        failed = broken < len(rest) and rest.pop(broken) == "failed"
        if arguments["fail_fast"]:
            return failed and status == "failed" and STOPPED.issuperset(rest)
        return failed and status == "partial" and set(rest) == {"success"}
    if act == "revoke" and status == "failed":
        return "canceled" in tasks and STOPPED.issuperset(tasks)
    return status == "success" and set(tasks) == {"success"}


def _agree(child: Child) -> bool:
    """Say whether a task and its turn tell the same; one that was stopped may have come to its end, or never begun."""
    if (
        child.status == "canceled"
    ):  # of a turn: taken back before it began, or stopped, which is a failure with its own code
        return child.turn is None or child.turn in STOPPED or (child.turn, child.code) == ("failed", "stopped")
    return child.turn == child.status


def _told(child: Child) -> str:
    return "has no turn" if child.turn is None else f"its turn {child.turn} ({child.code})"


def turns(seen: Evidence) -> set[str]:
    """Give the turns of children: how they may end is said by their batches."""
    rows = seen.ask("select agent_turn_id::text as turn from ferryman.pmo_batch_tasks where agent_turn_id is not null")
    return {row["turn"] for row in rows}
