"""Sets that are sent while the database goes away: one patience for all, and what was answered stays answered."""

from collections.abc import Sequence
from datetime import timedelta

import pytest

from ferryman.app.repeat import apart
from ferryman.kernel import errors

NO_TIME = timedelta(0)


class Sink:
    """Takes sets, refuses those with a bad one, and goes away when it meets the last that it takes."""

    def __init__(self, *, until: int) -> None:
        self.sent: list[Sequence[int]] = []
        self._until = until

    async def take(self, some: Sequence[int]) -> list[str]:
        self.sent.append(some)
        if max(some) > self._until and (len(some) == 1 or -1 not in some):
            raise errors.DatabaseUnavailable("away")
        if -1 in some:
            raise errors.StatementRefused("bad", sqlstate="22P05")
        return [f"made {each}" for each in some]


def kinds(told: list[str | Exception]) -> list[object]:
    return [type(each) if isinstance(each, Exception) else each for each in told]


@pytest.mark.contract("K24")
async def test_a_database_that_is_away_is_waited_for_once_by_all_parts_of_a_set() -> None:
    sink = Sink(until=3)
    told = await apart([[1, 2], [3, 4], [5, 6], [7]], sink.take, NO_TIME)
    assert kinds(told) == ["made 1", "made 2", *[errors.DatabaseUnavailable] * 5]
    assert sink.sent == [[1, 2], [3, 4]]


@pytest.mark.contract("K24", "K25")
async def test_those_who_went_alone_before_the_database_went_away_keep_their_answers() -> None:
    sink = Sink(until=3)
    told = await apart([[1, -1, 2, 4, 5], [6]], sink.take, NO_TIME)
    away = errors.DatabaseUnavailable
    assert kinds(told) == ["made 1", errors.StatementRefused, "made 2", away, away, away]
    assert sink.sent == [[1, -1, 2, 4, 5], [1], [-1], [2], [4]]


@pytest.mark.contract("K24")
async def test_what_is_wrong_with_one_part_is_told_to_that_part_alone() -> None:
    async def take(some: Sequence[int]) -> Sequence[int]:
        if 2 in some:
            raise errors.DatabaseNotMigrated()
        return some

    told = await apart([[1], [2, 3], [4]], take, NO_TIME)
    assert [type(each) for each in told] == [int, errors.DatabaseNotMigrated, errors.DatabaseNotMigrated, int]
