"""What handlers say: fenced, kept through an outage, and no word takes another with it (T18, K4, K25)."""

import asyncio
import contextlib
import logging
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from uuid import UUID

import pytest

from ferryman import Context
from ferryman.kernel import errors
from ferryman.kernel.db import Tx
from ferryman.kernel.doorbell import NoDoorbell
from ferryman.kernel.pool import Database
from ferryman.tasks.model import Claimed
from ferryman.tasks.states import RUNNING, TASK
from ferryman.tasks.work import words
from ferryman.tasks.work.words import Words
from ferryman.testing import plant
from tests.patience import PATIENCE_SECONDS
from tests.tasks.conftest import MakeApp
from tests.tasks.test_fence import counted

EPOCH = 7


def claim(id: UUID, epoch: int = EPOCH) -> Claimed:
    return Claimed(id, epoch, "default", None, "default", "mail", 1, 3, 1000, None, None, None, None, "{}")


async def planted(db: Database) -> Claimed:
    async with db.transaction() as tx:
        return claim(await plant(tx, TASK, RUNNING, epoch=EPOCH))


async def kept(db: Database) -> list[str]:
    async with db.session() as tx:
        return [row["message"] for row in await tx.fetch("select message from ferryman.task_logs order by id")]


async def progress(db: Database) -> dict[UUID, int]:
    async with db.session() as tx:
        return {row["id"]: row["percent"] for row in await tx.fetch("select id, percent from ferryman.task_progress")}


Session = Callable[[], AbstractAsyncContextManager[Tx]]


def failing(db: Database, times: int, error: Exception) -> Session:
    """Return sessions of which the first ones cannot be had."""
    left = times

    @asynccontextmanager
    async def session() -> AsyncIterator[Tx]:
        nonlocal left
        if left > 0:
            left -= 1
            raise error
        async with db.session() as tx:
            yield tx

    return session


@pytest.mark.contract("K4", "T7", "T18")
async def test_the_words_of_a_stale_holder_are_refused_and_counted(db: Database) -> None:
    task = await planted(db)
    stale = claim(task.id, EPOCH - 1)
    lines, reports = counted("log"), counted("progress")
    said = Words(db.session, NoDoorbell())

    said.say(task, "info", "mine")
    said.report(task, 40, None)
    said.say(stale, "info", "of a zombie")
    said.report(stale, 90, "of a zombie")
    await said.close()

    assert await kept(db) == ["mine"]
    assert await progress(db) == {task.id: 40}
    assert (counted("log"), counted("progress")) == (lines + 1, reports + 1)


@pytest.mark.contract("K25", "T18")
async def test_a_line_of_a_task_that_is_gone_takes_no_other_with_it(db: Database) -> None:
    task, gone = await planted(db), await planted(db)
    async with db.session() as tx:
        await tx.fetch("delete from ferryman.tasks where id = $1", gone.id)
    said = Words(db.session, NoDoorbell())

    said.say(gone, "info", "of nobody")
    said.report(gone, 90, None)
    said.say(task, "info", "mine")
    said.report(task, 40, None)
    await said.close()

    assert await kept(db) == ["mine"]
    assert await progress(db) == {task.id: 40}


@pytest.mark.contract("K25", "T18")
async def test_a_word_that_postgresql_refuses_stands_alone(db: Database, caplog: pytest.LogCaptureFixture) -> None:
    task, other = await planted(db), await planted(db)
    said = Words(db.session, NoDoorbell())

    for line in ("one", "two", "th\0ree", "four", "five"):
        said.say(task, "info", line)
    said.report(task, 101, None)
    said.report(other, 40, None)
    await said.close()

    assert await kept(db) == ["one", "two", "four", "five"]
    assert await progress(db) == {other.id: 40}
    assert [record.levelname for record in caplog.records if "refused" in record.message] == ["ERROR", "ERROR"]


SPOIL = """
create function public.spoil() returns trigger language plpgsql as
$$ begin raise exception 'a page cannot be read' using errcode = 'XX001'; end $$;
create trigger spoil before insert or update on ferryman.{table} for each row
    when (new.{column} = '{task}') execute function public.spoil();
"""


@pytest.mark.contract("K24", "K25", "T18")
@pytest.mark.parametrize(("table", "column"), [("task_logs", "task"), ("task_progress", "id")])
async def test_words_that_cannot_be_written_now_keep_no_other_back_and_are_kept(
    db: Database, table: str, column: str
) -> None:
    bad, good, after = [await planted(db) for _ in range(3)]
    said = Words(db.session, NoDoorbell())
    async with db.session() as tx:
        await tx.execute(SPOIL.format(table=table, column=column, task=bad.id))

    for n, task in enumerate((bad, good, bad)):
        said.say(task, "info", str(n))
        said.report(task, n, None)
    await said.written()
    said.say(after, "info", "3")
    said.report(after, 3, None)
    await said.written()
    lines, percents = await kept(db), await progress(db)
    async with db.session() as tx:
        await tx.execute("drop function public.spoil() cascade")
    said.say(bad, "info", "4")
    said.report(bad, 4, None)
    await said.close()

    assert {"1", "3"} <= set(lines)
    assert {good.id: 1, after.id: 3}.items() <= percents.items()
    assert [line for line in await kept(db) if line in "024"] == ["0", "2", "4"]
    assert await progress(db) == {bad.id: 4, good.id: 1, after.id: 3}


