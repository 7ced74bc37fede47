"""What the checker asks of tasks, schedules and the log."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from datetime import datetime
from itertools import pairwise

from chaos.checker import claims
from chaos.checker.evidence import Evidence, Row

SHOWN = 5
EVERY_SECONDS = 1.0  # between two firings of the schedule of a run
# How far behind a schedule may be when it is ended: a process that froze with it in hand is thrown out by the server after two
# seconds, and somebody looks within another (docs/bounds.md).
LATE_SECONDS = 3.0


def acknowledged_is_there(seen: Evidence) -> Iterator[str]:
    """Every task whose create was acknowledged is there, under the id and the key that were told."""
    for line in seen.of("ok"):
        for key, id in line.get("tasks", {}).items():
            row = seen.tasks.get(id)
            if row is None:
                yield f"acknowledged and gone: {key} {id}"
            elif line["act"] == "bare":
                if (row["key"], row["payload"]["key"]) != (None, key):
                    yield f"{id} was acknowledged as {key}, without a key, and is {row['key']}, {row['payload']['key']}"
            elif row["key"] != key:
                yield f"{id} was acknowledged as {key} and is {row['key']}"


def one_row_for_each_key(seen: Evidence) -> Iterator[str]:
    """A key that was repeated made one task."""
    keys = Counter(row["key"] for row in seen.tasks.values() if row["key"] is not None)
    yield from (f"{key} made {count} tasks" for key, count in keys.items() if count > 1)


def one_row_at_most_for_each_bare_create(seen: Evidence) -> Iterator[str]:
    """A create without a key made one task at most each time it was asked for, however often the product asked again itself."""
    asked = Counter(line["key"] for line in seen.of("invoke", act="bare"))
    made = Counter(
        row["payload"]["key"] for row in seen.tasks.values() if row["key"] is None and "key" in row["payload"]
    )
    for key in sorted({line["key"] for line in seen.of("invoke", "ok", act="bare")}):
        if made[key] > asked[key]:
            yield f"{key} was asked for {asked[key]} times and made {made[key]} tasks"


def what_was_asked_for_succeeded(seen: Evidence) -> Iterator[str]:
    """No task failed, and none was cancelled but those that somebody asked to cancel, with their children."""
    cancelled = _may_be_cancelled(seen)
    for id, row in seen.tasks.items():
        if row["state"] == "failed":
            yield f"{row['name']} {id} failed: {row['code']}"
        elif row["state"] == "cancelled" and id not in cancelled:
            yield f"{row['name']} {id} was cancelled, and nobody had asked for it"
    for line in seen.of("ok"):
        for id in line.get("cancelled", ()):
            if id not in seen.tasks or seen.tasks[id]["state"] != "cancelled":
                yield f"{id} was cancelled, and is {seen.tasks[id]['state'] if id in seen.tasks else 'gone'}"


def _may_be_cancelled(seen: Evidence) -> set[str]:
    """Give what producers asked to cancel, acknowledged or not, also with its command, and all that was born of it."""
    children = _children(seen)
    found = _of_recalled(seen)
    open_ = [line["arguments"]["task"] for line in seen.of("invoke", act="cancel")]
    while open_:
        task = open_.pop()
        if task not in found:
            found.add(task)
            open_ += children[task]
    return found


def _children(seen: Evidence) -> dict[str, list[str]]:
    """Give for each task what was born of it."""
    found: dict[str, list[str]] = defaultdict(list)
    for row in seen.ask("select task::text, child::text from ferryman.task_steps where child is not null"):
        found[row["task"]].append(row["child"])
    return found


def _of_recalled(seen: Evidence) -> set[str]:
    """Give the tasks that ran for commands which somebody asked to cancel."""
    keys = sorted({line["key"] for line in seen.of("invoke", act="recall")})
    return {row["id"] for row in seen.ask(
        "select task.id::text from ferryman.command_inbox as command"
        " join ferryman.tasks as task on split_part(task.callback_ref, ':', 1) = command.id::text"
        " where command.idempotency_key = any(%s)", keys,
    )}  # fmt: skip


def each_claim_has_its_epoch(seen: Evidence) -> Iterator[str]:
    """A task was claimed as often as its log says."""
    claims = Counter(
        event["subject"] for event in seen.events if event["kind"] == "task" and event["to_state"] == "running"
    )
    for id, row in seen.tasks.items():
        if claims[id] != row["epoch"]:
            yield f"{id} was claimed {claims[id]} times by its log, and has epoch {row['epoch']}"


def one_holder_for_each_claim(seen: Evidence) -> Iterator[str]:
    """A claim is started by one process, once: of tasks, capabilities, steps of commands and tools."""
    starts: dict[tuple[str, int], list[int]] = defaultdict(list)
    for line in seen.of(*claims.OF_TASKS):
        starts[line["task"], line["epoch"]].append(line["pid"])
    for (task, epoch), pids in starts.items():
        row = seen.tasks.get(task)
        if row is None or row["epoch"] < epoch:
            yield f"{task} was started in epoch {epoch}, which it never had"
        elif len(set(pids)) > 1:
            yield f"{task} was started in epoch {epoch} by {sorted(set(pids))}"
        elif len(pids) > 1 and row["name"] != "voyage":  # a durable handler is replayed within a claim
            yield f"{task} was started {len(pids)} times in epoch {epoch}"


def success_was_earned(seen: Evidence) -> Iterator[str]:
    """What succeeded was begun in the claim that settled it, and came to its end there, with its own result and effect."""
    begun = {(line["task"], line["epoch"]) for line in seen.of(*claims.OF_TASKS)}
    done = {(line["task"], line["epoch"]) for line in seen.of("effect")}
    effects = Counter(line["key"] for line in seen.of("effect"))
    for id, row in seen.tasks.items():
        if row["state"] == "succeeded" and (id, row["epoch"]) not in begun:
            yield f"{row['name']} {id} succeeded in epoch {row['epoch']}, and nobody began it in that"
        if row["state"] != "succeeded" or row["name"] not in ("job", "plain", "shaky", "hog", "tick", "lag"):
            continue
        key = row["payload"]["key"]
        if (id, row["epoch"]) not in done:
            yield f"{id} succeeded in epoch {row['epoch']}, and nobody came to its end in that"
        if row["result"] != _word(row):
            yield f"{id} keeps {row['result']!r}, not {_word(row)!r}"
        if not effects[key]:
            yield f"{key} succeeded without its effect"


def _word(row: Row) -> str:
    """Return what a task comes to that was settled in its last claim."""
    return f"{row['payload']['key']} of claim {row['epoch']}"


def own_rows_and_tasks_go_together(seen: Evidence) -> Iterator[str]:
    """A producer's row and the task of the same transaction are both there, or none is; a debt is told once."""
    keys = {row["key"] for row in seen.tasks.values()}
    for act, own in (("within", "select key from public.ledger"), ("owed", "select ref as key from public.owed")):
        written = {row["key"] for row in seen.ask(own)}
        for key in sorted({line["key"] for line in seen.of("invoke", act=act)}):
            if (key in written) != (key in keys):
                yield f"{key}: the row is {_there(key, written)}, the task is {_there(key, keys)}"
    for row in seen.ask("select ref, ends from public.owed where ends <> 1"):
        yield f"the end of {row['ref']} was told {row['ends']} times"


