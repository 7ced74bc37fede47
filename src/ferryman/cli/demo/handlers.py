"""The handlers of the story, and the app that holds them."""

from __future__ import annotations

import asyncio
import os
import time
from pathlib import Path
from typing import Any

from ferryman.app.ferryman import Ferryman
from ferryman.cli.demo import assistant, batch, harvest, novel
from ferryman.tasks.work.context import Context

# The address comes from the environment: the story gives its worker processes the one it uses.
app = Ferryman()
assistant.register(app)
batch.register(app)
harvest.declare(app)

STEPS = 10
THOUGHT_SECONDS = 0.2
PASSAGE_SECONDS = 0.1
SLUICE_SECONDS = 0.02
PAUSE_SECONDS = 30.0
CRATES = ("apples", "bread", "cider", "dates", "eggs")
RESTS_AFTER = 3
STRAIT = "strait"
STRAIT_SLOTS = 3

app.queue(STRAIT, concurrency=STRAIT_SLOTS)
novel.write(app)


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


@app.task
async def chime(bell: int) -> int:
    """Do what a schedule asks for."""
    return bell


@app.task
async def ship(order: int) -> str:
    """Do what belongs to an order."""
    return f"order {order} is on its way"


def stow(ledger: str, crate: str) -> str:
    """Leave a line that no rollback and no memory takes back: what stands in the ledger was really done."""
    with Path(ledger).open("a") as book:
        book.write(f"{crate} {os.getpid()}\n")
    return crate


@app.task(timeout=60)
async def load(ledger: str, ctx: Context) -> dict[str, int]:
    """Stow crates, each in a step; the first attempt rests between two of them, so that it can be killed there."""
    for stowed, crate in enumerate(CRATES, 1):
        await ctx.step(crate, stow, ledger, crate)
        if stowed == RESTS_AFTER and ctx.attempt == 1:
            ctx.progress(stowed * 100 // len(CRATES), "resting")
            await asyncio.sleep(PAUSE_SECONDS)
    return {"pid": os.getpid(), "attempt": ctx.attempt}


@app.task
async def price(shop: int) -> int:
    """Answer for one shop, after some thought."""
    await asyncio.sleep(THOUGHT_SECONDS)
    return 40 + shop


@app.task
async def quote(shops: int, ctx: Context) -> str:
    """Ask all shops at once, and a person about the best price."""
    prices = await ctx.join([ctx.child(price, shop=shop) for shop in range(shops)])
    word = await ctx.wait_event("approval")
    return f"{word['by']} takes it for {min(prices)}"


@app.task(queue=STRAIT)
async def pass_through(boat: int, sluice: str) -> dict[str, Any]:
    """Be in the strait until the sluice is open, and for a moment; say from when to when.

    The machine's clock is the same for all its processes. Those that come first wait for the sluice, so that everybody can see
    how many there are, however slow the machine is.
    """
    began = time.monotonic()
    while _shut(sluice):  # noqa: ASYNC110 - opened by another process
        await asyncio.sleep(SLUICE_SECONDS)
    await asyncio.sleep(PASSAGE_SECONDS)
    return {"boat": boat, "pid": os.getpid(), "began": began, "ended": time.monotonic()}


def _shut(sluice: str) -> bool:
    return not Path(sluice).exists()
