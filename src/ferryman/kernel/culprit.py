"""What in a value cannot be stored, and where (K13).

The exact and slow half of `payload`: it walks a value node by node, on a stack of its own, so that
no nesting can exhaust Python's, and names the path of what it refuses.
"""

import json
import math
import re
from collections.abc import Callable, Iterator
from dataclasses import fields, is_dataclass
from datetime import date, time
from enum import Enum
from typing import Any, Final, NamedTuple
from uuid import UUID

from ferryman.kernel import errors

DEPTH: Final = 128
BIGGEST: Final = 2**63 - 1
SMALLEST: Final = -(2**63)
_PLAIN_KEY = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")

Refusal = type[errors.FerrymanError]


class Unfit(str):
    """Stands for a number in raw text that cannot be stored, and says why."""

    __slots__ = ()


def plain(value: Any) -> Any:
    """Return the JSON form of a pydantic model, found by its method: no import of pydantic."""
    dump = getattr(type(value), "model_dump", None)
    if dump is None:
        raise TypeError
    return dump(value, mode="json")


class _Node(NamedTuple):
    value: Any
    depth: int
    step: str
    parent: "_Node | None"

    def path(self) -> str:
        steps = []
        node: _Node | None = self
        while node is not None:
            steps.append(node.step)
            node = node.parent
        # A lone surrogate in a key must not break whoever prints the path.
        return "".join(reversed(steps)).encode(errors="backslashreplace").decode()

    def repeats(self) -> bool:
        node = self.parent
        while node is not None:
            if node.value is self.value:
                return True
            node = node.parent
        return False


def seek(value: Any, error: Refusal) -> None:
    """Refuse the first node found that cannot be stored; return if there is none."""
    stack = [_Node(value, 1, "$", None)]
    while stack:
        node = stack.pop()
        inside = _children(node, error)
        if inside is None:
            continue
        if node.depth > DEPTH:
            circular = any(above.repeats() for above in _upward(node))
            what = "contains itself" if circular else f"is nested deeper than {DEPTH} levels"
            raise error(f"The value {what}.", path="$" if circular else node.path())
        stack.extend(inside)


def _upward(node: _Node) -> Iterator[_Node]:
    at: _Node | None = node
    while at is not None:
        yield at
        at = at.parent


def _children(node: _Node, error: Refusal) -> list[_Node] | None:
    """Return what a container holds, None for a leaf that can be stored."""
    value = node.value
    fault = _FAULTS.get(type(value))
    if fault is None:
        if isinstance(value, dict):
            return [_Node(item, node.depth + 1, _step(key, node, error), node) for key, item in value.items()]
        if isinstance(value, list) or type(value) is tuple:
            return [_Node(item, node.depth + 1, f"[{i}]", node) for i, item in enumerate(value)]
        if isinstance(value, Enum):
            return [node._replace(value=value.value)]
        if is_dataclass(value) and not isinstance(value, type):
            return [node._replace(value=attributes(value))]
        if hasattr(type(value), "model_dump"):
            return [node._replace(value=_dumped(node, error))]
    reason = (fault or _other_fault)(value)
    if reason is not None:
        raise error(f"{reason} at {node.path()}.", path=node.path())
    return None


def attributes(value: Any) -> dict[str, Any]:
    """Return what orjson writes of a dataclass."""
    held = getattr(value, "__dict__", None)
    if held is None:
        held = {field.name: getattr(value, field.name) for field in fields(value)}
    return {name: item for name, item in held.items() if not name.startswith("_")}


def _dumped(node: _Node, error: Refusal) -> Any:
    name = type(node.value).__name__
    try:
        dumped = plain(node.value)
    except Exception as cause:  # whatever a model's own code raises
        message = f"The model {name} at {node.path()} cannot be dumped: {cause}."
        raise error(message, path=node.path()) from cause
    if hasattr(type(dumped), "model_dump"):
        raise error(f"The model {name} at {node.path()} dumps to another model.", path=node.path())
    return dumped


def _step(key: Any, node: _Node, error: Refusal) -> str:
    if type(key) is not str:
        kind = type(key).__name__
        raise error(f"A key of type {kind} at {node.path()}; keys are text.", path=node.path())
    reason = _text_fault(key)
    if reason is not None:
        raise error(f"{reason} in a key at {node.path()}.", path=node.path())
    return f".{key}" if _PLAIN_KEY.fullmatch(key) else f"[{json.dumps(key, ensure_ascii=False)}]"


def _text_fault(value: str) -> str | None:
    if "\0" in value:
        return "A NUL character"
    try:
        value.encode()
    except UnicodeEncodeError:
        return "Half of a surrogate pair"
    return None


def _int_fault(value: int) -> str | None:
    return None if SMALLEST <= value <= BIGGEST else "An integer beyond 64 bits"


def _float_fault(value: float) -> str | None:
    return None if math.isfinite(value) else f"The number {value}, unknown to JSON,"


def _other_fault(value: Any) -> str | None:
    if value is None or isinstance(value, bool | UUID | date | time):
        return None
    if isinstance(value, Unfit):
        return str(value)
    if isinstance(value, str):
        return _text_fault(value)
    if isinstance(value, int):
        return _int_fault(value)
    return f"A {type(value).__name__}, which has no JSON form,"


_FAULTS: Final[dict[type, Callable[[Any], str | None]]] = {
    str: _text_fault,
    int: _int_fault,
    float: _float_fault,
}
