"""What the checker asks of tasks, schedules and the log."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from itertools import pairwise
from typing import Any

from chaos.checker.evidence import Evidence

ENDS = {"succeeded", "failed", "cancelled"}
SHOWN = 5


def acknowledged_is_there(seen: Evidence) -> Iterator[str]:
    """Every task whose create was acknowledged is there, under the id and the key that were told."""
    for line in seen.of("ok"):
        for key, id in line.get("tasks", {}).items():
            row = seen.tasks.get(id)
            if row is None:
                yield f"acknowledged and gone: {key} {id}"
            elif row["key"] != key:
                yield f"{id} was acknowledged as {key} and is {row['key']}"


def one_row_for_each_key(seen: Evidence) -> Iterator[str]:
    """A key that was repeated made one task."""
    keys = Counter(row["key"] for row in seen.tasks.values() if row["key"] is not None)
    yield from (f"{key} made {count} tasks" for key, count in keys.items() if count > 1)


def everything_has_ended(seen: Evidence) -> Iterator[str]:
    """Nothing lives after the quiet; what was not cancelled has succeeded."""
    for id, row in seen.tasks.items():
        if row["state"] not in ENDS:
            yield f"{row['name']} {id} is still {row['state']}"
        elif row["state"] == "failed":
            yield f"{row['name']} {id} failed: {row['code']}"
    for line in seen.of("ok"):
        for id in line.get("cancelled", ()):
            if seen.tasks[id]["state"] != "cancelled":
                yield f"{id} was cancelled, and is {seen.tasks[id]['state']}"


def one_end_for_each_task(seen: Evidence) -> Iterator[str]:
    """The log has one end for each task, it is the last word, and the row says the same."""
    words: dict[str, list[str]] = defaultdict(list)
    for event in seen.events:
        if event["kind"] == "task" and event["to_state"] is not None:
            words[event["subject"]].append(event["to_state"])
    for id, row in seen.tasks.items():
        ends = [word for word in words[id] if word in ENDS]
        if ends != [row["state"]] or words[id][-1:] != ends:
            yield f"{row['name']} {id} is {row['state']}, its log says {words[id][-4:]}"
        claims = words[id].count("running")
        if claims != row["epoch"]:
            yield f"{id} was claimed {claims} times by its log, and has epoch {row['epoch']}"


def one_holder_for_each_claim(seen: Evidence) -> Iterator[str]:
    """A claim is started by one process, once."""
    starts = Counter((line["task"], line["epoch"]) for line in seen.of("start") if line.get("key"))
    for (task, epoch), count in starts.items():
        if count > 1 and seen.tasks[task]["name"] != "voyage":  # a durable handler is replayed within a claim
            yield f"{task} was started {count} times in epoch {epoch}"
        if task not in seen.tasks or seen.tasks[task]["epoch"] < epoch:
            yield f"{task} was started in epoch {epoch}, which it never had"


def success_was_earned(seen: Evidence) -> Iterator[str]:
    """What succeeded came to its end in the claim that settled it, with its own result; its outside effect was made."""
    done = {(line["task"], line["epoch"]) for line in seen.of("effect")}
    effects = Counter(line["key"] for line in seen.of("effect"))
    for id, row in seen.tasks.items():
        if row["state"] != "succeeded" or row["name"] not in ("job", "plain", "shaky", "hog"):
            continue
        key = row["payload"]["key"]
        if (id, row["epoch"]) not in done:
            yield f"{id} succeeded in epoch {row['epoch']}, and nobody came to its end in that"
        if row["result"] != key:
            yield f"{id} keeps {row['result']!r}, not {key!r}"
        if not effects[key]:
            yield f"{key} succeeded without its effect"


def own_rows_and_tasks_go_together(seen: Evidence) -> Iterator[str]:
    """A producer's row and the task of the same transaction are both there, or none is; a debt is told once."""
    ledger = {row["key"] for row in seen.ask("select key from public.ledger")}
    keys = {row["key"] for row in seen.tasks.values()}
    acted = {line["key"] for line in seen.of("invoke", act="within")}
    for key in acted:
        if (key in ledger) != (key in keys):
            yield f"{key}: the row is {'' if key in ledger else 'not '}there, the task is {'' if key in keys else 'not '}there"
    for row in seen.ask("select ref, ends from public.owed where ends <> 1"):
        yield f"the end of {row['ref']} was told {row['ends']} times"


def steps_are_remembered(seen: Evidence) -> Iterator[str]:
    """A durable step keeps the word of one of its runs, and the handler's result is made of these words."""
    said = {(line["task"], line["step"], line["word"]) for line in seen.of("ran") if "task" in line}
    kept: dict[str, dict[str, str]] = defaultdict(dict)
    for row in seen.ask(
        "select task::text, name, result from ferryman.task_steps where kind = 'step' and state = 'done'"
    ):
        kept[row["task"]][row["name"]] = row["result"]
        if (row["task"], row["name"], row["result"]) not in said:
            yield f"the step {row['name']} of {row['task']} keeps {row['result']!r}, which no run said"
    for id, task in seen.tasks.items():
        if task["name"] == "voyage" and task["state"] == "succeeded":
            words, key = kept[id], task["payload"]["key"]
            expected = [words.get("load"), words.get("cast-off"), f"{key}-0", f"{key}-1", words.get("unload")]
            if task["result"] != expected:
                yield f"{id} keeps {task['result']}, its steps say {expected}"


def firings_follow_each_other(seen: Evidence) -> Iterator[str]:
    """A schedule that makes up for what it missed fired every second, once."""
    times: dict[str, list[Any]] = defaultdict(list)
    for row in seen.tasks.values():
        if row["schedule"] is not None:
            times[row["schedule"]].append(row["fire_time"])
    if not times:
        yield "no schedule ever fired"
    for schedule, found in times.items():
        for before, after in pairwise(sorted(found)):
            if (after - before).total_seconds() != 1.0:
                yield f"{schedule} fired at {before} and then at {after}"


def the_log_is_read_whole(seen: Evidence) -> Iterator[str]:
    """A reader of the log met every event once, in order."""
    read = [row["event"] for row in seen.ask("select event from public.witnessed order by seq")]
    if read != sorted(read):
        yield "the reader met events out of order"
    written = {event["id"] for event in seen.events}
    missed = sorted(written - set(read))
    if missed:
        yield f"the reader missed {len(missed)} events: {missed[:SHOWN]}"
    for before, after in pairwise(seen.of("read")):
        if after["first"] <= before["last"]:
            yield f"the reader was told {after['first']} after {before['last']}"


CHECKS: tuple[Callable[[Evidence], Iterator[str]], ...] = (
    acknowledged_is_there,
    one_row_for_each_key,
    everything_has_ended,
    one_end_for_each_task,
    one_holder_for_each_claim,
    success_was_earned,
    own_rows_and_tasks_go_together,
    steps_are_remembered,
    firings_follow_each_other,
    the_log_is_read_whole,
)
