"""Connections that cannot be lent, and what goes wrong on those that can: a code, a sentence, nothing stored (K16, K20)."""

import asyncio
from collections.abc import AsyncIterator

import asyncpg
import psycopg
import pytest
import sqlalchemy
from sqlalchemy.ext import asyncio as async_sqlalchemy

from ferryman import Client, Ferryman
from ferryman.kernel import errors
from tests.tasks.conftest import MakeApp
from tests.tasks.lenders import LENDERS, Dock, docked


@pytest.fixture
async def app(make_app: MakeApp) -> Ferryman:
    return await make_app()


@pytest.fixture(params=list(LENDERS))
async def dock(request: pytest.FixtureRequest, app: Ferryman, database_url: str) -> AsyncIterator[Dock]:
    async with docked(request.param, app, database_url) as made:
        yield made


async def refusal(app: Ferryman, connection: object) -> str:
    with pytest.raises(errors.ConnectionUnfit) as refused:
        await app.tasks.create("mail", {}, connection=connection)
    assert await app.tasks.list() == []
    return refused.value.message


@pytest.mark.contract("K16")
async def test_an_asyncpg_connection_without_a_transaction_is_refused(app: Ferryman, database_url: str) -> None:
    connection = await asyncpg.connect(database_url)

    assert "is in no transaction" in await refusal(app, connection)
    await connection.close()


@pytest.mark.contract("K16")
async def test_a_psycopg_connection_that_commits_each_statement_is_refused(app: Ferryman, database_url: str) -> None:
    async with await psycopg.AsyncConnection.connect(database_url, autocommit=True) as connection:
        assert "commits each statement" in await refusal(app, connection)
    with (
        psycopg.connect(database_url, autocommit=True) as plain,
        Client(database_url) as client,
        pytest.raises(errors.ConnectionUnfit),
    ):
        client.create("mail", {}, connection=plain)


@pytest.mark.contract("K16")
@pytest.mark.parametrize("dialect", ["asyncpg", "psycopg"])
async def test_an_engine_that_commits_each_statement_is_refused(app: Ferryman, database_url: str, dialect: str) -> None:
    address = database_url.replace("postgresql://", f"postgresql+{dialect}://")
    engine = async_sqlalchemy.create_async_engine(address, isolation_level="AUTOCOMMIT")
    async with async_sqlalchemy.AsyncSession(engine) as session:
        assert "commits each statement" in await refusal(app, session)
    await engine.dispose()
    plain = sqlalchemy.create_engine(
        database_url.replace("postgresql://", "postgresql+psycopg://"), isolation_level="AUTOCOMMIT"
    )
    with plain.connect() as connection, Client(database_url) as client, pytest.raises(errors.ConnectionUnfit):
        client.create("mail", {}, connection=connection)
    plain.dispose()


@pytest.mark.contract("K16")
def test_a_connection_to_another_kind_of_database_is_refused(database_url: str) -> None:
    engine = sqlalchemy.create_engine("sqlite://")
    with (
        engine.connect() as connection,
        Client(database_url) as client,
        pytest.raises(errors.ConnectionUnfit, match="sqlite, not to PostgreSQL"),
    ):
        client.create("mail", {}, connection=connection)
    engine.dispose()


@pytest.mark.contract("K16")
async def test_a_plain_connection_is_for_the_client_and_an_async_one_for_the_app(
    app: Ferryman, database_url: str
) -> None:
    with psycopg.connect(database_url) as plain:
        assert "Use it with `Client`" in await refusal(app, plain)
    connection = await asyncpg.connect(database_url)
    async with connection.transaction():
        with Client(database_url) as client, pytest.raises(errors.ConnectionUnfit, match=r"Use it with `app\.tasks`"):
            client.create("mail", {}, connection=connection)
    await connection.close()


@pytest.mark.contract("K16")
@pytest.mark.parametrize("thing", ["postgresql://nobody", object(), 7], ids=lambda thing: type(thing).__name__)
async def test_anything_else_is_refused_by_name(app: Ferryman, thing: object, database_url: str) -> None:
    assert type(thing).__name__ in await refusal(app, thing)
    with Client(database_url) as client, pytest.raises(errors.ConnectionUnfit, match=type(thing).__name__):
        client.create("mail", {}, connection=thing)


