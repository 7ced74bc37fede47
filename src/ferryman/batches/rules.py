"""What should happen: what may be asked for, how a batch ends, what its parent is told, when a dispatch is tried again."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Collection, Iterable, Mapping, Sequence
from datetime import timedelta
from typing import Any, Protocol
from uuid import UUID

from ferryman.agents.model import Accepted, Answer, Busy, Failed, Rejected
from ferryman.batches.model import Asked, Fork, Terms, View
from ferryman.batches.states import FAILURES, PARTIAL, SUCCESS, TERMINAL, TIMEOUT, BatchStatus, TaskStatus
from ferryman.kernel import errors, payload, retry

# Who is told of a child's end.
BATCH = "batch"
TOOL_NAME = "fork_join"
AUTHOR = "batches"

STRATEGIES = ("new", "reuse", "clone")
LONGEST_DEADLINE = timedelta(days=365)
LONGEST_TEXT = 100_000

_FORK_FIELDS = ("tasks", "fail_fast", "deadline_seconds")
_TASK_FIELDS = ("target_strategy", "target_ref", "instruction", "context_box_id")
# What older versions of the source took; each is refused by its name.
RETIRED = {
    "retry_batch_id": "a batch is not tried again by its id; fork a new one",
    "retry_task_indexes": "a batch is not tried again by its tasks; fork a new one",
    "agent_profile": "say target_strategy new and the profile as target_ref",
    "profile_name": "say target_strategy new and the profile as target_ref",
    "module_id": "tasks are known by their place in the list",
    "task_id": "tasks are known by their place in the list",
    "agent_id": "say target_strategy reuse and the agent as target_ref",
    "provision": "target_strategy says whether an agent is made",
    "conversation_mode": "target_strategy and context_box_id say what a child gets to read",
    "context_mode": "target_strategy and context_box_id say what a child gets to read",
}

DISPATCH = retry.Backoff.listed([timedelta(seconds=each) for each in (2, 4, 8, 16, 30)])
EXHAUSTED = "dispatch_retry_exhausted"
UNAVAILABLE = "downstream_unavailable"
NO_DELIVERABLE, UNREADABLE = "missing_deliverable_card_id", "deliverable_read_failed"
NO_RESULT, RESULT_UNREADABLE = "tool_result_not_found", "tool_result_read_failed"
SHOWN_FIELDS = 5
# How long each summary may be; where all together do not fit into a card, the next shorter.
CUTS = (4000, 1000, 200, 40, 0)


def reference(batch: UUID, task: UUID) -> str:
    """Return what a child's callback carries."""
    return f"{batch}/{task}"


def referred(ref: str | None) -> tuple[UUID, UUID] | None:
    """Read what a child's callback carries; None for what is none of ours."""
    try:
        batch, task = (ref or "").split("/")
        return UUID(batch), UUID(task)
    except ValueError:
        return None


# What may be asked for (B1)


def refusal(field: str, message: str) -> errors.BatchRefused:
    """Return what is said of a field that is wrong."""
    return errors.BatchRefused(f"{field}: {message}", code="bad_request", field=field)


def read(asked: Mapping[str, Any], terms: Terms) -> Fork:
    """Read a request for a batch; say which field is wrong."""
    _refuse_unknown(asked, _FORK_FIELDS, "")
    tasks = asked.get("tasks")
    if not isinstance(tasks, list | tuple):
        raise refusal("tasks", f"expected a list of tasks, got {_shown(tasks)}.")
    if not 1 <= len(tasks) <= terms.max_tasks:
        raise refusal("tasks", f"expected 1 to {terms.max_tasks} tasks, got {len(tasks)}.")
    fail_fast = asked.get("fail_fast")
    if not isinstance(fail_fast, bool | None):
        raise refusal("fail_fast", f"expected true or false, got {_shown(fail_fast)}.")
    return Fork(
        tasks=tuple(_task(each, f"tasks[{index}]") for index, each in enumerate(tasks)),
        fail_fast=bool(fail_fast),
        deadline=_deadline(asked.get("deadline_seconds"), terms),
    )


