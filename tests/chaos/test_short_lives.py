"""R3: stretches of a run in which no worker and no watchdog lives long."""

from pathlib import Path

import pytest

from chaos import plan
from chaos.fleet import Slot
from chaos.history import History, read
from chaos.short_lives import LIFE_SECONDS, ShortLives


class Fleet:
    """Two processes; one of them has not begun to work."""

    def __init__(self) -> None:
        self.slots = [Slot("worker-0", "worker", nth=1, pid=7), Slot("dog-0", "dog", nth=1, pid=8)]
        self.killed: list[tuple[str, int]] = []

    def prey(self, *_roles: str) -> list[Slot]:
        return self.slots

    def works(self, slot: Slot) -> bool:
        return slot.pid == 7

    def kill(self, slot: Slot) -> None:
        self.killed.append((slot.name, slot.nth))


@pytest.mark.contract("R3", "K24")
def test_every_life_ends_soon_after_it_has_begun_to_work_until_the_stretch_is_over(tmp_path: Path) -> None:
    fleet = Fleet()
    told = History(tmp_path / "storm.history")
    short = ShortLives(fleet, told)  # type: ignore[arg-type]

    short.step(99.0)  # before the stretch
    short.begin(104.0)
    for at in (100.0, 100.0 + LIFE_SECONDS / 2, 100.0 + LIFE_SECONDS):
        short.step(at)
    first = list(fleet.killed)
    fleet.slots[0].nth = 2
    for at in (101.0, 101.0 + LIFE_SECONDS, 104.0, 104.0 + LIFE_SECONDS):
        short.step(at)
        fleet.slots[0].nth += at > 101.0

    assert first == [("worker-0", 1)]
    assert fleet.killed == [("worker-0", 1), ("worker-0", 2)]
    assert [line["kind"] for line in read(told.path)] == ["kill", "kill"]


@pytest.mark.contract("R3")
def test_a_plan_has_them_only_where_they_are_asked_for() -> None:
    usual = plan.draw(7, 60.0)
    short = plan.draw(7, 60.0, rates=plan.RATES | plan.SHORT_LIVES)

    assert [each for each in short if each.kind != "short"] == usual
    assert sum(each.kind == "short" for each in short) == plan.SHORT_LIVES["short"]
