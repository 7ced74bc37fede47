"""An API is harvested by several executors while it storms and breaks, and one of them is killed in the middle."""

from __future__ import annotations

import asyncio
import os
import signal
import time
from datetime import timedelta
from uuid import UUID

from ferryman.app.ferryman import Ferryman
from ferryman.cli.demo import picture
from ferryman.cli.demo.depot import DAWN, HOURS, OK, OUT_OF_ORDER, PAGE, PAGES, PARCELS, TOO_MANY
from ferryman.cli.demo.stage import LOOK_SECONDS, PATIENCE_SECONDS, Stage
from ferryman.ingest.model import Progress
from ferryman.ingest.sinks import TableSink
from ferryman.ingest.sources import RestSource
from ferryman.kernel import db

TABLE = db.load("ferryman.cli.demo", "parcels")
COUNTED = db.load("ferryman.cli.demo", "counted")
EXECUTORS = db.load("ferryman.cli.demo", "executors")

SOURCE = "depot"
RATE = 100
ADDRESS = "DEMO_DEPOT_URL"
# Where nobody listens: an app that only shows what was asks for nothing.
NOWHERE = "http://127.0.0.1:9"
WIDTH = 64
KILLED_AT = 0.4


def declare(app: Ferryman) -> None:
    """Let an app have the source; the story tells its processes where the API is."""
    source = RestSource(
        url=os.environ.get(ADDRESS, NOWHERE) + "/{endpoint}",
        items="parcels",
        paging={"kind": "TOKEN", "param": "token", "next": "next", "size": PAGE},
        window={"since": "since", "until": "until"},
        updated_at="posted",
    )
    sink = TableSink(
        "parcels", schema=app.settings.schema, key="id", columns=["id", "weight", "posted"], updated_at="posted"
    )
    app.source(source, name=SOURCE, endpoint="parcels", sink=sink, rate=f"{RATE}/s", burst=4, safety_lag=timedelta(0))


async def harvesting(stage: Stage) -> None:
    """Everything that the API has arrives once, whatever happens on the way."""
    stage.tale.act("An API is read: it refuses, it breaks, and the process that reads it is killed")
    async with stage.app.database.session() as tx:
        await db.many(tx, TABLE)
    planned = await stage.app.ingest.plan(SOURCE, since=DAWN, until=DAWN + timedelta(hours=HOURS))
    assert planned.id is not None
    stage.tale.tell(
        f"the API has {len(PARCELS):,} parcels in {PAGES} pages; {planned.slices} slices of an hour, "
        f"at most {RATE} requests a second over all processes"
    )
    killed, rates = await _watch(stage, planned.id)
    [progress] = await stage.app.ingest.status(planned.id)
    _show(stage, killed, rates)
    await _judge(stage, progress)


async def _watch(stage: Stage, plan: UUID) -> tuple[float, list[tuple[float, float]]]:
    """Follow a plan to its end, and kill an executor on the way; return when, and which rates were allowed when."""
    rates: list[tuple[float, float]] = []
    killed = 0.0
    until = time.monotonic() + PATIENCE_SECONDS
    with stage.tale.counting("parcels", len(PARCELS)) as counter:
        while time.monotonic() < until:
            [progress] = await stage.app.ingest.status(plan)
            rates += [(time.monotonic(), gate.rate) for gate in await stage.app.ingest.gates()]
            counter.now(progress.items)
            if progress.over:
                break
            if not killed and progress.items >= KILLED_AT * len(PARCELS):
                killed = await _kill(stage)
            await asyncio.sleep(LOOK_SECONDS)
    return killed, rates


async def _kill(stage: Stage) -> float:
    """Kill the process that holds the most slices; return when, or 0 if none holds any now."""
    async with stage.app.database.session() as tx:
        row = await db.one(tx, EXECUTORS)
    if row is None:
        return 0.0
    victim = stage.hands.by_pid(row["pid"])
    stage.tale.tell(f"worker {victim.pid} reads {row['slices']} of the slices; kill -KILL {victim.pid}")
    victim.send(signal.SIGKILL)
    at = time.monotonic()
    await victim.process.wait()
    stage.tale.tell(f"worker {(await stage.hands.start()).pid} is started in its place")
    return at


def _show(stage: Stage, killed: float, rates: list[tuple[float, float]]) -> None:
    answers = stage.depot.answers
    marks = {
        "5": [each.at for each in answers if each.status == OUT_OF_ORDER],
        "4": [each.at for each in answers if each.status == TOO_MANY],
        "K": [killed] if killed else [],
    }
    lines = picture.curve(rates, marks, top=RATE, width=WIDTH, fancy=stage.tale.fancy)
    seconds = rates[-1][0] - rates[0][0] if rates else 0.0
    stage.tale.draw(
        [
            f"requests a second that were allowed, over {seconds:.1f} s:",
            *lines,
            f"4: refused with 429 ({stage.depot.count(TOO_MANY)} times, come back in a second), "
            f"5: out of order with 503 ({stage.depot.count(OUT_OF_ORDER)} times), K: the kill",
        ]
    )


async def _judge(stage: Stage, progress: Progress) -> None:
    async with stage.app.database.session() as tx:
        row = await db.one(tx, COUNTED)
    assert row is not None
    depot, measured = stage.depot, stage.measured
    measured.parcels, measured.parcels_there = row["parcels"], len(PARCELS)
    measured.refusals, measured.breakdowns = depot.count(TOO_MANY), depot.count(OUT_OF_ORDER)
    stage.tale.hold(
        progress.over and progress.share == 1.0 and row["resumed"] > 0,
        f"{progress.slices_done} slices are done; {row['resumed']} went on in another process, from the page they had reached",
    )
    again = depot.asked_again()
    held = (
        "nothing was in the dead process's hands"
        if not again
        else f"{again} of them again, for the dead process's sake"
    )
    stage.tale.tell(f"the API gave out {depot.count(OK)} pages; {held}")
    stage.tale.hold(
        row["parcels"] == row["written"] == len(PARCELS) and row["pages"] == PAGES,
        f"{row['parcels']:,} parcels in the table of {len(PARCELS):,} that the API has; {row['pages']} pages, each once",
    )