def _there(key: str, found: set[str]) -> str:
    return "there" if key in found else "not there"


def steps_are_remembered(seen: Evidence) -> Iterator[str]:
    """A durable step keeps the word of a run whose claim was not followed by another, and the result is made of these words."""
    said = {(line["task"], line["step"], line["word"]): line["epoch"] for line in seen.of("ran") if "task" in line}
    claimed = claims.times(seen)
    kept: dict[str, dict[str, str]] = defaultdict(dict)
    for row in seen.ask(
        "select task::text, name, result, extract(epoch from at)::float8 as at from ferryman.task_steps"
        " where kind = 'step' and state = 'done'"
    ):
        kept[row["task"]][row["name"]] = row["result"]
        epoch = said.get((row["task"], row["name"], row["result"]))
        if epoch is None:
            yield f"the step {row['name']} of {row['task']} keeps {row['result']!r}, which no run said"
        elif claimed[row["task"]][epoch : epoch + 1] and claimed[row["task"]][epoch] <= row["at"]:
            yield f"the step {row['name']} of {row['task']} was kept for claim {epoch} when the next had begun"
    legs = {id: sorted(_word(seen.tasks[child]) for child in born) for id, born in _children(seen).items()}
    for id, task in seen.tasks.items():
        if task["name"] == "voyage" and task["state"] == "succeeded":
            words = kept[id]
            expected = [words.get("load"), words.get("cast-off"), *legs.get(id, ()), words.get("unload")]
            if task["result"] != expected:
                yield f"{id} keeps {task['result']}, its steps say {expected}"


def firings_follow_each_other(seen: Evidence) -> Iterator[str]:
    """A schedule that makes up for what it missed fired every second, once, from its birth until it was ended."""
    times: dict[str, list[datetime]] = defaultdict(list)
    for row in seen.tasks.values():
        if row["schedule"] is not None:
            times[row["schedule"]].append(row["fire_time"])
    schedules = seen.ask("select id::text, created_at, ended_at, fired, missed, skipped from ferryman.schedules")
    if not schedules:
        yield "there was no schedule"
    for schedule in schedules:
        id, found = schedule["id"], sorted(times[schedule["id"]])
        for before, after in pairwise(found):
            if (after - before).total_seconds() != EVERY_SECONDS:
                yield f"{id} fired at {before} and then at {after}"
        if (schedule["fired"], schedule["missed"], schedule["skipped"]) != (len(found), 0, 0):
            yield f"{id} made {len(found)} tasks, and tells of {schedule['fired']}, {schedule['missed']} missed"
        yield from _unfired(schedule, found)


def _unfired(schedule: Row, found: list[datetime]) -> Iterator[str]:
    """Say whether it began late or ceased before its end."""
    if not found:
        yield f"{schedule['id']} never fired"
        return
    began = (found[0] - schedule["created_at"]).total_seconds()
    if began > EVERY_SECONDS:
        yield f"{schedule['id']} fired for the first time {began:.1f} s after it was made"
    if schedule["ended_at"] is not None:
        silent = (schedule["ended_at"] - found[-1]).total_seconds()
        if silent > EVERY_SECONDS + LATE_SECONDS:
            yield f"{schedule['id']} fired for the last time {silent:.1f} s before it was ended"


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
    one_row_at_most_for_each_bare_create,
    what_was_asked_for_succeeded,
    each_claim_has_its_epoch,
    one_holder_for_each_claim,
    success_was_earned,
    own_rows_and_tasks_go_together,
    steps_are_remembered,
    firings_follow_each_other,
    the_log_is_read_whole,
)
