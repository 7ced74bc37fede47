"""What has come due lately (P13): looks at everything take a share of the time, and nothing is missed."""

from datetime import timedelta
from typing import Any, cast

import pytest

from ferryman.kernel.db import Row, Tx
from ferryman.kernel.looks import LAST, REST_SECONDS_MAX
from ferryman.kernel.watchdog.recent import SLACK_SECONDS, Recent

pytestmark = pytest.mark.contract("P13", "W13")
NOWHERE = cast(Tx, None)


class World:
    """Looks that take as long as they are told, and what they were asked for."""

    def __init__(self) -> None:
        self.now = 1000.0
        self.takes = 0.0
        self.found: list[Any] = []
        self.asked: list[float | None] = []
        self.breaks = False
        self.recent = Recent(self.find, clock=lambda: self.now)

    async def find(self, _tx: Tx, _limit: int, within: timedelta | None) -> list[Row]:
        self.asked.append(None if within is None else within.total_seconds())
        self.now += self.takes
        if self.breaks:
            raise TimeoutError
        return self.found

    async def look(self, after: float = 1.0) -> float | None:
        self.now += after
        await self.recent(NOWHERE, 10)
        return self.asked[-1]

    async def looks(self, takes: float) -> None:
        """Look at everything, as often as it takes to be believed, and from then on in no time."""
        self.takes = takes
        for _ in range(LAST):
            assert await self.look() is None
        self.takes = 0.0


async def test_where_looks_are_quick_each_sees_everything() -> None:
    world = World()
    world.takes = 0.03

    assert [await world.look(after=0.001) for _ in range(3)] == [None, None, None]


@pytest.mark.parametrize(("takes", "at_least"), [(0.2, 8.0), (20.0, REST_SECONDS_MAX)])
async def test_looks_at_everything_take_a_share_of_the_time(takes: float, at_least: float) -> None:
    world = World()
    await world.looks(takes)

    assert await world.look(at_least * 0.9) is not None
    assert await world.look(at_least * 0.2) is None


async def test_a_look_between_reaches_back_to_the_last_that_found_nothing() -> None:
    world = World()
    await world.looks(5.0)

    assert await world.look(2.0) == 7.0 + SLACK_SECONDS
    world.found = ["a task that somebody else holds"]
    assert await world.look(3.0) == 3.0 + SLACK_SECONDS
    assert await world.look(4.0) == 7.0 + SLACK_SECONDS
    world.found = []
    assert await world.look(1.0) == 8.0 + SLACK_SECONDS
    assert await world.look(1.0) == 1.0 + SLACK_SECONDS


async def test_a_look_at_everything_that_was_broken_off_is_not_begun_again_at_once() -> None:
    world = World()
    world.takes, world.breaks = 10.0, True
    for _ in range(LAST):
        with pytest.raises(TimeoutError):
            await world.look()
    world.takes, world.breaks = 0.0, False

    # They have seen nothing: the next reaches back to before them.
    assert await world.look() == LAST * 11.0 + 1.0 + SLACK_SECONDS


async def test_a_single_look_that_takes_long_puts_off_none() -> None:
    world = World()
    for takes in (0.01, 30.0, 0.01, 30.0):
        world.takes = takes
        assert await world.look() is None
