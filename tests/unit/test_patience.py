"""One loop for all who wait for a database that is away: how long they do, and what they are told (K24)."""

import asyncio
from datetime import timedelta

import pytest

from ferryman.kernel import errors, outage
from ferryman.kernel.patience import outlast
from tests.patience import PATIENCE_SECONDS

pytestmark = pytest.mark.contract("K24")


class Away:
    """A database that is away for so many tries."""

    def __init__(self, tries: int, error: errors.FerrymanError | None = None) -> None:
        self.tries = tries
        self.asked = 0
        self.error = error or errors.DatabaseUnavailable("away")

    async def __call__(self) -> str:
        self.asked += 1
        if self.asked <= self.tries:
            raise self.error
        return "there"


@pytest.mark.parametrize("unless", [None, asyncio.Event()])
async def test_it_is_tried_until_the_database_is_there_and_each_failure_is_told(unless: asyncio.Event | None) -> None:
    away, heard = Away(2), list[int]()

    assert await outlast(away, unless=unless, told=lambda failures, _error: heard.append(failures)) == "there"
    assert (away.asked, heard) == (3, [1, 2])


async def test_whose_patience_is_over_is_told_the_last_failure() -> None:
    away = Away(3)

    with pytest.raises(errors.DatabaseUnavailable):
        await outlast(away, within=timedelta(seconds=-1))
    assert away.asked == 1


async def test_who_is_told_to_stop_tries_no_more() -> None:
    away, stop = Away(3), asyncio.Event()
    stop.set()

    with pytest.raises(errors.DatabaseUnavailable):
        await outlast(away, unless=stop)
    assert away.asked == 1


async def test_another_failure_is_not_waited_for() -> None:
    async def refuse() -> None:
        raise errors.StatementRefused("no")

    with pytest.raises(errors.StatementRefused):
        await asyncio.wait_for(outlast(refuse), PATIENCE_SECONDS)


@pytest.mark.parametrize(
    "error",
    [
        errors.DatabaseRefused("a new password", login=True),
        errors.DatabaseRefused("read-only"),
        errors.DatabaseNotMigrated(),
    ],
)
async def test_what_has_run_is_kept_while_the_database_lets_nobody_in_and_who_opens_an_app_is_told(
    error: errors.FerrymanError,
) -> None:
    away = Away(1, error)

    with pytest.raises(type(error)):
        await outlast(away)
    assert await outlast(Away(1, error), over=outage.passes) == "there"
