"""What else is under way beside plain tasks: windows that are read into a table, turns that call a tool, batches."""

import asyncio
from datetime import timedelta

from ferryman import Ferryman, Turn
from ferryman.app.wiring import watched
from ferryman.ingest.model import Records
from ferryman.ingest.ports import Page, Request
from ferryman.ingest.sinks import TableSink
from ferryman.kernel import invariants
from ferryman.kernel.db import sqlstate
from tests.crash import judge
from tests.ingest.harbour import DAWN, HOUR, Server

SIZE, AN_HOUR = 10, 60  # records of a page, and of an hour


class Gate:
    """Lets what is under way come this far, once it is closed, and no farther until it is opened."""

    def __init__(self) -> None:
        self._reached = {name: asyncio.Event() for name in ("page", "turn", "child")}
        self._open = asyncio.Event()
        self._open.set()

    async def passed(self, name: str) -> None:
        self._reached[name].set()
        await self._open.wait()

    def close(self) -> None:
        self._open.clear()
        for each in self._reached.values():
            each.clear()

    async def reached(self) -> None:
        async with asyncio.timeout(30):
            await asyncio.gather(*(each.wait() for each in self._reached.values()))

    def open(self) -> None:
        self._open.set()


class Table(TableSink):
    """A sink that writes down what the short way of its pages was refused by."""

    refusals: list[str | None]

    def rejoins(self, records: Records, error: Exception) -> bool:
        self.refusals.append(sqlstate(error))
        return super().rejoins(records, error)


def built(url: str, listen_url: str, gate: Gate, *, hours: int, **worker: object) -> tuple[Ferryman, Table]:
    """Return an app that reads windows into a table, and whose agents call tools and fork."""
    app = Ferryman(url, listen_url=listen_url, worker={"poll": "0.1s", "lease": "60s", **worker})
    sink = Table("public.cargo", key="id", columns=["id", "at", "value"])
    sink.refusals = []
    server = Server(size=SIZE).fill(hours * AN_HOUR)

    @app.source(name="depot", sink=sink, safety_lag=timedelta(0))
    async def depot(request: Request) -> Page:
        if request.position == f"offset:{2 * SIZE}":
            await gate.passed("page")
        return await server.fetch(request)

    @app.tool
    async def weigh(key: str) -> str:
        return f"{key} weighs"

    @app.agent(tools=["weigh"])
    async def clerk(turn: Turn) -> str:
        said = str(await turn.call_tool("weigh", key=turn.instruction))
        await gate.passed("turn")
        return said

    @app.agent
    async def oar(turn: Turn) -> dict[str, str]:
        await gate.passed("child")
        return {"summary": f"{turn.instruction} rowed"}

    return app, sink


async def everything(app: Ferryman, hour: int) -> None:
    """Read an hour into the table, ask for a turn, fork a batch; all end as they should."""
    await app.agents.ensure("ada", "clerk")
    since = DAWN + hour * HOUR
    planned = await app.ingest.plan("depot", since=since, until=since + HOUR)
    assert planned.id is not None
    turn = await app.agents.send("ada", f"k{hour}")
    tasks = [{"target_strategy": "new", "target_ref": "oar", "instruction": f"{hour}-{n}"} for n in range(3)]
    batch = await app.batches.fork(tasks)

    progress = await app.ingest.wait(planned.id, timeout=60)
    joined = await batch.result(timeout=60)
    assert (progress.share, progress.items) == (1.0, AN_HOUR)
    assert await turn.result(timeout=60) == f"k{hour} weighs"
    assert joined["status"] == "success"
    assert [each["summary"] for each in joined["results"]] == [f"{hour}-{n} rowed" for n in range(3)]


async def written_once(url: str, *, hours: int) -> None:
    """Assert that each record and each page was written once, and that everything that must be true is."""
    rows = await judge.read(url, "select id, value, writes from public.cargo order by id")
    assert [tuple(row) for row in rows] == [(n, f"v{n}", 1) for n in range(hours * AN_HOUR)]
    pages = await judge.read(url, "select status, count(*) as n from ferryman.ingest_batch group by 1")
    assert [tuple(row) for row in pages] == [("SUCCEEDED", hours * AN_HOUR // SIZE)]
    async with Ferryman(url) as reader, reader.database.session() as tx:
        assert await invariants.check(tx, watched.invariants()) == []
