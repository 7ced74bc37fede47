"""Named points where a test may make the world break.

A fault point costs one look at a global and does nothing until a plan arms it. The plan comes from the environment
(for a real process that is to die) or from `armed(...)` in a test:

    FERRYMAN_FAULTS="settle.committed=kill@3;handler.started=stop%0.1?seed=7"

An item is `point=action`, then when: `@3` at the third hit only, `@3+` from the third on, `%0.1` at one hit in ten,
chosen by the seed; without either, at every hit. Actions: `kill` and `stop` (SIGKILL and SIGSTOP to this process),
`exit` (leave at once with code 70), `raise` (FaultInjected), `away` (as if the database had gone), `delay:0.5`
(seconds). A test may also arm a point with a function of its own, or with a `Gate` that holds whoever comes until the
test lets it go on.

Every fault is written to the file FERRYMAN_FAULTS_LOG before it strikes: a test that killed nobody proves nothing.
"""

from __future__ import annotations

import asyncio
import inspect
import itertools
import os
import random
import re
import signal
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from ferryman.kernel import errors, telemetry

REGISTRY: Mapping[str, str] = {
    "create.before": "A create is about to be sent.",
    "create.committed": "A create has committed; its caller does not know yet.",
    "claim.sent": "A turn is about to go out: nothing of it has reached the database.",
    "claim.committed": "A turn has committed; the worker does not know yet what it settled and claimed.",
    "handler.started": "A handler is about to be called for claimed work.",
    "handler.returned": "A handler has returned; its outcome is known to this process alone.",
    "settle.before": "Outcomes are about to be settled: nothing of them has reached the database.",
    "settle.inside": "Outcomes and what they owe are written in an open transaction that has not committed.",
    "settle.committed": "Outcomes have committed; no doorbell has rung for them.",
    "step.before": "Steps of handlers are about to be written: nothing of them has reached the database.",
    "step.committed": "Steps of handlers have committed; their handlers do not know yet.",
    "wait.before": "Sleeps and waits of handlers are about to be written: nothing of them has reached the database.",
    "wait.committed": "Sleeps and waits of handlers have committed; their handlers do not know yet.",
    "birth.inside": "Children of tasks are written in an open transaction that has not committed.",
    "birth.committed": "Children of tasks are born; no doorbell has rung for them, and their parents do not know yet.",
    "park.committed": "Tasks have parked; no doorbell has rung for them.",
    "renew.before": "Leases are about to be renewed.",
    "drain.begun": "A worker was told to stop and has stopped claiming.",
    "fire.held": "A worker holds schedules that are due and has fired nothing.",
    "fire.written": "Schedules have fired in an open transaction that has not committed.",
    "fire.committed": "Schedules have fired; no doorbell has rung for their tasks.",
    "batch.dispatched": "Tasks of batches were asked for as turns in an open transaction that has not committed.",
    "batch.sent": "Tasks of batches were dispatched; no doorbell has rung for their turns.",
    "batch.closed": "A batch was closed and its parent told in an open transaction that has not committed.",
    "relay.read": "A relay has read events of the log and has told nobody.",
    "relay.published": "Events are published and acknowledged; the relay's place has not moved.",
    "relay.spread": "Deliveries are written in an open transaction, with the place of their reader.",
    "webhook.called": "A receiver has answered a webhook; its answer is known to this process alone.",
    "command.sent": "Commands are received in an open transaction that has not committed.",
    "command.committed": "Commands are received; their sender does not know yet.",
    "command.processed": "Steps of commands and their async tasks are written in an open transaction; their tasks are not yet.",
    "async_task.settled": "Ends of async tasks are written in an open transaction; what follows them is not yet.",
    "ingest.planned": "A plan, its slices and its tasks are written in an open transaction that has not committed.",
    "ingest.claimed": "Tasks of ingestion are claimed; their executor does not know yet.",
    "ingest.begun": "A batch is there, running; its request has not gone out.",
    "ingest.fetched": "A page has come; nothing of it is written.",
    "ingest.written": "A page and the end of its batch are written in an open transaction; one statement has no such moment.",
    "ingest.committed": "A batch has succeeded; its executor does not know yet.",
    "ingest.ending": "The end of a run, with coverage and cursor, is written in an open transaction.",
    "ingest.ended": "The end of a run has committed; its executor does not know yet.",
    "watchdog.found": "A watchdog's rule has locked what it found and has done nothing about it.",
    "watchdog.acted": "A watchdog's rule has acted; its transaction has not committed.",
}

EXIT_CODE = 70

# Variables that are not settings.
VARIABLES = (PLAN, LOG) = ("FERRYMAN_FAULTS", "FERRYMAN_FAULTS_LOG")


class FaultInjected(Exception):
    """A test asked for this error here."""


Action = str | Callable[[], Any]

_ITEM = re.compile(
    r"(?P<point>[a-z_.]+)=(?P<action>[a-z]+)(?::(?P<argument>[0-9.]+))?"
    r"(?:@(?P<hit>[0-9]+)(?P<onward>\+)?|%(?P<chance>[0-9.]+))?(?:\?seed=(?P<seed>[0-9]+))?"
)


@dataclass
class _Armed:
    """One fault that waits at one point."""

    point: str
    name: str
    act: Callable[[], Any]
    hit: int | None = None
    onward: bool = False
    chance: float | None = None
    dice: random.Random = field(default_factory=random.Random)
    hits: Iterator[int] = field(default_factory=lambda: itertools.count(1))

    def strikes(self) -> int | None:
        """Count this hit; return its number if the fault strikes now."""
        number = next(self.hits)
        if self.hit is not None:
            return number if number == self.hit or (self.onward and number > self.hit) else None
        if self.chance is not None:
            return number if self.dice.random() < self.chance else None
        return number


