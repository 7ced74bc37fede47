"""What users' functions return, read with care: whatever it is, it is a plan, a result, or a clear refusal (C2, C4, C5)."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from ferryman.commands.model import Asked, Fact, Message, Plan, Result
from ferryman.commands.rules import request, types
from ferryman.kernel import errors

MESSAGES_MAX = 1000
_MESSAGE = frozenset({
    "type", "input", "outside", "delay", "deadline", "timeout", "max_retries", "queue", "priority",
})  # fmt: skip

# Gives a message the options that its capability declares, and checks those it names itself.
Complete = Callable[[Message, str], Asked]


def read(answer: Any, *, told: str, complete: Complete) -> Plan:
    """Return the plan that a mapping's answer stands for; `told` names the mapping in a refusal."""
    parts = answer if isinstance(answer, list | tuple) else () if answer is None else (answer,)
    facts: list[Fact] = []
    messages: list[Asked] = []
    for place, part in enumerate(parts):
        where = f"{told} returned, at place {place + 1},"
        if isinstance(part, Fact):
            facts.append(_fact(part, where))
        else:
            messages.append(_message(part, where, complete))
    if len(messages) > MESSAGES_MAX:
        raise errors.CommandInvalidMapping(f"{told} returned {len(messages)} messages; {MESSAGES_MAX} are allowed.")
    return Plan(facts, messages)


def _fact(fact: Fact, where: str) -> Fact:
    try:
        request.check_type(fact.type, "type")
    except errors.CommandInvalidRequest as error:
        raise errors.CommandInvalidMapping(f"{where} a fact that cannot be stated: {error.message}") from None
    if not isinstance(fact.payload, Mapping):
        raise errors.CommandInvalidMapping(
            f"{where} a fact whose payload is {type(fact.payload).__name__}, not an object."
        )
    return fact


def _message(part: Any, where: str, complete: Complete) -> Asked:
    if isinstance(part, Mapping):
        unknown = sorted(str(key) for key in part if key not in _MESSAGE)
        if unknown or "type" not in part:
            wrong = f"with the unknown field {unknown[0]}" if unknown else "without a type"
            raise errors.CommandInvalidMapping(f"{where} an object {wrong}; a message has type and input.")
        part = Message(**part)
    if not isinstance(part, Message):
        raise errors.CommandInvalidMapping(
            f"{where} {request.shown(part)}; expected a Message, a Fact, a list of them, or None."
        )
    given: object = part.input
    if not isinstance(given, Mapping) or not all(isinstance(key, str) for key in given):
        raise errors.CommandInvalidMapping(f"{where} a message whose input is {type(given).__name__}, not an object.")
    try:
        task_type = types.normalised(request.check_type(part.type, "type"))
        return complete(part, task_type)
    except (errors.CommandInvalidRequest, errors.TaskInvalidRequest, errors.UnknownQueue) as error:
        raise errors.CommandInvalidMapping(f"{where} a message that cannot be sent: {error.message}") from None


def result(answer: Any, *, task_type: str) -> Result:
    """Return the result that a capability's answer stands for: the source's form, ours, or the plain value."""
    if isinstance(answer, Result):
        return Result(request.check_type(answer.type, "type"), answer.result)
    if isinstance(answer, Mapping) and set(answer) == {"type", "data"} and isinstance(answer["data"], Mapping):
        data = answer["data"]
        return Result(request.check_type(answer["type"], "type"), data.get("result"))
    return Result(types.result_of(task_type), answer)


def as_json(plan: Plan) -> dict[str, Any]:
    """Return a plan as it is carried from the step to its settling."""
    return {
        "facts": [[fact.type, dict(fact.payload)] for fact in plan.facts],
        "messages": [[*each] for each in plan.messages],
        "code": plan.code,
        "reason": plan.reason,
        "session_id": plan.session_id,
        "traceparent": plan.traceparent,
    }


def from_json(told: Mapping[str, Any]) -> Plan:
    """Read a plan back."""
    facts: Sequence[Any] = told["facts"]
    return Plan(
        [Fact(type, payload) for type, payload in facts],
        [Asked(*each) for each in told["messages"]],
        told["code"],
        told["reason"],
        told["session_id"],
        told["traceparent"],
    )
