"""One thing of a set that PostgreSQL cannot write now: whose it is, is told at once, and nobody beside it waits (K24, K25)."""

import asyncio
from collections.abc import Awaitable, Callable
from datetime import timedelta
from typing import Any
from uuid import UUID

import pytest

from ferryman import Command, Ferryman, Turn
from ferryman.kernel import errors
from tests.agents.crew import fresh
from tests.patience import PATIENCE_SECONDS

SECONDS = 8  # less than a door waits for a database that is away
CALLERS = 6
BAD = 3
SPOIL = """
create function public.spoil() returns trigger language plpgsql as
$$ begin raise exception 'bad' using errcode = '{code}'; end $$;
create trigger spoil before insert on ferryman.{table} for each row when ({when}) execute function public.spoil();
"""

Door = Callable[[Ferryman, int], Awaitable[Any]]


def an_app(database_url: str, **settings: Any) -> Ferryman:
    app = fresh(database_url, **settings)

    @app.task
    async def greet(n: int) -> int:
        return n

    @app.task
    async def bad(n: int) -> int:
        return n

    @app.agent
    async def child(turn: Turn) -> Any:
        return turn.instruction

    @app.on_command("Count.Request", "COUNT_REQUEST", fact="Count.Requested")
    async def count(command: Command) -> None:
        return None

    return app


def name(n: int) -> str:
    return "bad" if n == BAD else "greet"


async def create(app: Ferryman, n: int) -> UUID:
    return (await app.tasks.create(name(n), n=n)).id


async def create_keyed(app: Ferryman, n: int) -> UUID:
    return (await app.tasks.create(name(n), n=n, idempotency_key=f"key-{n}")).id


async def create_bounded(app: Ferryman, n: int) -> UUID:
    return (await app.tasks.create(name(n), n=n, queue="small")).id


async def enqueue(app: Ferryman, n: int) -> Any:
    return (await app.agents.enqueue(f"child-{n}", n)).id  # type: ignore[union-attr]


async def fork(app: Ferryman, n: int) -> UUID:
    asked = {"target_strategy": "new", "target_ref": "child", "instruction": "go"}
    return (await app.batches.fork([asked], id=UUID(int=n + 1))).id


async def command(app: Ferryman, n: int) -> UUID:
    return (await app.commands.send("Count.Request", {}, session_id=f"session-{n}")).id


# By the row that cannot be written.
DOORS: dict[Door, tuple[str, str]] = {
    create: ("tasks", "new.name = 'bad'"),
    create_keyed: ("tasks", "new.name = 'bad'"),
    create_bounded: ("tasks", "new.name = 'bad'"),
    enqueue: ("agent_inbox", f"new.agent_id = 'child-{BAD}'"),
    fork: ("pmo_batches", f"new.id = '{UUID(int=BAD + 1)}'"),
    command: ("command_inbox", f"new.session_id = 'session-{BAD}'"),
}


@pytest.mark.contract("K24", "K25")
@pytest.mark.parametrize("door", DOORS)
@pytest.mark.parametrize("code", ["XX001", "58030"])
async def test_what_cannot_be_written_of_one_caller_keeps_no_other_waiting(
    database_url: str, door: Door, code: str
) -> None:
    table, when = DOORS[door]
    async with an_app(database_url) as app:
        await app.queues.set("small", max_depth=100, new=True)
        for n in range(CALLERS):
            await app.agents.ensure(f"child-{n}", "child")
        async with app.database.session() as tx:
            await tx.execute(SPOIL.format(code=code, table=table, when=when))

        async with asyncio.timeout(SECONDS):
            told = await asyncio.gather(*(door(app, n) for n in range(CALLERS)), return_exceptions=True)

    assert [n for n, each in enumerate(told) if isinstance(each, BaseException)] == [BAD], told
    assert isinstance(told[BAD], errors.DatabaseDamaged if code == "XX001" else errors.DatabaseUnavailable)


async def claimed(app: Ferryman) -> tuple[str, list[Any]]:
    """Let a remote worker claim as many tasks as there are callers."""
    worker = (await app.remote.hello(handlers=["greet"])).worker
    await app.tasks.create_many("greet", [{"n": n} for n in range(CALLERS)])
    return worker, list(await app.remote.claim(worker, limit=CALLERS))


