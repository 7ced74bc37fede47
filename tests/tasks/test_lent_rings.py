"""The ring of a lent transaction: at its commit, with it, or not at all (K2, K16)."""

import asyncio
import signal
import subprocess
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path

import asyncpg
import pytest

from ferryman import Ferryman
from ferryman.kernel import doorbell_pg
from tests.patience import PATIENCE_SECONDS
from tests.tasks.conftest import MakeApp

FAR = timedelta(hours=1)
SOURCE = Path(__file__).resolve().parents[2] / "src"


async def mail() -> str:
    return "sent"


class Ear:
    """Somebody who listens to the channels."""

    def __init__(self) -> None:
        self.heard: asyncio.Queue[tuple[str, str, frozenset[str]] | None] = asyncio.Queue()

    async def open(self, url: str) -> None:
        self.connection = await asyncpg.connect(url)
        for topic in ("ready", "due", "cancel", "done"):
            await self.connection.add_listener(doorbell_pg.channel("ferryman", topic), self._hear)

    def _hear(self, _connection: object, _pid: int, _channel: str, text: object) -> None:
        self.heard.put_nowait(doorbell_pg.parse(str(text)))

    async def all(self) -> list[tuple[str, str, frozenset[str]] | None]:
        """Return what came before a round trip of this connection's own."""
        await self.connection.execute("select 1")
        return [self.heard.get_nowait() for _ in range(self.heard.qsize())]


@pytest.mark.contract("K2", "K16")
async def test_a_worker_is_told_at_the_commit(make_app: MakeApp, database_url: str) -> None:
    app = await make_app(mail, worker={"poll": FAR})
    connection = await asyncpg.connect(database_url)
    async with app.worker():
        async with connection.transaction():
            handle = await app.tasks.create(mail, connection=connection)
        assert await handle.result(timeout=PATIENCE_SECONDS) == "sent"
    await connection.close()


@pytest.mark.contract("K2", "K16")
async def test_one_ring_is_heard_for_a_commit_and_none_for_a_rollback(make_app: MakeApp, database_url: str) -> None:
    app = await make_app(mail)
    ear, connection = Ear(), await asyncpg.connect(database_url)
    await ear.open(database_url)

    undone = connection.transaction()
    await undone.start()
    await app.tasks.create(mail, connection=connection)
    await undone.rollback()
    silent = await ear.all()
    async with connection.transaction():
        await app.tasks.create_many(mail, [{}] * 20, connection=connection)
        early = await ear.all()
    rung = await ear.all()
    async with connection.transaction():
        later = await app.tasks.create(mail, at=datetime.now(UTC) + FAR, connection=connection)
    due = await ear.all()
    async with connection.transaction():
        await app.tasks.cancel(later.id, connection=connection)
    cancelled = await ear.all()

    assert silent == early == []
    assert rung == [("", "ready", frozenset({"default\x1fdefault"}))]
    assert due == [("", "due", frozenset())]
    assert {(each[1], each[2]) for each in cancelled if each} == {
        ("cancel", frozenset({str(later.id)})),
        ("done", frozenset({str(later.id)})),
    }
    await ear.connection.close()
    await connection.close()


@pytest.mark.contract("K2", "K16")
@pytest.mark.parametrize("settings", [{"ring_within": "off"}, {"doorbell": "none"}], ids=str)
async def test_without_a_ring_polling_finds_it(make_app: MakeApp, database_url: str, settings: dict[str, str]) -> None:
    app = await make_app(mail, worker={"poll": "20ms"}, **settings)
    ear, connection = Ear(), await asyncpg.connect(database_url)
    await ear.open(database_url)
    async with connection.transaction():
        handle = await app.tasks.create(mail, connection=connection)
    heard = await ear.all()

    async with app.worker():
        assert await handle.result(timeout=PATIENCE_SECONDS) == "sent"

    assert heard == []
    await ear.connection.close()
    await connection.close()


CRASH = """
import asyncio, os, sys, asyncpg
from ferryman import Ferryman

async def main(url, committed):
    async with Ferryman(url) as app:
        connection = await asyncpg.connect(url)
        transaction = connection.transaction()
        await transaction.start()
        await connection.execute("create table public.orders (number integer)")
        await app.tasks.create("mail", {}, task_id="one", connection=connection)
        await app.tasks.create_many("mail", [{}] * 5, connection=connection)
        if committed:
            await transaction.commit()
        print("now", flush=True)
        await asyncio.Event().wait()

asyncio.run(main(sys.argv[1], sys.argv[2] == "True"))
"""


@pytest.mark.contract("K16", "K1")
@pytest.mark.parametrize("committed", [True, False])
async def test_a_caller_that_is_killed_leaves_all_or_nothing(database_url: str, committed: bool) -> None:
    with subprocess.Popen(
        [sys.executable, "-c", CRASH, database_url, str(committed)],
        stdout=subprocess.PIPE, env={"PYTHONPATH": str(SOURCE)}, text=True,
    ) as process:  # fmt: skip
        assert process.stdout is not None
        assert process.stdout.readline() == "now\n"
        process.send_signal(signal.SIGKILL)
        process.wait(60)

    async with Ferryman(database_url) as app:
        tasks = await app.tasks.list()
        async with app.database.session() as tx:
            [row] = await tx.fetch("select to_regclass('public.orders') is not null as made")
    assert (len(tasks), row["made"]) == ((6, True) if committed else (0, False))