@pytest.mark.contract("K16")
async def test_the_pool_of_the_app_lends_its_transactions(app: Ferryman) -> None:
    async with app.database.transaction() as tx:
        handle = await app.tasks.create("mail", {}, connection=tx)

    assert (await handle.refresh()).state == "ready"
    async with app.database.session() as session:
        with pytest.raises(errors.ConnectionUnfit):
            await app.tasks.create("mail", {}, connection=session)


@pytest.mark.contract("K16", "K12")
async def test_a_door_of_another_tenant_stays_one_in_a_lent_transaction(app: Ferryman) -> None:
    acme = app.tasks.of("acme")
    async with app.database.transaction() as tx:
        await app.tasks.create("mail", {}, task_id="mine", connection=tx)
        theirs = await acme.create("mail", {}, task_id="mine", connection=tx)
        cancelled = await acme.cancel("mine", connection=tx)

    assert cancelled == [theirs.id]
    assert theirs.task.tenant == "acme"
    assert [task.state for task in await app.tasks.list()] == ["ready"]


@pytest.mark.contract("K16", "K20")
async def test_a_transaction_that_failed_before_is_told_as_that(dock: Dock, app: Ferryman) -> None:
    await dock.lender.begin()
    with pytest.raises(Exception, match="division by zero"):
        await dock.lender.execute("select 1 / 0")

    with pytest.raises(errors.ConnectionUnfit, match="can only be rolled back"):
        await dock.create("mail", {})
    await dock.lender.rollback()

    assert await app.tasks.list() == []


@pytest.mark.contract("K16", "K24")
async def test_a_connection_that_was_lost_is_told_as_the_database_being_away(dock: Dock, app: Ferryman) -> None:
    await dock.lender.begin()
    await dock.create("mail", {})
    async with app.database.session() as tx:
        await tx.fetch(
            "select pg_terminate_backend(pid, 5000) from pg_stat_activity"
            " where datname = current_database() and state = 'idle in transaction'"
        )

    with pytest.raises(errors.DatabaseUnavailable):
        await dock.create("mail", {})

    assert await app.tasks.list() == []


@pytest.mark.contract("K16", "K20")
async def test_a_database_without_our_tables_is_told_as_that(app: Ferryman, empty_database_url: str) -> None:
    connection = await asyncpg.connect(empty_database_url)
    async with connection.transaction():
        with pytest.raises(errors.DatabaseNotMigrated):
            async with connection.transaction():
                await app.tasks.create("mail", {}, connection=connection)
    await connection.close()


WAITING = "select from pg_locks where not granted and locktype = 'transactionid'"


@pytest.mark.contract("K16", "T12")
@pytest.mark.parametrize("commits", [True, False])
async def test_the_same_key_at_the_door_waits_for_the_caller(app: Ferryman, database_url: str, commits: bool) -> None:
    connection = await asyncpg.connect(database_url)
    transaction = connection.transaction()
    await transaction.start()
    lent = await app.tasks.create("mail", {}, idempotency_key="k", connection=connection)

    asked = asyncio.ensure_future(app.tasks.create("mail", {}, idempotency_key="k"))
    async with app.database.session() as tx:
        while not asked.done() and not await tx.fetch(WAITING):
            pass
    await (transaction.commit() if commits else transaction.rollback())
    there = await asked
    await connection.close()

    assert there.idempotent_hit is commits
    assert (there.id == lent.id) is commits
    assert len(await app.tasks.list()) == 1


@pytest.mark.contract("K16", "K24")
async def test_a_serializable_caller_that_comes_too_late_may_try_again(app: Ferryman, database_url: str) -> None:
    connection = await asyncpg.connect(database_url)
    transaction = connection.transaction(isolation="serializable")
    await transaction.start()
    await connection.execute("select count(*) from ferryman.tasks")
    await app.tasks.create("mail", {}, idempotency_key="k")

    with pytest.raises(errors.DatabaseUnavailable) as refused:
        await app.tasks.create("mail", {}, idempotency_key="k", connection=connection)
    await transaction.rollback()
    await connection.close()

    assert refused.value.retryable
    assert len(await app.tasks.list()) == 1
