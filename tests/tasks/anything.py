"""Handlers that return or raise anything; at the top of a module, so that a child process finds them too."""

import asyncio
import math
from collections.abc import Callable
from typing import Any

from ferryman import DoNotRetry


class Mute(Exception):
    def __str__(self) -> str:
        raise RuntimeError("no words")


class Deaf(BaseException):
    def __str__(self) -> str:
        raise RuntimeError("no words")


class Evil(Exception):
    def __str__(self) -> str:
        raise SystemExit(3)


class NotMade(DoNotRetry):
    def __init__(self, card: str) -> None:
        self.card = card


class Another(DoNotRetry):
    def __init__(self) -> None:
        super().__init__()
        self.reason = [8]  # type: ignore[assignment]


class NoReason(DoNotRetry):
    def __init__(self) -> None: ...

    def __getattribute__(self, name: str) -> Any:
        if name == "reason":
            raise RuntimeError("no reason")
        return super().__getattribute__(name)


def circular() -> Any:
    value: list[Any] = []
    value.append(value)
    return value


def throw(error: BaseException) -> Any:
    raise error


ANYTHING: dict[str, tuple[Callable[[], Any], str]] = {
    "a set": (lambda: {1, 2}, "TASK_INVALID_RESULT"),
    "nan": (lambda: math.nan, "TASK_INVALID_RESULT"),
    "nul": (lambda: "a\0b", "TASK_INVALID_RESULT"),
    "a lone surrogate": (lambda: "\ud800", "TASK_INVALID_RESULT"),
    "65 bits": (lambda: 2**64, "TASK_INVALID_RESULT"),
    "itself": (circular, "TASK_INVALID_RESULT"),
    "100 MB": (lambda: "x" * 100_000_000, "TASK_INVALID_RESULT"),
    "an object": (object, "TASK_INVALID_RESULT"),
    "a generator": (lambda: (n for n in range(3)), "TASK_INVALID_RESULT"),
    "SystemExit": (lambda: throw(SystemExit(3)), "TASK_RETRY_EXHAUSTED"),
    "KeyboardInterrupt": (lambda: throw(KeyboardInterrupt()), "TASK_RETRY_EXHAUSTED"),
    "GeneratorExit": (lambda: throw(GeneratorExit()), "TASK_RETRY_EXHAUSTED"),
    "StopIteration": (lambda: throw(StopIteration(1)), "TASK_RETRY_EXHAUSTED"),
    "an exception without words": (lambda: throw(Mute()), "TASK_RETRY_EXHAUSTED"),
    "a base exception without words": (lambda: throw(Deaf()), "TASK_RETRY_EXHAUSTED"),
    "a nul in the message": (lambda: throw(ValueError("a\0b")), "TASK_RETRY_EXHAUSTED"),
    "a surrogate in the message": (lambda: throw(ValueError("\ud800")), "TASK_RETRY_EXHAUSTED"),
    "10 MB of message": (lambda: throw(ValueError("x" * 10_000_000)), "TASK_RETRY_EXHAUSTED"),
    "a group": (lambda: throw(ExceptionGroup("g", [ValueError("x")])), "TASK_RETRY_EXHAUSTED"),
    "recursion": (lambda: throw(RecursionError()), "TASK_RETRY_EXHAUSTED"),
    "memory": (lambda: throw(MemoryError()), "TASK_RETRY_EXHAUSTED"),
    "cancelled": (lambda: throw(asyncio.CancelledError()), "TASK_RETRY_EXHAUSTED"),
    "timeout": (lambda: throw(TimeoutError()), "TASK_RETRY_EXHAUSTED"),
    "an evil exit": (lambda: throw(Evil()), "TASK_RETRY_EXHAUSTED"),
    "do not retry: an exception": (lambda: throw(DoNotRetry(ValueError("no"))), "TASK_EXECUTION_FAILED"),
    "do not retry: a dict": (lambda: throw(DoNotRetry({"no": 1})), "TASK_EXECUTION_FAILED"),
    "do not retry: nothing": (lambda: throw(DoNotRetry(None)), "TASK_EXECUTION_FAILED"),
    "do not retry: a number": (lambda: throw(DoNotRetry(7)), "TASK_EXECUTION_FAILED"),
    "do not retry: mute": (lambda: throw(DoNotRetry(Mute())), "TASK_EXECUTION_FAILED"),
    "do not retry: not made": (lambda: throw(NotMade("card")), "TASK_EXECUTION_FAILED"),
    "do not retry: another reason": (lambda: throw(Another()), "TASK_EXECUTION_FAILED"),
    "do not retry: no reason": (lambda: throw(NoReason()), "TASK_EXECUTION_FAILED"),
}


async def in_loop(what: str) -> Any:
    return ANYTHING[what][0]()


def elsewhere(what: str) -> Any:
    return ANYTHING[what][0]()
