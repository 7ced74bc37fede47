"""Types of messages, and what follows from them (C3, C5).

A capability is known by its task type. The type of the message that asks for it and that of the result which answers both
normalise to it: `Character.Design.GenerationRequested` and `Character.Design.Generated` are about
`Character.Design.Generation`.
"""

from __future__ import annotations

from typing import Final

# The last segment of a type, by what it becomes; in the order in which a result is named after its task.
_DONE: Final = {
    "Generated": "Generation",
    "Evaluated": "Evaluation",
    "Checked": "Check",
    "Analyzed": "Analysis",
    "Validated": "Validation",
    "Revised": "Revision",
}
_BECOMES: Final = _DONE | {f"{noun}Requested": noun for noun in _DONE.values()}
_RESULT: Final = {noun: done for done, noun in _DONE.items()}
_DROPPED: Final = frozenset({"Requested", "Started", "Completed", "Result"})


def normalised(type: str) -> str:
    """Return the task type of a message or a result."""
    head, dot, last = type.rpartition(".")
    if not dot:
        return type
    if last in _DROPPED:
        return head
    return f"{head}.{_BECOMES.get(last, last)}"


def result_of(task_type: str) -> str:
    """Return the type of the result that a capability gives when it does not say; it normalises back to the task type."""
    head, dot, last = task_type.rpartition(".")
    if dot and last in _RESULT:
        return f"{head}.{_RESULT[last]}"
    return f"{task_type}.Completed"


def fact_of(command_type: str) -> str:
    """Return the fact that a command states when its mapping does not say: `Theme.Request` gives `Theme.Requested`."""
    head, dot, last = command_type.rpartition(".")
    if last.endswith("Requested"):
        return command_type
    if last == "Request":
        return f"{head}{dot}Requested"
    return f"{command_type}.Requested"


def scope_of(command_type: str) -> str:
    """Return the scope of a command whose sender names none: its first segment."""
    return command_type.partition(".")[0]
