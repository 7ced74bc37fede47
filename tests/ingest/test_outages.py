"""The database goes away in the middle of a page, before or after a commit: the records are there once (K24, I6)."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from datetime import timedelta

import pytest

from ferryman.ingest.work.desk import Desk
from ferryman.kernel import errors, faults, ids
from ferryman.kernel.db import Tx
from ferryman.kernel.pool import Database, Line
from tests.ingest.harbour import DAWN, HOUR, Server, harbour
from tests.patience import PATIENCE_SECONDS

pytestmark = pytest.mark.usefixtures("patient_transactions", "endless_waits")


class Flaky:
    """A pool whose every third transaction commits, and whose answer is lost."""

    def __init__(self, pool: Database | Line) -> None:
        self._pool = pool
        self._count = 0
        self.lost = 0

    def session(self) -> AbstractAsyncContextManager[Tx]:
        assert isinstance(self._pool, Database)
        return self._pool.session()

    async def close(self) -> None:
        await self._pool.close()

    @asynccontextmanager
    async def transaction(self) -> AsyncIterator[Tx]:
        async with self._pool.transaction() as tx:
            yield tx
        self._count += 1
        if self._count % 3 == 1:
            self.lost += 1
            raise errors.DatabaseUnavailable("The connection was lost during the commit.")


@pytest.mark.contract("K24", "I6", "I13")
async def test_a_commit_whose_answer_is_lost_writes_a_page_once(database_url: str) -> None:
    async with harbour(database_url, Server().fill(50)) as here:
        await here.plan(since=DAWN, until=DAWN + HOUR)
        ship = here.ship()
        flaky = ship.runner._desk._pool = Flaky(here.app.database)
        await ship.work()

        assert flaky.lost > 1
        assert len(await here.sunk()) == 50
        assert await here.fetch("select distinct writes from public.cargo") == [(1,)]
        assert len(here.server.asked) == 5
        assert await here.states("task") == ["SUCCEEDED"]
        await here.sound()


@pytest.mark.contract("K24", "I6")
async def test_a_page_whose_commit_never_happened_is_written_again_and_not_fetched(database_url: str) -> None:
    async with harbour(database_url, Server().fill(50)) as here:
        await here.plan(since=DAWN, until=DAWN + HOUR)
        with faults.armed("ingest.written=away@2"):
            await here.ship().work()

        assert len(await here.sunk()) == 50
        assert await here.fetch("select distinct writes from public.cargo") == [(1,)]
        assert len(here.server.asked) == 5
        await here.sound()


@pytest.mark.contract("K24", "I4")
async def test_a_plan_whose_answer_is_lost_is_made_once_and_answered_with(database_url: str) -> None:
    async with harbour(database_url) as here:
        first = await here.plan(since=DAWN, until=DAWN + HOUR)
        flaky = here.app.ingest._moves = Flaky(here.app.ingest._moves)  # type: ignore[assignment]
        planned = await here.plan()  # no window and no firing: a harvest that goes on from its cursor

        assert flaky.lost == 1
        assert planned.made
        assert planned.since == first.until
        assert await here.fetch("select id from ferryman.ingest_plan order by id") == [(first.id,), (planned.id,)]
        await here.sound()


SHOWN = """
    create table public.shown (id integer);
    insert into public.shown values (1);
    create publication everything for table public.shown;
"""


@pytest.mark.contract("K24", "I8")
@pytest.mark.parametrize("whole", [True, False])
async def test_what_a_table_of_the_users_is_in_no_state_for_is_told_and_not_waited_for(
    db: Database, whole: bool
) -> None:
    async with db.session() as tx:
        await tx.execute(SHOWN)
    desk = Desk(db, owner=ids.new_id(), strikes=3, pause=timedelta(seconds=1))

    async with asyncio.timeout(PATIENCE_SECONDS):
        with pytest.raises(errors.StatementRefused, match="replica identity"):
            await desk.write(lambda tx: tx.fetch("update public.shown set id = 2"), whole=whole)