@pytest.mark.contract("K24", "K25", "S4")
@pytest.mark.parametrize("code", ["XX001", "58030"])
async def test_an_outcome_of_a_remote_worker_that_cannot_be_written_keeps_no_other_waiting(
    database_url: str, code: str
) -> None:
    async with an_app(database_url) as app:
        worker, held = await claimed(app)
        async with app.database.session() as tx:
            spoil = SPOIL.format(code=code, table="tasks", when=f"new.id = '{held[BAD].id}'")
            await tx.execute(spoil.replace("before insert", "before update"))

        async with asyncio.timeout(SECONDS):
            ends = [app.remote.complete(worker, each.id, epoch=each.epoch, result="done") for each in held]
            told = await asyncio.gather(*ends, return_exceptions=True)

    assert [n for n, each in enumerate(told) if isinstance(each, BaseException)] == [BAD], told
    assert isinstance(told[BAD], errors.DatabaseDamaged if code == "XX001" else errors.DatabaseUnavailable)


# As the end of a task waits for whoever holds a child that it leaves.
WAIT = """
create table public.child (id integer);
insert into public.child values (1);
create function public.wait() returns trigger language plpgsql as
$$ begin perform from public.child for update; return new; end $$;
create trigger wait before update on ferryman.tasks for each row when (new.id = '{id}') execute function public.wait();
"""


@pytest.mark.contract("K24", "K25", "S4")
async def test_an_outcome_of_a_remote_worker_that_waits_for_a_lock_keeps_no_other_waiting(database_url: str) -> None:
    async with an_app(database_url) as app:
        worker, held = await claimed(app)
        async with app.database.session() as tx:
            await tx.execute(WAIT.format(id=held[BAD].id))
        async with app.database.transaction() as stranger:
            await stranger.fetch("select from public.child for update")
            ends = [
                asyncio.create_task(app.remote.complete(worker, each.id, epoch=each.epoch, result="done"))
                for each in held
            ]
            async with asyncio.timeout(SECONDS):
                await asyncio.gather(*ends[:BAD], *ends[BAD + 1 :])
            assert not ends[BAD].done()

        async with asyncio.timeout(SECONDS):
            await ends[BAD]


@pytest.mark.contract("K24", "S4")
async def test_a_remote_worker_is_told_of_a_lock_that_lasts(database_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    async with an_app(database_url) as app:
        worker, held = await claimed(app)
        engine = app.remote._engine
        monkeypatch.setattr(engine, "terms", engine.terms._replace(patience=timedelta(seconds=1)))
        async with app.database.session() as tx:
            await tx.execute(WAIT.format(id=held[BAD].id))
        async with app.database.transaction() as stranger:
            await stranger.fetch("select from public.child for update")
            with pytest.raises(errors.DatabaseUnavailable):
                await asyncio.wait_for(
                    app.remote.complete(worker, held[BAD].id, epoch=held[BAD].epoch, result="done"), 60
                )


# For each row that it is given, as a large one takes; the server gives up a statement after 0.8 s.
SLOW = """
create function public.slow() returns trigger language plpgsql as $$ begin perform pg_sleep({seconds}); return new; end $$;
create trigger slow before update on ferryman.tasks for each row when ({when}) execute function public.slow();
"""
SHORT = {"worker.lease": 2}


@pytest.mark.contract("K24", "K25", "S4")
async def test_outcomes_of_remote_workers_that_take_too_long_together_are_stored_in_smaller_sets(
    database_url: str,
) -> None:
    async with an_app(database_url, **SHORT) as app:
        worker, held = await claimed(app)
        async with app.database.session() as tx:
            await tx.execute(SLOW.format(seconds=0.3, when="true"))

        async with asyncio.timeout(SECONDS):
            ends = [app.remote.complete(worker, each.id, epoch=each.epoch, result="done") for each in held]
            told = await asyncio.gather(*ends)

    assert {each.state.value for each in told} == {"succeeded"}


@pytest.mark.contract("K24", "K25", "S4")
async def test_an_outcome_of_a_remote_worker_that_takes_too_long_by_itself_keeps_no_other_waiting(
    database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with an_app(database_url, **SHORT) as app:
        worker, held = await claimed(app)
        engine = app.remote._engine
        monkeypatch.setattr(engine, "terms", engine.terms._replace(patience=timedelta(seconds=4)))
        async with app.database.session() as tx:
            await tx.execute(SLOW.format(seconds=60, when=f"new.id = '{held[BAD].id}'"))
        ends = [
            asyncio.create_task(app.remote.complete(worker, each.id, epoch=each.epoch, result="done")) for each in held
        ]

        async with asyncio.timeout(SECONDS):
            await asyncio.gather(*ends[:BAD], *ends[BAD + 1 :])
        assert not ends[BAD].done()

        with pytest.raises(errors.DatabaseUnavailable):
            await asyncio.wait_for(ends[BAD], PATIENCE_SECONDS)
