"""The program that is killed: an executor with several lives.

The mother forks a child for each line she reads, so that a life begins in milliseconds; the line is its plan of faults. The
server writes down what it is asked, in a file of its own, before it answers: the judge reads that file and not what the product
says of itself.
"""

import asyncio
import os
import signal
import sys
from datetime import timedelta
from typing import Any

from ferryman.ingest.ports import Page, Request
from ferryman.kernel import faults, telemetry
from tests.ingest.harbour import DAWN, HOUR, SOURCE, Server, harbour, hold

HOURS = 4
RECORDS = HOURS * 60
SIZE = 10
SETTINGS: dict[str, Any] = {"concurrency": 1, "lease": timedelta(seconds=4)}


class Witness(Server):
    """A server that writes down what it is asked."""

    def __init__(self, path: str) -> None:
        super().__init__(size=SIZE)
        self.fill(RECORDS)
        self._file = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)

    async def fetch(self, request: Request) -> Page:
        assert request.window is not None
        os.write(self._file, f"{request.window.since.isoformat()} {request.position}\n".encode())
        return await super().fetch(request)


def fences() -> int:
    """Return how often this process was told that a claim is not its own any more."""
    moves = [{"domain": "ingest", "move": move} for move in ("step", "settle", "renew")]
    return int(sum(telemetry.registry().get_sample_value("ferryman_fenced_total", each) or 0 for each in moves))


async def live(url: str, log: str, *, kind: str, concurrency: int) -> None:
    """Plan, which is the same plan in every life, and work until nothing of it is live."""
    settings = {**SETTINGS, "concurrency": concurrency}
    sink = hold() if kind == "table" else None
    async with harbour(url, Witness(log), settings=settings, sink=sink, ordered=kind == "ordered") as here:
        planned = await here.plan(source=SOURCE, since=DAWN, until=DAWN + HOURS * HOUR)
        assert planned.id is not None
        stop = asyncio.Event()
        asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stop.set)
        working = asyncio.create_task(here.app.work(stop=stop, poll=timedelta(milliseconds=20)))
        over = asyncio.create_task(here.app.ingest.wait(planned.id))
        stopped = asyncio.create_task(stop.wait())
        await asyncio.wait([working, over, stopped], return_when=asyncio.FIRST_COMPLETED)
        stop.set()
        await working
        over.cancel()


def become(words: list[str]) -> int:
    """Be the mother (see tests/forge.py)."""
    url, log, faults_log, kind, concurrency = words
    for line in sys.stdin:
        child = os.fork()
        if child == 0:
            faults.arm(line.strip(), log=faults_log)
            asyncio.run(live(url, log, kind=kind, concurrency=int(concurrency)))
            with open(f"{faults_log}.fenced", "a", encoding="utf-8") as told:
                told.write(f"{fences()}\n")
            os._exit(0)
        print("born", child, flush=True)
        _, status = os.waitpid(child, 0)
        print("died", os.waitstatus_to_exitcode(status), flush=True)
    return 0
