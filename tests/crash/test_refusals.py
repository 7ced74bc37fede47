"""K24: a database that answers and refuses every write for a while.

A full disk, no memory, a new standby, deadlocks; a disk that fails, a page that cannot be read, a file system that has become
read-only, a transaction that takes too long.
"""

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from datetime import timedelta

import asyncpg
import pytest

from ferryman import Ferryman
from ferryman.app.wiring import opened as opened_app
from ferryman.kernel import errors
from tests.crash import cargo, judge
from tests.patience import PATIENCE_SECONDS

REFUSE = """
create function public.refuse() returns trigger language plpgsql as $$
begin raise exception 'no room' using errcode = '{code}'; end $$;
create trigger refuse before insert or update on ferryman.tasks for each statement execute function public.refuse();
"""
MEND = "drop function public.refuse() cascade"
HANG_UP = """
    select pg_terminate_backend(pid) from pg_stat_activity
    where datname = current_database() and application_name like 'ferryman%'
"""


@asynccontextmanager
async def refusing(url: str, code: str) -> AsyncIterator[None]:
    """Let PostgreSQL refuse to write tasks, with the code that it has for the fault."""
    # One that may write, whatever the database says of everybody else.
    admin = await asyncpg.connect(url, server_settings={"default_transaction_read_only": "off"})
    name = url.partition("?")[0].rpartition("/")[2]
    standby = code == "25006"
    try:
        if standby:
            await admin.execute(f"alter database {name} set default_transaction_read_only = on")
            await admin.execute(HANG_UP)
        else:
            await admin.execute(REFUSE.format(code=code))
        yield
        if standby:
            await admin.execute(f"alter database {name} reset default_transaction_read_only")
            await admin.execute(HANG_UP)
        else:
            await admin.execute(MEND)
    finally:
        await admin.close()


@pytest.mark.contract("K24", "K11", "T18")
@pytest.mark.parametrize(
    "code", ["53100", "53200", "25006", "40001", "40P01", "58030", "XX000", "XX001", "42501", "25P04"]
)
async def test_writes_that_are_refused_for_a_while_are_made_when_they_can_be(
    database_url: str, monkeypatch: pytest.MonkeyPatch, code: str
) -> None:
    # Who asks in vain gives up soon; whoever else asks has the patience that everybody has.
    hasty, app = Ferryman(database_url), Ferryman(database_url, worker={"poll": "50ms", "lease": "60s"})
    hasty.declare("held")
    begun, go = asyncio.Semaphore(0), asyncio.Event()

    @app.task
    async def held(n: int) -> int:
        begun.release()
        await go.wait()
        return n

    async with AsyncExitStack() as open_, app, app.worker():
        with monkeypatch.context() as patch:
            patch.setattr(opened_app, "PATIENCE", timedelta(seconds=2))
            await open_.enter_async_context(hasty)
        under_way = [await app.tasks.create(held, n=n) for n in range(3)]
        async with asyncio.timeout(PATIENCE_SECONDS):
            for _ in under_way:
                await begun.acquire()
        async with refusing(database_url, code):
            go.set()  # their outcomes cannot be stored now
            with pytest.raises((errors.DatabaseUnavailable, errors.DatabaseRefused)) as told:
                await hasty.tasks.create("held", {"n": 7}, idempotency_key="k")
        again = await app.tasks.create(held, {"n": 7}, idempotency_key="k")

        # What is not allowed may stay so: whoever asks is told at once, and what has run waits all the same.
        assert told.value.retryable is (code != "42501")
        assert (told.value.code == "DATABASE_DAMAGED") is (code == "XX001")
        assert [await each.result(timeout=PATIENCE_SECONDS) for each in [*under_way, again]] == [0, 1, 2, 7]

    rows = await judge.read(database_url, "select distinct attempt, state from ferryman.tasks")
    assert [tuple(row) for row in rows] == [(1, "succeeded")]
    assert await cargo.broken(database_url) == []
