"""`ferryman bench`: how fast this is on your own database, from here.

In a schema of its own that is dropped at the end, whatever happens; nothing else is touched. The time is bounded: what takes
longer than its part is cut off, and the rate of what was done until then is told.
"""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import asdict, dataclass
from typing import Annotated

from ferryman.app import wiring
from ferryman.app.ferryman import Ferryman
from ferryman.cli.apps import overridden
from ferryman.cli.options import PLAIN, Options
from ferryman.cli.schema import drop
from ferryman.cli.screen import Screen
from ferryman.cli.words import command, says
from ferryman.kernel import errors, setting
from ferryman.tasks.intake import read
from ferryman.tasks.rules.request import DEFAULT_NAME

MOST = 1_000_000
SET = 1000
ALONE = 50
# For each of the four parts.
SECONDS = 30.0
LOOK_SECONDS = 0.05
HANDLER = "bench"


@dataclass(frozen=True)
class Measured:
    """What was measured; rates are a second's, times are milliseconds."""

    round_trip_ms: float
    created: int
    created_per_second: float
    done: int
    done_per_second: float
    answer_p50_ms: float
    answer_p99_ms: float


async def bench(
    *,
    tasks: Annotated[int, says("How many tasks to create and run.")] = 5000,
    options: Options = PLAIN,
) -> None:
    """Measure creating and running tasks on your own database, from this machine.

    It works in a schema of its own, ferryman_bench_…, with one worker in this process, for two minutes at most, and drops the
    schema. What it puts on the server is real load: think before you run it beside your users.
    """
    if not 1 <= tasks <= MOST:
        raise errors.UsageInvalid(f"--tasks: expected 1 to {MOST:,}, got {tasks:,}.")
    given = options.settings()
    screen = options.screen
    url = await wiring.address(given)
    schema = f"ferryman_bench_{os.getpid()}"
    app = Ferryman(settings=overridden(given, {"database_url": url, "schema": schema}))
    app.task(name=HANDLER)(_nothing)
    screen.say(f"On {setting.show(url)}, in the schema {schema}, which is dropped at the end.")
    try:
        await app.migrate()
        async with app:
            measured = await _measure(app, screen, tasks)
    finally:
        await drop(url, schema)
    if screen.json:
        screen.document(asdict(measured))
    else:
        _show(screen, measured)


async def _nothing(n: int) -> int:
    return n


async def _measure(app: Ferryman, screen: Screen, tasks: int) -> Measured:
    trip = await _round_trip(app)
    screen.say(f"creating {tasks:,} tasks, in sets of {SET:,} …")
    began = time.perf_counter()
    created = await _create(app, tasks)
    creating = time.perf_counter() - began
    screen.say("running them, with one worker …")
    began = time.perf_counter()
    async with app.worker(queues=[DEFAULT_NAME]):
        left = await _drain(app)
        draining = time.perf_counter() - began
        screen.say(f"asking {ALONE} times for one task and its result …")
        answers = await _each(lambda n: _answer(app, n), ALONE) if not left else []
    return Measured(
        round_trip_ms=round(trip, 2),
        created=created,
        created_per_second=round(created / creating),
        done=created - left,
        done_per_second=round((created - left) / draining),
        answer_p50_ms=round(_part(answers, 0.5), 1),
        answer_p99_ms=round(_part(answers, 0.99), 1),
    )


async def _round_trip(app: Ferryman) -> float:
    async def ask(_n: int) -> None:
        async with app.database.session() as tx:
            await tx.fetch("select 1")

    return _part(await _each(ask, ALONE), 0.5)


async def _create(app: Ferryman, tasks: int) -> int:
    until, created = time.monotonic() + SECONDS, 0
    while created < tasks and time.monotonic() < until:
        size = min(SET, tasks - created)
        await app.tasks.create_many(HANDLER, [{"n": created + n} for n in range(size)])
        created += size
    return created


async def _drain(app: Ferryman) -> int:
    """Wait until nothing is left, or the time is over; return how many are."""
    until = time.monotonic() + SECONDS
    while True:
        async with app.database.session() as tx:
            left = sum(each.count for each in await read.depth(tx))
        if not left or time.monotonic() > until:
            return left
        await asyncio.sleep(LOOK_SECONDS)


async def _answer(app: Ferryman, n: int) -> None:
    handle = await app.tasks.create(HANDLER, n=n)
    await handle.result(timeout=SECONDS)


async def _each(act: Callable[[int], Awaitable[None]], times: int) -> list[float]:
    """Do something several times, one after the other, within its time; return how long each took, in milliseconds."""
    until, took = time.monotonic() + SECONDS, []
    for n in range(times):
        began = time.perf_counter()
        await act(n)
        took.append((time.perf_counter() - began) * 1000)
        if time.monotonic() > until:
            break
    return took


def _part(times: Sequence[float], share: float) -> float:
    """Return the time that this share does not exceed; 0 where nothing was measured."""
    ordered = sorted(times)
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))] if ordered else 0.0


def _show(screen: Screen, measured: Measured) -> None:
    screen.pairs(
        [
            ("one round trip", f"{measured.round_trip_ms:.2f} ms"),
            ("created", f"{measured.created:,} tasks, {measured.created_per_second:,.0f} a second"),
            ("run", f"{measured.done:,} tasks by one worker, {measured.done_per_second:,.0f} a second"),
            ("from create to result", f"{measured.answer_p50_ms:.1f} ms p50, {measured.answer_p99_ms:.1f} ms p99"),
        ]
    )


program = command("bench", bench)
