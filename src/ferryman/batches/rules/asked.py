"""What may be asked for (B1): every field is read, and what is wrong is named."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from datetime import timedelta
from typing import Any
from uuid import UUID

from ferryman.agents.rules import is_token
from ferryman.batches.model import Asked, Fork, Terms
from ferryman.kernel import errors

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


def read_id(given: Any) -> UUID:
    """Read the id that a caller wants for its batch."""
    try:
        return given if isinstance(given, UUID) else UUID(given)
    except (ValueError, AttributeError, TypeError):
        raise refusal("id", f"expected a UUID, got {_shown(given)}.") from None


def check_channel(given: Any) -> None:
    """Refuse a channel that the turns of a batch could not be sent over."""
    if not is_token(given):
        raise refusal("channel", f"expected one token of letters, digits, _ : -, got {_shown(given)}.")


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
        told = f"expected at most {LONGEST_DEADLINE.total_seconds():.0f}, got {_shown(given)}."
        raise refusal("deadline_seconds", told)
    # Less than PostgreSQL tells apart is no time at all.
    return max(timedelta(seconds=given), timedelta.resolution)


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