_plan: dict[str, list[_Armed]] | None = None
_log: str | None = None


def point(name: str) -> None:
    """Pass a fault point."""
    if _plan is not None:
        for fault in _struck(name):
            if fault.name == "delay":
                time.sleep(fault.act())
            elif inspect.iscoroutine(answer := fault.act()):
                answer.close()
                raise TypeError(f"The fault armed at {name} waits, and this point cannot.")


async def apoint(name: str) -> None:
    """Pass a fault point where a delay must not hold up the whole loop."""
    if _plan is not None:
        for fault in _struck(name):
            answer = fault.act()
            if fault.name == "delay":
                await asyncio.sleep(answer)
            elif inspect.isawaitable(answer):
                await answer


def _struck(name: str) -> Iterator[_Armed]:
    if name not in REGISTRY:
        raise errors.SettingsInvalid(f"There is no fault point {name!r}.", known=sorted(REGISTRY))
    for fault in (_plan or {}).get(name, ()):
        number = fault.strikes()
        if number is not None:
            _write(f"{name} {fault.name} {number} {os.getpid()}\n")
            if fault.name not in ("kill", "exit"):  # nobody would come to read the count
                telemetry.fault(name, fault.name)
            yield fault


def _write(line: str) -> None:
    if _log is None:
        return
    file = os.open(_log, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
    try:
        os.write(file, line.encode())
    finally:
        os.close(file)


def arm(plan: str | Mapping[str, Action], *, log: str | os.PathLike[str] | None = None) -> None:
    """Put a plan in place of the one before; an empty plan makes all points inert."""
    global _plan, _log
    faults = _read(plan) if isinstance(plan, str) else [_made(name, action) for name, action in plan.items()]
    for fault in faults:
        if fault.point not in REGISTRY:
            raise errors.SettingsInvalid(f"There is no fault point {fault.point!r}.", known=sorted(REGISTRY))
    placed: dict[str, list[_Armed]] = {}
    for fault in faults:
        placed.setdefault(fault.point, []).append(fault)
    _plan, _log = placed or None, None if log is None else os.fspath(log)


@contextmanager
def armed(plan: str | Mapping[str, Action], *, log: str | os.PathLike[str] | None = None) -> Iterator[None]:
    """Arm a plan for a while, then put back what was there."""
    global _plan, _log
    before = _plan, _log
    arm(plan, log=log)
    try:
        yield
    finally:
        _plan, _log = before


def _made(name: str, action: Action) -> _Armed:
    if isinstance(action, str):
        [fault] = _read(f"{name}={action}")
        return fault
    return _Armed(name, "call", action)


def _read(plan: str) -> list[_Armed]:
    return [_item(text.strip()) for text in plan.split(";") if text.strip()]


def _item(text: str) -> _Armed:
    said = _ITEM.fullmatch(text)
    if said is None or said["action"] not in _ACTIONS:
        raise errors.SettingsInvalid(
            f"Cannot read the fault {text!r}: expected point=action, then @3, @3+ or %0.1 if need be.",
            actions=sorted(_ACTIONS),
        )
    return _Armed(
        said["point"],
        said["action"],
        _ACTIONS[said["action"]](said["point"], float(said["argument"] or 0)),
        hit=int(said["hit"]) if said["hit"] else None,
        onward=said["onward"] is not None,
        chance=float(said["chance"]) if said["chance"] else None,
        dice=random.Random(f"{said['seed'] or 0} {text.partition('?')[0]}"),
    )


def _kill(_point: str, _argument: float) -> Callable[[], None]:
    return lambda: os.kill(os.getpid(), signal.SIGKILL)


def _stop(_point: str, _argument: float) -> Callable[[], None]:
    return lambda: os.kill(os.getpid(), signal.SIGSTOP)


def _exit(_point: str, _argument: float) -> Callable[[], None]:
    return lambda: os._exit(EXIT_CODE)


def _raise(point: str, _argument: float) -> Callable[[], None]:
    def act() -> None:
        raise FaultInjected(f"a fault was armed at {point}")

    return act


def _away(point: str, _argument: float) -> Callable[[], None]:
    def act() -> None:
        raise errors.DatabaseUnavailable(f"A fault was armed at {point}: as if the database had gone.")

    return act


def _delay(_point: str, seconds: float) -> Callable[[], float]:
    return lambda: seconds


_ACTIONS: dict[str, Callable[[str, float], Callable[[], Any]]] = {
    "kill": _kill,
    "stop": _stop,
    "exit": _exit,
    "raise": _raise,
    "away": _away,
    "delay": _delay,
}


class Gate:
    """Hold whoever comes to an awaiting point: the test waits for `reached`, looks around, then calls `open`."""

    def __init__(self) -> None:
        self.reached = asyncio.Event()
        self._opened = asyncio.Event()

    async def __call__(self) -> None:
        """Say that somebody has come, and wait."""
        self.reached.set()
        await self._opened.wait()

    def open(self) -> None:
        """Let them go on, and all who come later."""
        self._opened.set()


def _arm_from_environment() -> None:
    plan = os.environ.get(PLAN, "")
    if plan:
        arm(plan, log=os.environ.get(LOG))


_arm_from_environment()
