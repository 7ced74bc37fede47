"""Hundreds of callers at one moment, at every door, with a pool of two: all are served, each has its own answer."""

import asyncio
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID, uuid4

import pytest

from ferryman import Command, Ferryman, Message, Turn
from ferryman.ingest.ports import Page, Request
from ferryman.kernel import errors
from tests.agents.crew import at_work, fresh
from tests.ingest.harbour import Cargo
from tests.patience import PATIENCE_SECONDS

CALLERS = 300
DAY = datetime(2026, 1, 1, tzinfo=UTC)


def an_app(database_url: str) -> Ferryman:
    app = fresh(database_url, **{"pool.size": 2, "ingest.queued_max": 10_000})

    @app.task
    async def greet(n: int) -> int:
        return n

    @app.agent
    async def child(turn: Turn) -> Any:
        return turn.instruction

    @app.on_command("Count.Request", "COUNT_REQUEST", fact="Count.Requested")
    async def count(command: Command) -> Message:
        return Message("Count.Up", {"n": command.payload["n"]})

    @app.capability("Count.Up")
    async def up(n: int) -> dict[str, int]:
        return {"n": n}

    @app.source(name="empty", sink=Cargo(), safety_lag=timedelta(0))
    async def fetch(_request: Request) -> Page:
        return Page([], None, False)

    return app


Door = Callable[[Ferryman, int, dict[str, Any]], Awaitable[Any]]


async def task(app: Ferryman, n: int, _made: Any) -> bool:
    return bool(await (await app.tasks.create("greet", n=n)).result() == n)


async def agent(app: Ferryman, n: int, _made: Any) -> bool:
    return (await app.agents.ensure(f"child-{n}", "child")).agent_id == f"child-{n}"


async def enqueue(app: Ferryman, n: int, made: dict[str, Any]) -> bool:
    answer: Any = await app.agents.enqueue(f"child-{n}", n)
    made.setdefault("turns", {})[n] = answer.id
    return bool(answer.status == "accepted")


async def wait_for_turn(app: Ferryman, n: int, made: dict[str, Any]) -> bool:
    return (await app.agents.wait(made["turns"][n])).agent_id == f"child-{n}"


async def send_to_agent(app: Ferryman, n: int, _made: Any) -> bool:
    return bool(await (await app.agents.send(f"child-{n}", n)).result() == n)


async def fork_join(app: Ferryman, n: int, _made: Any) -> bool:
    result = await app.fork_join([{"target_strategy": "new", "target_ref": "child", "instruction": f"{n}"}])
    return bool(result["results"][0]["summary"] == f"{n}")


async def fork_again(app: Ferryman, n: int, _made: Any) -> bool:
    """Every tenth asks for the same, and one of ten for what cannot be."""
    asked = {"target_strategy": "new", "target_ref": "nobody" if n % 10 == 1 else "child", "instruction": "go"}
    try:
        batch = await app.batches.fork([asked], id=UUID(int=n // 10 + 1))
    except errors.BatchRefused:
        return n % 10 == 1
    return batch.id == UUID(int=n // 10 + 1) and n % 10 != 1


async def command(app: Ferryman, n: int, made: dict[str, Any]) -> bool:
    sent = await app.commands.send("Count.Request", {"n": n})
    made.setdefault("commands", {})[n] = sent.id
    return not sent.idempotent_hit


async def wait_for_command(app: Ferryman, n: int, made: dict[str, Any]) -> bool:
    return (await app.commands.wait(made["commands"][n])).status == "COMPLETED"


async def plan(app: Ferryman, n: int, made: dict[str, Any]) -> bool:
    since = DAY + n * timedelta(minutes=1)
    planned = await app.ingest.plan("empty", operation="UPDATE", since=since, until=since + timedelta(minutes=1))
    made.setdefault("plans", {})[n] = planned.id
    return planned.made


async def wait_for_plan(app: Ferryman, n: int, made: dict[str, Any]) -> bool:
    return (await app.ingest.wait(made["plans"][n])).over


# Plans are made one after another, each in many trips: some of them stand for all.
DOORS: dict[Door, int] = {
    task: 50, agent: 50, enqueue: 50, wait_for_turn: 50, send_to_agent: 50, fork_join: CALLERS, fork_again: 50, command: 50,
    wait_for_command: 50, plan: 20, wait_for_plan: 20,
}  # fmt: skip


@pytest.mark.contract("B12", "K24")
async def test_a_crowd_at_every_door_is_served(database_url: str) -> None:
    async with at_work(an_app(database_url)) as app:
        await Cargo().prepare(app.database)
        made: dict[str, Any] = {}
        wrong = {}
        for door, callers in DOORS.items():
            async with asyncio.timeout(120):
                told = await asyncio.gather(*(door(app, n, made) for n in range(callers)), return_exceptions=True)
            failed = [each for each in told if each is not True]
            if failed:
                wrong[door.__name__] = (len(failed), failed[0])
        assert wrong == {}
        assert len(await app.batches.list(limit=1000)) == CALLERS + 5


@pytest.mark.contract("K12", "K20", "T18")
async def test_who_waits_for_what_is_not_there_or_is_anothers_is_told(database_url: str) -> None:
    app = an_app(database_url)
    async with app:
        await Cargo().prepare(app.database)
        await app.agents.ensure("ann", "child")
        since = datetime(2026, 1, 1, tzinfo=UTC)
        made = {
            "agents": (await app.agents.send("ann", "go")).id,
            "batches": (await app.batches.fork([{"target_strategy": "new", "target_ref": "child", "instruction": "go"}])).id,
            "commands": (await app.commands.send("Count.Request", {"n": 1})).id,
            "ingest": (await app.ingest.plan("empty", operation="UPDATE", since=since, until=since + timedelta(minutes=1))).id,
        }  # fmt: skip
        told = {}
        for name, id in made.items():
            door, elsewhere = getattr(app, name), getattr(app.of("other"), name)
            waits = [door.wait(uuid4()), elsewhere.wait(id), asyncio.wait_for(door.wait(id), 0.05)]
            found = await asyncio.gather(*waits, return_exceptions=True)
            told[name] = [type(each) for each in found]
        gone: list[asyncio.Task[Any]] = [asyncio.create_task(getattr(app, name).wait(id)) for name, id in made.items()]
        await asyncio.sleep(0)
    assert told == {
        "agents": [errors.TurnNotFound, errors.TurnNotFound, TimeoutError],
        "batches": [errors.BatchNotFound, errors.BatchNotFound, TimeoutError],
        "commands": [errors.CommandNotFound, errors.CommandNotFound, TimeoutError],
        "ingest": [errors.IngestNotFound, errors.IngestNotFound, TimeoutError],
    }
    # Who still waits when the app is closed does not wait for ever.
    ends = await asyncio.wait_for(asyncio.gather(*gone, return_exceptions=True), PATIENCE_SECONDS)
    assert [type(each) for each in ends] == [errors.NotOpen] * 4
