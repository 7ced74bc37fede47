"""The app that the tests of the command line run."""

import asyncio

from ferryman import Context, Ferryman

app = Ferryman()
number = 7


@app.task
async def greet(name: str) -> str:
    return f"Hello, {name}"


@app.task(max_retries=0)
async def fall() -> None:
    raise ValueError("boom \x1b[31mred")


@app.task(timeout=600)
async def cross(ctx: Context) -> str:
    ctx.log("on the water")
    ctx.progress(40, "half way")
    await asyncio.sleep(600)
    return "across"
