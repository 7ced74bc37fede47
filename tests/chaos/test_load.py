"""R3: what a run is given to do, and how often a fault meets it, reckoned before it is run."""

import random

import pytest

from chaos import __main__ as program
from chaos import acts, plan
from chaos.checker.cases import STEADY

# Starts for each second that handlers ask for, beyond the first of a task; and tasks a minute (docs/reliability.md).
RATE = 0.90
TASKS_A_MINUTE = 9000
HOGS = 4  # of each fault that takes connections, for this long in the middle
HOG_SECONDS = 0.9


def asked(acts_drawn: int) -> list[float]:
    """How long the tasks are to take that are drawn, of those whose starts are counted."""
    usual = program._read([])
    dice, found = random.Random(7), list[float]()
    for _ in range(acts_drawn):
        act, arguments = acts.draw(dice, recent=["t"], windows=0, load=usual.load, lease=usual.lease)
        more = arguments.get("more", {})
        if arguments.get("name", "job") in STEADY and act in ("jobs", "one", "bare", "within", "owed"):
            found += [float(more.get("hold", 0.0))] * arguments.get("count", 1)
    return found


@pytest.mark.contract("R3")
def test_the_load_is_so_short_that_starts_per_task_stay_below_their_bar_by_more_than_luck() -> None:
    found = asked(20_000)
    hogs = plan.RATES["hog"] * HOGS / TASKS_A_MINUTE
    mean = (sum(found) / len(found) + hogs * HOG_SECONDS) / (1 + hogs)

    assert 1.025 < 1 + RATE * mean < 1.04
