"""A worker or a producer of whatever version is on the path: it uses only what the guide has promised from the first day."""

import asyncio
import json
import os
import signal
import sys
import time
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime, timedelta
from typing import Any, TypeVar
from uuid import uuid4

from ferryman import Command, Context, Ferryman, FerrymanError, Message, Turn
from ferryman.ingest.ports import Page, Request
from ferryman.ingest.sinks import TableSink

PACE_SECONDS = 0.004
AGENTS = 8
CHILDREN = 3
# Records have a time each, this far apart; a window has three pages of them, and each producer has years of its own.
DAWN = datetime(2020, 1, 1, tzinfo=UTC)
EVERY = timedelta(seconds=10)
WINDOW = timedelta(minutes=10)
PAGE = 25

Value = TypeVar("Value")


def tell(what: str, **more: object) -> None:
    """Write one line, whole."""
    os.write(1, f"{json.dumps({'what': what, 'at': time.monotonic(), **more})}\n".encode())


async def said(word: str) -> str:
    return word


def build() -> Ferryman:
    app = Ferryman()

    @app.task(max_retries=0)
    async def job(ctx: Context, key: str) -> str:
        tell("start", task=str(ctx.id))
        await asyncio.sleep(0.001)
        return key

    @app.task(max_retries=0)
    async def voyage(ctx: Context, key: str) -> str:
        first = await ctx.step("first", said, key)
        legs = [ctx.child(job, {"key": f"{key}-{n}"}) for n in range(2)]
        await ctx.join(legs)
        return await ctx.step("last", said, first)

    @app.schedule(every=1, catch_up="all", name="first-tick")
    @app.schedule(every=1, catch_up="all", name="second-tick")
    @app.schedule(every=1, catch_up="all", name="third-tick")
    @app.task(max_retries=0)
    async def tick(ctx: Context) -> None:
        tell("tick", task=str(ctx.id))

    seat_agents(app)
    man_boats(app)
    take_orders(app)
    open_depot(app)
    return app


def seat_agents(app: Ferryman) -> None:
    @app.tool
    async def weigh(key: str) -> str:
        tell("tool", key=key)
        return f"{key} weighs"

    @app.agent(tools=["weigh"])
    async def clerk(turn: Turn) -> list[str]:
        key = await turn.step("read", said, str(turn.instruction))
        tell("turn", key=key)
        weight = str(await turn.call_tool("weigh", key=key))
        tell("resumed", key=key)
        return [key, await turn.step("write", said, weight)]


def man_boats(app: Ferryman) -> None:
    @app.agent
    async def oar(turn: Turn) -> dict[str, str]:
        tell("child", key=str(turn.instruction))
        return {"summary": f"{turn.instruction} rowed"}

    @app.agent(delegates_to=["oar"])
    async def cox(turn: Turn) -> list[Any]:
        key = str(turn.instruction)
        tell("forked", key=key)
        tasks = [{"target_strategy": "new", "target_ref": "oar", "instruction": f"{key}-{n}"} for n in range(CHILDREN)]
        joined: Any = await turn.fork_join(tasks, deadline_seconds=120)
        tell("joined", key=key)
        return [joined["status"], *(each["summary"] for each in joined["results"])]


def open_depot(app: Ferryman) -> None:
    sink = TableSink("public.cargo", key="id", columns=["id", "at", "value"])

    @app.source(name="depot", sink=sink, safety_lag=timedelta(0))
    async def depot(request: Request) -> Page:
        assert request.window is not None
        tell("page", position=request.position)
        numbers = range((request.window.since - DAWN) // EVERY, (request.window.until - DAWN) // EVERY)
        at = 0 if request.position == "start" else int(request.position)
        items = [{"id": n, "at": (DAWN + n * EVERY).isoformat(), "value": f"v{n}"} for n in numbers[at : at + PAGE]]
        more = at + PAGE < len(numbers)
        return Page(items, next=str(at + PAGE) if more else None, has_next=more)


def take_orders(app: Ferryman) -> None:
    @app.on_command("Crossing.Request")
    async def crossing(command: Command) -> Message:
        tell("mapping", key=command.payload["key"])
        return Message("Crossing.Boat.Hire", {"key": command.payload["key"]})

    @app.capability("Crossing.Boat.Hire")
    async def hire(key: str) -> str:
        tell("capability", key=key)
        return key


async def work(app: Ferryman, stop: asyncio.Event) -> None:
    await app.work(stop=stop)


async def produce(app: Ferryman, stop: asyncio.Event, place: int) -> None:
    """Ask for one thing after the other, each again until it is acknowledged."""
    for profile in ("clerk", "cox"):
        for n in range(AGENTS):
            await again(lambda name=f"{profile}-{n}", profile=profile: app.agents.ensure(name, profile))  # type: ignore[misc]
    number = 0
    while not stop.is_set():
        number += 1
        await ask(app, number, f"{os.getpid()}-{number}", place)
        await asyncio.sleep(PACE_SECONDS)


async def ask(app: Ferryman, number: int, key: str, place: int) -> None:
    match number % 20:
        case 3 | 13:
            await send(app, "clerk", number, key)
        case 5:
            await send(app, "cox", number, key)
        case 7 | 17:
            sent = await again(lambda: app.commands.send("Crossing.Request", {"key": key}, idempotency_key=key))
            tell("ok", command=str(sent.id))
        case 15:
            since = DAWN.replace(year=DAWN.year + 2 * place) + number // 20 * WINDOW
            planned = await again(lambda: app.ingest.plan("depot", since=since, until=since + WINDOW))
            tell("ok", plan=str(planned.id), records=[(since - DAWN) // EVERY, (since + WINDOW - DAWN) // EVERY])
        case digit:
            name = "job" if digit % 10 else "voyage"
            made = await again(lambda: app.tasks.create(name, {"key": key}, idempotency_key=key))
            tell("ok", task=str(made.id))


async def send(app: Ferryman, profile: str, number: int, key: str) -> None:
    turn, agent = uuid4(), f"{profile}-{number // 10 % AGENTS}"
    await again(lambda: app.agents.send(agent, key, turn=turn))
    tell("ok", turn=str(turn), key=key, profile=profile)


async def again(act: Callable[[], Awaitable[Value]]) -> Value:
    while True:
        try:
            return await act()
        except FerrymanError as error:
            tell("refused", code=error.code, said=str(error))
            await asyncio.sleep(PACE_SECONDS)


async def main(role: str, place: int) -> None:
    stop = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stop.set)
    async with build() as app:
        tell("working", knows=_newest())
        await (work(app, stop) if role == "worker" else produce(app, stop, place))
    tell("stopped")


def _newest() -> int:
    from ferryman.kernel import migrate

    return len(migrate.read())


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], int(sys.argv[2])))
