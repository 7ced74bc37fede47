"""Lent transactions that are not read committed: what is safe in them, and what is refused (K16)."""

from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import asyncpg
import pytest

from ferryman import Command, Ferryman, Message
from ferryman.app import wiring
from ferryman.kernel import errors, invariants
from tests.tasks.conftest import MakeApp
from tests.tasks.lenders import Dock, docked

LEVELS = ["repeatable read", "serializable"]
SNAPSHOT = "select count(*) from ferryman.tasks"
pytestmark = pytest.mark.contract("K16")


@pytest.fixture
async def app(make_app: MakeApp) -> Ferryman:
    app = await make_app()
    app.declare("mail")
    app.declare("rare", queue="rare")
    await app.queues.set("rare", new=True, max_depth=1)
    return app


@pytest.fixture(params=["asyncpg", "psycopg"])
async def dock(request: pytest.FixtureRequest, app: Ferryman, database_url: str) -> AsyncIterator[Dock]:
    async with docked(request.param, app, database_url) as made:
        yield made


async def begin(dock: Dock, level: str) -> None:
    """Begin the caller's transaction at a level, and take its snapshot."""
    await dock.lender.begin()
    await dock.lender.execute(f"set transaction isolation level {level}")
    await dock.lender.execute(SNAPSHOT)


async def check(app: Ferryman) -> None:
    async with app.database.session() as tx:
        assert await invariants.check(tx, wiring.invariants()) == []


@pytest.mark.parametrize("level", LEVELS)
async def test_what_is_created_beside_other_creates_appears_when_the_caller_commits(
    dock: Dock, app: Ferryman, level: str
) -> None:
    await begin(dock, level)
    others = [await app.tasks.create("mail", {}, idempotency_key=f"other-{n}") for n in range(3)]
    made = [
        await dock.create("mail", {}),
        await dock.create("mail", {}, idempotency_key="mine"),
        await dock.create("mail", {}, singleton="mine"),
        await dock.create("mail", {}, debounce=60, debounce_key="mine"),
        await dock.accept({"name": "mail", "payload": {}}),
        *await dock.create_many("mail", [{}, {}]),
    ]
    await dock.lender.commit()

    assert {task.id for task in await app.tasks.list()} == {each.id for each in [*others, *made]}
    await check(app)


KEYS: dict[str, dict[str, Any]] = {
    "idempotency key": {"idempotency_key": "k"},
    "task_id": {"task_id": "k"},
    "singleton": {"singleton": "k"},
    "debounce": {"debounce": 60, "debounce_key": "k"},
}


@pytest.mark.contract("T12", "T17", "K24")
@pytest.mark.parametrize("key", KEYS)
async def test_a_key_that_another_used_since_the_snapshot_makes_the_caller_run_its_transaction_again(
    dock: Dock, app: Ferryman, key: str
) -> None:
    await begin(dock, "repeatable read")
    first = await app.tasks.create("mail", {}, **KEYS[key])

    with pytest.raises(errors.DatabaseUnavailable, match="run the whole transaction again") as refused:
        await dock.create("mail", {}, **KEYS[key])
    await dock.lender.rollback()
    await begin(dock, "repeatable read")
    again = await dock.create("mail", {}, **KEYS[key])
    await dock.lender.commit()

    assert (refused.value.retryable, again.idempotent_hit, again.id) == (True, True, first.id)
    assert [task.id for task in await app.tasks.list()] == [first.id]
    await check(app)


@pytest.mark.contract("T17")
@pytest.mark.parametrize("level", LEVELS)
async def test_a_create_in_a_queue_that_can_be_full_is_refused(dock: Dock, app: Ferryman, level: str) -> None:
    await begin(dock, level)
    first = await app.tasks.create("rare", {})  # the snapshot of the caller does not show it

    with pytest.raises(errors.ConnectionUnfit, match=f"max_depth.*{level}"):
        await dock.create("rare", {}, queue="rare")
    free = await dock.create("mail", {})
    await dock.lender.commit()

    assert {task.id for task in await app.tasks.list()} == {first.id, free.id}


@pytest.mark.contract("T17")
@pytest.mark.parametrize("level", [*LEVELS, "read committed"])
async def test_the_function_refuses_to_count_in_an_old_snapshot(app: Ferryman, database_url: str, level: str) -> None:
    asked = """select ferryman.create_tasks('{"name": "rare", "queue": "rare"}')"""
    connection = await asyncpg.connect(database_url)
    async with connection.transaction():
        await connection.execute(f"set transaction isolation level {level}")
        await connection.execute(SNAPSHOT)
        await app.tasks.create("rare", {})
        with pytest.raises(asyncpg.PostgresError) as refused:
            async with connection.transaction():
                await connection.execute(asked)
        await connection.execute("""select ferryman.create_tasks('{"name": "mail"}')""")
    await connection.close()

    code = ("FM014", "TASK_QUEUE_FULL") if level == "read committed" else ("FM015", "CONNECTION_UNFIT")
    assert (refused.value.sqlstate, refused.value.message) == code
    assert sorted(task.name for task in await app.tasks.list()) == ["mail", "rare"]


@pytest.mark.contract("T14")
@pytest.mark.parametrize("level", LEVELS)
async def test_a_cancel_is_refused(dock: Dock, app: Ferryman, level: str) -> None:
    task = await app.tasks.create("mail", {})
    await begin(dock, level)

    with pytest.raises(errors.ConnectionUnfit, match=f"{level}.*read committed"):
        await dock.cancel(task.id)
    await dock.lender.commit()

    assert (await task.refresh()).state == "ready"


@pytest.mark.contract("K11", "C1")
@pytest.mark.parametrize("level", LEVELS)
async def test_a_command_is_sent_once_whoever_sends_it_first(app: Ferryman, database_url: str, level: str) -> None:
    @app.on_command("Sum.Request")
    async def asked(command: Command) -> Message:
        return Message("Sum.Add", {})

    connection = await asyncpg.connect(database_url)

    async def send(beforehand: Callable[[], Awaitable[Any]] | None = None) -> Any:
        async with connection.transaction():
            await connection.execute(f"set transaction isolation level {level}")
            await connection.execute(SNAPSHOT)
            if beforehand is not None:
                await beforehand()
            return await app.commands.send("Sum.Request", {}, idempotency_key="k", connection=connection)

    with pytest.raises(errors.DatabaseUnavailable, match="run the whole transaction again"):
        await send(lambda: app.commands.send("Sum.Request", {}, idempotency_key="k"))
    again = await send()
    await connection.close()

    assert again.idempotent_hit is True
    assert len(await app.commands.list()) == 1
    await check(app)
