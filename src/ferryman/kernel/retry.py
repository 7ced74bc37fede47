"""How long to wait before the next try (K18, T5).

One value, `Backoff`, says it for every use: fixed, exponential with a cap, or a list of delays.
The named delays are the least; jitter only adds, up to its share, so that many failures at one
moment do not come back at one moment. How many tries there are belongs to each use, not here.
"""

import asyncio
import inspect
import math
import random as chance
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, Self, TypeAlias

from ferryman.kernel import errors

LONGEST = timedelta(days=365)
MOST_DELAYS = 1000

Spelling: TypeAlias = "Backoff | timedelta | float | Sequence[float] | Mapping[str, Any] | None"


@dataclass(frozen=True, slots=True)
class Backoff:
    """Delays that grow from `base` by `factor` up to `cap`, or follow the list `delays`."""

    base: timedelta = timedelta(seconds=1)
    factor: float = 2.0
    cap: timedelta = timedelta(seconds=60)
    jitter: float = 0.1
    delays: tuple[timedelta, ...] = ()

    def __post_init__(self) -> None:
        _between("jitter", self.jitter, 0, 1)
        _between("factor", self.factor, 1, 1000)
        for name, wait in (("base", self.base), ("cap", self.cap)):
            _between(name, wait.total_seconds(), 0, LONGEST.total_seconds())
        for index, wait in enumerate(self.delays):
            _between(f"delays[{index}]", wait.total_seconds(), 0, LONGEST.total_seconds())
        if self.cap < self.base:
            raise _refusal("cap", f"at least the base, {self.base}", self.cap)

    @classmethod
    def fixed(cls, wait: timedelta, *, jitter: float = 0.1) -> Self:
        """Return a backoff that always waits the same."""
        return cls(base=wait, factor=1.0, cap=wait, jitter=jitter)

    @classmethod
    def listed(cls, delays: Sequence[timedelta], *, jitter: float = 0.1) -> Self:
        """Return a backoff that follows the list and then stays at its last delay."""
        if not delays or len(delays) > MOST_DELAYS:
            raise _refusal("delays", f"1 to {MOST_DELAYS} delays", f"{len(delays)} of them")
        return cls(base=min(delays), factor=1.0, cap=max(delays), jitter=jitter, delays=tuple(delays))

    @classmethod
    def parse(cls, value: Spelling) -> "Backoff":
        """Read what `as_json` wrote, or a caller's short form.

        None is the default; a number of seconds or a timedelta is fixed; a list is a list.
        """
        match value:
            case None:
                return DEFAULT
            case Backoff():
                return value
            case timedelta():
                return cls.fixed(value)
            case Mapping():
                return cls._from_mapping(value)
            case int() | float() if not isinstance(value, bool):
                return cls.fixed(_seconds("backoff", value))
            case Sequence() if not isinstance(value, str | bytes):
                return cls.listed([_seconds(f"delays[{i}]", s) for i, s in enumerate(value)])
        raise _refusal("backoff", "seconds, a list of seconds or an object", repr(value))

    @classmethod
    def _from_mapping(cls, value: Mapping[str, Any]) -> "Backoff":
        rest = dict(value)
        kind = rest.pop("kind", "exponential")
        jitter = _number("jitter", rest.pop("jitter", DEFAULT.jitter))
        match kind:
            case "fixed":
                made = cls.fixed(_seconds("base", rest.pop("base_seconds", 1)), jitter=jitter)
            case "exponential":
                base = _seconds("base", rest.pop("base_seconds", 1))
                cap = _seconds("cap", rest.pop("cap_seconds", max(60, base.total_seconds())))
                factor = _number("factor", rest.pop("factor", DEFAULT.factor))
                made = cls(base=base, factor=factor, cap=cap, jitter=jitter)
            case "list":
                given = rest.pop("delays_seconds", [])
                if not isinstance(given, Sequence) or isinstance(given, str | bytes):
                    raise _refusal("delays", "a list of seconds", repr(given))
                waits = [_seconds(f"delays[{i}]", s) for i, s in enumerate(given)]
                made = cls.listed(waits, jitter=jitter)
            case _:
                raise _refusal("kind", "fixed, exponential or list", repr(kind))
        if rest:
            raise _refusal(str(next(iter(rest))), f"no such field in a backoff of kind {kind}", "one")
        return made

    def as_json(self) -> dict[str, Any]:
        """Return what is stored with a task; `parse` reads it back."""
        if self.delays:
            waits = [wait.total_seconds() for wait in self.delays]
            return {"kind": "list", "delays_seconds": waits, "jitter": self.jitter}
        base = self.base.total_seconds()
        if self.factor == 1:
            return {"kind": "fixed", "base_seconds": base, "jitter": self.jitter}
        return {
            "kind": "exponential",
            "base_seconds": base,
            "factor": self.factor,
            "cap_seconds": self.cap.total_seconds(),
            "jitter": self.jitter,
        }

    def delay(self, attempt: int, *, random: Callable[[], float] = chance.random) -> timedelta:
        """Return how long to wait after this attempt failed; the first attempt is 1."""
        if attempt < 1:
            raise ValueError(f"attempt begins at 1, got {attempt}")
        return self._least(attempt) * (1 + self.jitter * random())

    def _least(self, attempt: int) -> timedelta:
        if self.delays:
            return self.delays[min(attempt, len(self.delays)) - 1]
        if not self.base or self.factor == 1:
            return self.base
        # By logarithm first: the power itself overflows long before a task runs out of tries.
        steps = math.log(self.cap / self.base) / math.log(self.factor)
        if attempt - 1 >= steps:
            return self.cap
        return min(self.cap, self.base * self.factor ** (attempt - 1))


def _number(field: str, value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        raise _refusal(field, "a number", repr(value))
    return value


def _seconds(field: str, value: Any) -> timedelta:
    seconds = _number(field, value)
    _between(field, seconds, 0, LONGEST.total_seconds())
    return timedelta(seconds=seconds)


def _between(field: str, value: float, least: float, most: float) -> None:
    if not least <= value <= most:
        raise _refusal(field, f"between {least:g} and {most:g}", value)


def _refusal(field: str, expected: str, got: object) -> errors.TaskInvalidRequest:
    name = field if field == "backoff" else f"backoff.{field}"
    return errors.TaskInvalidRequest(f"{name}: expected {expected}, got {got}.", field=name)


DEFAULT = Backoff()


async def tried(
    function: Callable[..., Any],
    args: Sequence[Any],
    *,
    retries: int,
    backoff: Backoff,
    final: tuple[type[BaseException], ...],
) -> Any:
    """Call a function, coroutine or not, until it succeeds; the last failure is raised, and a final one at once."""
    failures = 0
    while True:
        try:
            value = function(*args)
            return await value if inspect.isawaitable(value) else value
        except final:
            raise
        except Exception:
            failures += 1
            if failures > retries:
                raise
        await asyncio.sleep(backoff.delay(failures).total_seconds())
