"""A worker whose database a later release has taken over stops, and hands back what it runs (K15)."""

import asyncio

import pytest

from ferryman import Ferryman
from ferryman.app.fit import Fit
from ferryman.kernel import errors, watchdog
from ferryman.kernel.pool import Database, Line
from tests.patience import PATIENCE_SECONDS

TAKEN_OVER = "insert into ferryman.migrations (version, name, hash, oldest_code) values (9999, '9999_new', 'x', $1)"


async def take_over(db: Database, *, oldest_code: int) -> None:
    async with db.session() as tx:
        await tx.fetch(TAKEN_OVER, oldest_code)


@pytest.mark.contract("K15", "K17")
async def test_a_worker_that_is_too_old_for_its_database_stops_and_says_so(database_url: str, db: Database) -> None:
    async with Ferryman(database_url) as app:
        await take_over(db, oldest_code=9999)

        with pytest.raises(errors.DatabaseTooNew, match="9999_new"):
            await asyncio.wait_for(app.work(), PATIENCE_SECONDS)


@pytest.mark.contract("K15")
@pytest.mark.parametrize(("oldest_code", "stops"), [(1, False), (9999, True)])
async def test_it_is_asked_again_while_the_worker_runs(
    database_url: str, db: Database, oldest_code: int, stops: bool
) -> None:
    line, stop = Line(database_url), asyncio.Event()
    rule = Fit(stop).rule()

    await watchdog.tick(line, [rule])
    before = stop.is_set()
    await take_over(db, oldest_code=oldest_code)
    await watchdog.tick(line, [rule])
    await line.close()

    assert (before, stop.is_set()) == (False, stops)