def _task(given: Any, where: str) -> Asked:
    if not isinstance(given, Mapping):
        raise refusal(where, f"expected an object, got {_shown(given)}.")
    _refuse_unknown(given, _TASK_FIELDS, f"{where}.")
    strategy = _text(given, "target_strategy", where).lower()
    if strategy not in STRATEGIES:
        raise refusal(f"{where}.target_strategy", f"expected new, reuse or clone, got {_shown(strategy)}.")
    return Asked(
        strategy=strategy,  # type: ignore[arg-type]  # it is one of them
        ref=_text(given, "target_ref", where),
        instruction=_text(given, "instruction", where),
        context_box=_box(given.get("context_box_id"), f"{where}.context_box_id"),
    )


def _text(given: Mapping[str, Any], name: str, where: str) -> str:
    value = given.get(name)
    if not isinstance(value, str) or not value.strip():
        raise refusal(f"{where}.{name}", f"expected a text that is not empty, got {_shown(value)}.")
    if len(value) > LONGEST_TEXT or "\x00" in value:
        raise refusal(f"{where}.{name}", f"expected at most {LONGEST_TEXT} characters, none of them NUL.")
    try:
        value.encode()
    except UnicodeEncodeError:
        raise refusal(f"{where}.{name}", "expected text that can be written as UTF-8.") from None
    return value.strip()


def _box(given: Any, where: str) -> UUID | None:
    if isinstance(given, UUID) or given is None:
        return given
    if isinstance(given, str) and not given.strip():
        return None
    try:
        return UUID(given)
    except (ValueError, AttributeError, TypeError):
        raise refusal(where, f"expected the id of a box, or nothing, got {_shown(given)}.") from None


def _deadline(given: Any, terms: Terms) -> timedelta:
    if given is None:
        return terms.deadline
    if isinstance(given, timedelta):
        given = given.total_seconds()
    # Not a number compares with nothing.
    if isinstance(given, bool) or not isinstance(given, int | float) or not given > 0:
        raise refusal("deadline_seconds", f"expected a number greater than 0, got {_shown(given)}.")
    if given > LONGEST_DEADLINE.total_seconds():
        raise refusal("deadline_seconds", f"expected at most {LONGEST_DEADLINE.total_seconds():.0f}, got {given:g}.")
    return timedelta(seconds=given)


def _refuse_unknown(given: Mapping[str, Any], known: Collection[str], where: str) -> None:
    for name in given:
        if name in known:
            continue
        if name in RETIRED:
            raise refusal(f"{where}{name}", f"is not supported any more: {RETIRED[name]}.")
        shown = str(name)[:60]
        raise refusal(f"{where}{shown}", f"is not known here; expected {', '.join(known)}.")


def _shown(value: object) -> str:
    return "nothing" if value is None else ascii(value)[:60]


# How a batch ends (B7, B13)


def verdict(tasks: Collection[TaskStatus], *, fail_fast: bool) -> BatchStatus | None:
    """Return how the batch ends, or None while it must go on."""
    met = set(tasks)
    if fail_fast and met & FAILURES:
        return BatchStatus.FAILED
    if not met <= TERMINAL:
        return None
    if met == {SUCCESS}:
        return BatchStatus.SUCCESS
    if SUCCESS in met:
        return BatchStatus.PARTIAL
    for told, means in (
        (TaskStatus.FAILED, BatchStatus.FAILED), (TIMEOUT, BatchStatus.TIMEOUT), (PARTIAL, BatchStatus.PARTIAL)
    ):  # fmt: skip
        if told in met:
            return means
    return BatchStatus.FAILED


# What a child's end comes to (B6)


def view_of(content: Any) -> View:
    """Return what is kept of a deliverable: its fields, and a summary of it."""
    fields = [each for each in _fields(content) if each["value"] not in (None, "", [], {})]
    said = next((each["value"] for each in fields if each["name"] == "summary"), None)
    if said is not None:
        summary = _plain(said)
    elif fields:
        summary = "; ".join(f"{each['name']}: {_plain(each['value'])}" for each in fields[:SHOWN_FIELDS])
    else:
        summary = "" if content is None else _plain(content)
    return View(summary=summary[: CUTS[0]] or None, fields=tuple(fields[:SHOWN_FIELDS]))


