"""The handlers of the story, and the app that holds them."""

from __future__ import annotations

import asyncio
import os

from ferryman.app.ferryman import Ferryman
from ferryman.tasks.work.context import Context

# The address comes from the environment: the story gives its worker processes the one it uses.
app = Ferryman()

STEPS = 10


@app.task
async def greet(name: str) -> str:
    """Answer at once."""
    return f"Hello, {name}"


@app.task(max_retries=3, backoff=0.3)
async def stumble(falls: int, ctx: Context) -> str:
    """Fail a few times, then succeed."""
    if ctx.attempt <= falls:
        raise RuntimeError(f"stumbled, attempt {ctx.attempt}")
    return f"stood at attempt {ctx.attempt}"


@app.task(timeout=0.5, max_retries=0)
async def dawdle() -> None:
    """Take longer than allowed."""
    await asyncio.sleep(60)


@app.task(timeout=60)
async def cross(seconds: float, ctx: Context) -> dict[str, int]:
    """Take some time and say how far it is; answer who did it."""
    for step in range(STEPS):
        ctx.progress(step * 100 // STEPS, f"pid {os.getpid()}")
        await asyncio.sleep(seconds / STEPS)
    return {"pid": os.getpid(), "attempt": ctx.attempt}


@app.task(timeout=60)
async def insist(seconds: float, ctx: Context) -> dict[str, int]:
    """Hold on to the work whatever happens: asked to stop, it still hands in its result."""
    ctx.progress(0, f"pid {os.getpid()}")
    try:
        await asyncio.sleep(seconds)
    except asyncio.CancelledError:
        ctx.log("asked to stop, and did not listen", level="warning")
    return {"pid": os.getpid(), "attempt": ctx.attempt}


@app.task
async def count(n: int) -> int:
    """Do next to nothing: what is measured is all around it."""
    return n
