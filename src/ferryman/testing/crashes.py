"""Deaths of a worker at drawn places of the handlers that run in it, for tests of handlers (R9).

A handler passes a place when it begins, before and after each of its durable calls is written (steps, sleeps and waits, the
birth of children), when it parks, when it returns, and when its outcome is stored; a run of ingestion when a page is asked for,
has come, and is written, and when its end is stored. A seed says at which place each life of the worker ends: the first at the
place of the seed's own number, so that a row of seeds passes all places one after the other; later lives by dice, and not all
of them die. The same seed draws the same numbers, and they are the same places because one task runs after another
(testing/trial.py). A death is a real SIGKILL to a forked process.
"""

from __future__ import annotations

import os
import random
import signal
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

from ferryman.kernel import faults

# In the order in which a handler without durable calls passes them.
PLACES = (
    "handler.started", "step.before", "step.committed", "wait.before", "wait.committed", "birth.inside", "birth.committed",
    "park.committed", "handler.returned", "settle.committed",
    "ingest.begun", "ingest.fetched", "ingest.committed", "ingest.ended",
)  # fmt: skip
REACH = 8


@dataclass(frozen=True)
class Crashes:
    """What one seed draws: at which place it comes to, counted from 1, each life ends; 0 means that it lives."""

    seed: int
    most: int = 3

    def lives(self) -> list[int]:
        """Return the places; the last life always lives."""
        dice = random.Random(self.seed)
        found = [max(1, self.seed)]
        while len(found) < self.most and dice.random() < 0.5:
            found.append(dice.randint(1, REACH))
        return [*found, 0]


def arm(place: int, last_words: Callable[[str], object] = lambda _: None) -> None:
    """Let this process die at the given place, whose name it says before; 0: nowhere."""
    passed = 0

    def count(name: str) -> None:
        nonlocal passed
        passed += 1
        if passed == place:
            last_words(name)
            os.kill(os.getpid(), signal.SIGKILL)

    faults.arm({name: partial(count, name) for name in PLACES} if place else "")