def _fields(content: Any) -> list[dict[str, Any]]:
    """Read fields: a list of {name, value}, by itself or under `fields` or `result_fields`; else what an object has."""
    listed: Any = content
    if isinstance(content, Mapping):
        if "summary" in content:
            return [{"name": str(name), "value": value} for name, value in content.items()]
        listed = content.get("fields", content.get("result_fields"))
        if listed is None:
            return [{"name": str(name), "value": value} for name, value in content.items()]
    if isinstance(listed, Mapping):
        return [{"name": str(name), "value": value} for name, value in listed.items()]
    if not isinstance(listed, list):
        return []
    return [
        {"name": str(each["name"]), "value": each.get("value")}
        for each in listed
        if isinstance(each, Mapping) and "name" in each
    ]


def _plain(value: Any) -> str:
    return value.strip() if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


# What the parent is told (B9)


class Row(Protocol):
    """A task as far as its parent is told of it."""

    @property
    def task_index(self) -> int:
        """Its place."""

    @property
    def status(self) -> str:
        """How it ended."""

    @property
    def output_box_id(self) -> UUID | None:
        """What it wrote."""

    @property
    def error_detail(self) -> str | None:
        """Why it did not succeed."""

    @property
    def metadata(self) -> str:
        """What is kept of it, as JSON text."""


def result(status: str, tasks: Iterable[Row], *, limit: int) -> dict[str, Any]:
    """Return what a batch came to, one result for each task, in order; summaries are cut until all of it fits a card."""
    known = [(each, json.loads(each.metadata).get("result_view") or {}) for each in tasks]
    known.sort(key=lambda each: each[0].task_index)
    told: dict[str, Any] = {}
    for cut in CUTS:
        told = {"status": status, "results": [_result(each, view, cut) for each, view in known]}
        if _fits(told, limit):
            break
    return told


def _result(task: Row, view: Mapping[str, Any], cut: int) -> dict[str, Any]:
    told: dict[str, Any] = {"task_index": task.task_index, "status": task.status}
    summary = (view.get("digest") or "")[:cut]
    if summary:
        told["summary"] = summary
    if task.output_box_id is not None:
        told["output_box_id"] = str(task.output_box_id)
    error = task.error_detail or view.get("tool_result_error") or view.get("error_code")
    if task.status != SUCCESS and error:
        told["error"] = error
    return told


def _fits(value: Any, limit: int) -> bool:
    try:
        payload.encode(value, limit=limit - 1000)  # the card says a little more
    except errors.TaskInvalidPayload:
        return False
    return True


def content(batch: UUID, told: Mapping[str, Any]) -> dict[str, Any]:
    """Return the content of the tool.result card that the parent gets."""
    status = told["status"]
    made: dict[str, Any] = {"status": status, "result": dict(told)}
    if status != BatchStatus.SUCCESS:
        message = f"The batch ended as {status}."
        detail = {"batch_id": str(batch), "status": status}
        made["error"] = {"code": "batch_failed", "message": message, "source": AUTHOR, "detail": detail}
    return made


# What a dispatch is answered (B5)


def dispatch_error(answer: Answer) -> str | None:
    """Return why a task can never be dispatched, or None when it was, or may be later."""
    match answer:
        case Rejected(code=code):
            return f"dispatch_rejected:{code}" if code else "dispatch_rejected"
        case Failed(code=code) if code != "internal_error":
            return f"dispatch_error:{code}" if code else "dispatch_error"
        case Accepted() | Busy() | Failed():
            return None


def payload_hash(parts: Mapping[str, Any]) -> str:
    """Return what tells the payload of a task from others."""
    text = json.dumps(parts, sort_keys=True, separators=(",", ":"), default=str, ensure_ascii=False)
    return hashlib.sha256(text.encode()).hexdigest()


def packed(inherited: Iterable[Sequence[UUID]], *own: UUID) -> list[UUID]:
    """Return the cards of a context box: what is inherited, in order and without repeats, then the task's own."""
    return list(dict.fromkeys([card for box in inherited for card in box] + list(own)))