@pytest.mark.contract("K24", "K25", "T18")
async def test_words_that_could_not_be_written_are_tried_again_by_themselves(db: Database) -> None:
    task = await planted(db)
    said = Words(failing(db, 3, errors.DatabaseDamaged("a page cannot be read", narrow=True)), NoDoorbell())

    said.say(task, "info", "mine")
    async with asyncio.timeout(PATIENCE_SECONDS):
        while await kept(db) != ["mine"]:  # noqa: ASYNC110 - what is stored
            await asyncio.sleep(0.01)
    await said.close()


@asynccontextmanager
async def held(db: Database, task: Claimed) -> AsyncIterator[None]:
    """Be somebody who cancels a task in a transaction of his own, and thinks."""
    async with db.transaction() as stranger:
        await stranger.fetch("select from ferryman.tasks where id = $1 for update", task.id)
        yield


@pytest.mark.contract("K25", "T18")
async def test_the_words_of_a_task_that_somebody_holds_keep_no_other_back(db: Database) -> None:
    bad, *good = [await planted(db) for _ in range(8)]
    said = Words(db.session, NoDoorbell())

    async with held(db, bad), asyncio.timeout(PATIENCE_SECONDS):
        for task in (bad, *good, bad):
            said.say(task, "info", "first")
            said.report(task, 1, None)
        while len(await kept(db)) < len(good) or len(await progress(db)) < len(good):
            await said.written()
        for n in range(20):
            said.say(bad, "info", f"held {n}")
            said.say(good[0], "info", f"later {n}")
            await said.written()
            assert (await kept(db))[-1] == f"later {n}"
    await said.close()

    async with db.session() as tx:
        lines = await tx.fetch("select message from ferryman.task_logs where task = $1 order by id", bad.id)
    assert [line["message"] for line in lines] == ["first", "first", *(f"held {n}" for n in range(20))]
    assert len(await kept(db)) == len(good) + 2 + 40
    assert await progress(db) == {task.id: 1 for task in (bad, *good)}


@pytest.mark.contract("K25", "T18")
async def test_many_tasks_that_somebody_holds_keep_no_other_back(db: Database) -> None:
    good, *bad = [await planted(db) for _ in range(60)]
    said = Words(db.session, NoDoorbell())

    async with contextlib.AsyncExitStack() as stack, asyncio.timeout(PATIENCE_SECONDS):
        stranger = await stack.enter_async_context(db.transaction())
        await stranger.fetch("select from ferryman.tasks where id = any($1) for update", [task.id for task in bad])
        for task in (*bad, good):
            said.say(task, "info", "first")
        while await kept(db) != ["first"]:
            await said.written()
        for n in range(5):
            said.say(good, "info", str(n))
            await said.written()
            assert (await kept(db))[-1] == str(n)
    await said.close()

    assert len(await kept(db)) == 60 + 5


@pytest.mark.contract("K25", "T18")
async def test_a_held_task_that_says_too_much_takes_no_line_from_another(
    db: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(words, "LINES_MAX", 50)
    monkeypatch.setattr(words, "HELD_MAX", 20, raising=False)
    bad, good = await planted(db), await planted(db)
    said = Words(db.session, NoDoorbell())

    async with held(db, bad), asyncio.timeout(PATIENCE_SECONDS):
        said.say(bad, "info", "first")
        said.say(good, "info", "first")
        while await kept(db) != ["first"]:
            await said.written()
        for n in range(200):
            said.say(bad, "info", str(n))
        said.say(good, "info", "mine")
        await said.written()
        assert await kept(db) == ["first", "mine"]
    await said.close()

    assert await kept(db) == [
        "first", "mine", "first", *(str(n) for n in range(20)), "too many lines at once: some are missing here",
    ]  # fmt: skip


@pytest.mark.contract("T18", "K18")
async def test_what_was_said_while_the_database_was_away_is_kept_in_order(db: Database) -> None:
    task = await planted(db)
    said = Words(failing(db, 2, errors.DatabaseUnavailable()), NoDoorbell())

    said.say(task, "info", "one")
    said.report(task, 40, None)
    await asyncio.sleep(0)
    said.say(task, "info", "two")
    said.report(task, 60, None)
    await said.close()

    assert await kept(db) == ["one", "two"]
    assert await progress(db) == {task.id: 60}


@pytest.mark.contract("T18", "K18")
async def test_an_end_of_the_worker_does_not_wait_for_a_database_that_stays_away(
    db: Database, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(words, "CLOSING", 0.2)
    task = await planted(db)
    said = Words(failing(db, 1_000_000, errors.DatabaseUnavailable()), NoDoorbell())
    for n in range(words.LINES_MAX + 500):
        said.say(task, "info", str(n))

    await asyncio.wait_for(said.close(), PATIENCE_SECONDS)
    said.say(task, "info", "after the end")

    ours = [record for record in caplog.records if record.name.startswith("ferryman")]
    [lost] = [record for record in ours if record.levelno == logging.ERROR]
    assert getattr(lost, "lines", None) == words.LINES_MAX + 1


@pytest.mark.contract("T18")
async def test_the_last_word_before_the_return_is_kept(make_app: MakeApp) -> None:
    async def works(ctx: Context) -> None:
        ctx.progress(100, "all")
        ctx.log("done")

    app = await make_app(works)
    handles = await app.tasks.create_many(works, [{} for _ in range(200)])

    async with app.worker():
        for handle in handles:
            await handle.result(timeout=PATIENCE_SECONDS)

    assert {(await handle.refresh()).progress for handle in handles} == {100}
    assert len(await kept(app.database)) == 200
