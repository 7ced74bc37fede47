"""K10: the doctor names the transactions that hold up every reader of the log."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import timedelta
from uuid import uuid4

import asyncpg
import pytest

from ferryman.app.doctor import event_log
from ferryman.app.doctor.report import Reading
from ferryman.kernel import events, open_transactions, telemetry
from ferryman.kernel.pool import Database
from ferryman.relays import watch
from tests.sql.test_sequences import write

NO_TIME = timedelta(0)
WRITE = "insert into ferryman.events (at, subject, tenant, kind) values (now(), gen_random_uuid(), 'default', 'thing')"


@asynccontextmanager
async def program(url: str, *statements: str, name: str = "importer") -> AsyncIterator[int]:
    """Another program in an open transaction; give its process id."""
    connection = await asyncpg.connect(url, server_settings={"application_name": name})
    try:
        async with connection.transaction():
            for statement in statements:
                await connection.execute(statement)
            yield connection.get_server_pid()
    finally:
        await connection.close()


async def looked(db: Database, who: str) -> Reading | None:
    """Return what the doctor says of one session; the server has others, autovacuum among them."""
    async with db.session() as tx:
        return next((each for each in await event_log.transactions(tx) if who in each.says), None)


@pytest.fixture(autouse=True)
def every_age(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(open_transactions, "LONG", NO_TIME)


@pytest.mark.contract("K10", "K19")
async def test_a_program_that_wrote_to_the_log_and_stays_open_is_named(
    db: Database, database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with program(database_url, WRITE) as pid:
        found = await looked(db, f"Process {pid} ")
        monkeypatch.setattr(open_transactions, "LONG", timedelta(hours=1))
        good = await looked(db, "No transaction")
    monkeypatch.setattr(open_transactions, "LONG", NO_TIME)
    after = await looked(db, f"Process {pid} ")

    assert found is not None
    assert found.verdict == "bad"
    assert found.says.startswith(f"Process {pid} (importer, role postgres, database ferryman_test_")
    assert "idle in transaction) has had a transaction open for" in found.says
    assert "It wrote to the log" in found.says
    assert f"pg_terminate_backend({pid})" in found.advice
    assert (found.details[0]["pid"], found.details[0]["application"], found.details[0]["exact"]) == (
        pid,
        "importer",
        True,
    )
    assert good is not None
    assert (good.verdict, after) == ("good", None)


@pytest.mark.contract("K10")
async def test_one_that_only_reads_holds_nobody_up(db: Database, database_url: str) -> None:
    async with program(database_url, "select from ferryman.events") as pid:
        found = await looked(db, f"Process {pid} ")

    assert found is None


@pytest.mark.contract("K10")
async def test_one_that_wrote_elsewhere_is_a_finding_only_where_readers_are_at_a_gap(
    db: Database, database_url: str
) -> None:
    async with db.session() as tx:
        await events.begin(tx, "reader")
    async with program(database_url, "create table of_theirs ()") as pid:
        idle = await looked(db, f"Process {pid} ")
        async with db.session() as tx:
            await tx.fetch("select nextval('ferryman.events_id_seq')")  # as a writer that was rolled back
            await write(tx, "after the gap")
        async with db.transaction() as tx:
            assert list(await events.read(tx, "reader")) == []
        waiting = await looked(db, f"Process {pid} ")

    assert idle is not None
    assert waiting is not None
    assert (idle.verdict, waiting.verdict) == ("note", "bad")
    assert "wait until it ends" in waiting.says


@pytest.mark.contract("K10")
async def test_a_role_that_may_not_see_its_beginning_says_at_least_how_old_it_is(
    db: Database, database_url: str
) -> None:
    role = f"guest_{uuid4().hex[:12]}"
    async with program(database_url, WRITE) as pid, db.transaction() as tx:
        await write(tx, "younger")
        for statement in (
            f"create role {role}",
            f"grant usage on schema ferryman to {role}",
            f"grant select on all tables in schema ferryman to {role}",
            f"set local role {role}",
        ):
            await tx.fetch(statement)
        [found] = [each for each in await open_transactions.long_open(tx) if each.pid == pid]
        for statement in ("reset role", f"drop owned by {role}", f"drop role {role}"):
            await tx.fetch(statement)

    assert (found.pid, found.application, found.role, found.state) == (pid, "importer", "postgres", None)
    assert (found.exact, found.wrote) == (False, True)
    assert "has had a transaction open for at least" in found.says


@pytest.mark.contract("K10", "K19")
async def test_the_metrics_name_it_while_it_is_open(db: Database, database_url: str) -> None:
    [count] = [
        rule
        for rule in watch.rules(interval=timedelta(seconds=5), kept=NO_TIME, dead_kept=NO_TIME)
        if rule.name == "K19-relays"
    ]
    async with program(database_url, WRITE) as pid:
        async with db.session() as tx:
            await count.find(tx, 1)
        shown = telemetry.exposition().decode()
    async with db.session() as tx:
        await count.find(tx, 1)

    named = f'ferryman_log_blocked_seconds{{application="importer",pid="{pid}",role="postgres",wrote="yes"}}'
    assert named in shown
    assert named not in telemetry.exposition().decode()
