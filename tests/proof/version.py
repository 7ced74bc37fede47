"""A worker or a producer of whatever version is on the path: it uses only what the guide has promised from the first day."""

import asyncio
import json
import os
import signal
import sys
import time

from ferryman import Context, Ferryman, FerrymanError

PACE_SECONDS = 0.004


def tell(what: str, **more: object) -> None:
    """Write one line, whole."""
    os.write(1, f"{json.dumps({'what': what, 'at': time.monotonic(), **more})}\n".encode())


def build() -> Ferryman:
    app = Ferryman()

    @app.task(max_retries=0)
    async def job(ctx: Context, key: str) -> str:
        tell("start", task=str(ctx.id))
        await asyncio.sleep(0.001)
        return key

    @app.task(max_retries=0)
    async def voyage(ctx: Context, key: str) -> str:
        async def said(word: str) -> str:
            return word

        first = await ctx.step("first", said, key)
        legs = [ctx.child(job, {"key": f"{key}-{n}"}) for n in range(2)]
        await ctx.join(legs)
        return await ctx.step("last", said, first)

    @app.task(max_retries=0)
    async def tick() -> None:
        tell("tick")

    return app


async def work(app: Ferryman, stop: asyncio.Event) -> None:
    await app.work(stop=stop)


async def produce(app: Ferryman, stop: asyncio.Event) -> None:
    """Create one after the other, each again until it is acknowledged."""
    number = 0
    while not stop.is_set():
        number += 1
        key = f"{os.getpid()}-{number}"
        name = "voyage" if number % 10 == 0 else "job"
        while True:
            try:
                made = await app.tasks.create(name, {"key": key}, idempotency_key=key)
            except FerrymanError as error:
                tell("refused", code=error.code, said=str(error))
                await asyncio.sleep(PACE_SECONDS)
            else:
                tell("ok", task=str(made.id))
                break
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
