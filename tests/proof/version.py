"""A worker or a producer of whatever version is on the path: it uses only what the guide has promised from the first day."""

import asyncio
import json
import os
import signal
import sys
import time
from collections.abc import Awaitable, Callable
from typing import TypeVar
from uuid import uuid4

from ferryman import Command, Context, Ferryman, FerrymanError, Message, Turn

PACE_SECONDS = 0.004
AGENTS = 8

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
    take_orders(app)
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


async def produce(app: Ferryman, stop: asyncio.Event) -> None:
    """Ask for one thing after the other, each again until it is acknowledged."""
    for n in range(AGENTS):
        await again(lambda n=n: app.agents.ensure(f"clerk-{n}", "clerk"))  # type: ignore[misc]
    number = 0
    while not stop.is_set():
        number += 1
        await ask(app, number, f"{os.getpid()}-{number}")
        await asyncio.sleep(PACE_SECONDS)


async def ask(app: Ferryman, number: int, key: str) -> None:
    match number % 10:
        case 3:
            turn, agent = uuid4(), f"clerk-{number // 10 % AGENTS}"
            await again(lambda: app.agents.send(agent, key, turn=turn))
            tell("ok", turn=str(turn), key=key)
        case 7:
            sent = await again(lambda: app.commands.send("Crossing.Request", {"key": key}, idempotency_key=key))
            tell("ok", command=str(sent.id))
        case digit:
            name = "job" if digit else "voyage"
            made = await again(lambda: app.tasks.create(name, {"key": key}, idempotency_key=key))
            tell("ok", task=str(made.id))


async def again(act: Callable[[], Awaitable[Value]]) -> Value:
    while True:
        try:
            return await act()
        except FerrymanError as error:
            tell("refused", code=error.code, said=str(error))
            await asyncio.sleep(PACE_SECONDS)


async def main(role: str) -> None:
    stop = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stop.set)
    async with build() as app:
        tell("working", knows=_newest())
        await (work if role == "worker" else produce)(app, stop)
    tell("stopped")


def _newest() -> int:
    from ferryman.kernel import migrate

    return len(migrate.read())


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1]))
