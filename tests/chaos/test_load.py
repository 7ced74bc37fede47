"""R3: what a run is given to do, and how often a fault meets it, reckoned before it is run."""

import math
import random

import pytest

from chaos import __main__ as program
from chaos import acts, plan, terms
from chaos.checker import cases

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
        if arguments.get("name", "job") in cases.STEADY and act in ("jobs", "one", "bare", "within", "owed"):
            found += [float(more.get("hold", 0.0))] * arguments.get("count", 1)
    return found


@pytest.mark.contract("R3")
def test_the_load_is_so_short_that_starts_per_task_stay_below_their_bar_by_more_than_luck() -> None:
    found = asked(20_000)
    hogs = plan.RATES["hog"] * HOGS / TASKS_A_MINUTE
    mean = (sum(found) / len(found) + hogs * HOG_SECONDS) / (1 + hogs)

    assert 1.025 < 1 + RATE * mean < 1.04


# What the rarest cases came to in five minutes when they were drawn this often (docs/reliability.md).
CAME = {"batch": (8, 7), "window": (10, 12), "grip": (9, 3.0)}


def below(least: int, mean: float) -> float:
    """The chance that something occurs less often than so, if each time is luck."""
    return math.exp(-mean) * sum(mean**n / math.factorial(n) for n in range(least))


@pytest.mark.contract("R3")
@pytest.mark.parametrize("minutes", [2.5, 3.0, 5.0])
def test_that_luck_alone_keeps_a_run_from_its_rarest_cases_is_below_one_in_a_hundred(minutes: float) -> None:
    often = {
        "batch": acts.SHARES["batch"] + acts.SHARES["wreck"] + acts.SHARES["revoke"],
        "window": acts.SHARES["window"],
        "grip": plan.RATES["grip"],
    }
    expected = {case: count * often[case] / then for case, (count, then) in CAME.items()}
    least = next(n for n in (1, 2, 3) if not cases.missing({"x": n}, minutes=minutes, short=False))

    assert sum(below(least, mean * minutes / terms.WHOLE_MINUTES) for mean in expected.values()) < 0.01
