"""Sources and sinks that return or raise anything end their own task only (R6, K25): the worker and its neighbours go on."""

import asyncio
from collections.abc import Callable, Sequence
from datetime import timedelta
from typing import Any

import pytest

from ferryman import Ferryman
from ferryman.ingest.ports import Failure, FetchFailed, Item, Page, Request, Written
from ferryman.kernel.db import Tx
from tests.ingest.harbour import DAWN, HOUR, Cargo, Server, prepare
from tests.patience import PATIENCE_SECONDS
from tests.tasks.anything import ANYTHING, throw

WRONG: dict[str, Callable[[], Any]] = {what: act for what, (act, _) in ANYTHING.items()}
# A source that does not answer in its time is asked again when the circuit breaker lets it: that is no end.
SOURCES: dict[str, Callable[[], Any]] = {what: act for what, act in WRONG.items() if what != "timeout"} | {
    "a reason with a nul": lambda: throw(FetchFailed("a\0b", kind=Failure.BATCH)),
    "a reason with a surrogate": lambda: throw(FetchFailed("\ud800", kind=Failure.AUTH)),
    "a place with a surrogate": lambda: Page([{"id": 1}], "\ud800", True),
    "records that are none": lambda: Page(7, None, False),  # type: ignore[arg-type]
    "headers that are none": lambda: Page([], None, False, stats={"headers": object()}),
    "figures that cannot be stored": lambda: Page([], None, False, stats={"odd": object()}),
}
SINKS: dict[str, Callable[[], Any]] = WRONG | {
    "a reason with a nul": lambda: Written(0, [({"id": 1}, "a\0b")]),
    "a reason with a surrogate": lambda: Written(0, [({"id": 1}, "\ud800")]),
    "a reason that is no text": lambda: Written(0, [({"id": 1}, 7)]),  # type: ignore[list-item]
    "a record that cannot be read": lambda: Written(0, [(object(), "no")]),  # type: ignore[list-item]
}
# What is put aside is put aside: the page is done.
TAKEN = {"a reason with a nul", "a reason with a surrogate", "a reason that is no text", "a record that cannot be read"}


class Wrong:
    """A source that gives what it is told to."""

    def __init__(self, act: Callable[[], Any]) -> None:
        self._act = act

    async def fetch(self, request: Request) -> Page:
        return self._act()  # type: ignore[no-any-return]


class Sunk:
    """A sink that gives what it is told to."""

    def __init__(self, act: Callable[[], Any], *, same_database: bool) -> None:
        self._act = act
        self.same_database = same_database

    async def write(self, tx: Tx | None, items: Sequence[Item], *, batch_key: str) -> Written:
        return self._act()  # type: ignore[no-any-return]


@pytest.mark.contract("R6", "K25", "I8")
@pytest.mark.parametrize("part", ["source", "sink here", "sink elsewhere"])
async def test_a_source_or_a_sink_that_does_anything_ends_its_own_task_only(database_url: str, part: str) -> None:
    cases = SOURCES if part == "source" else SINKS
    app = Ferryman(database_url, ingest={"max_attempts": 1})
    names = {f"s{n}": what for n, what in enumerate(cases)}
    for name, what in names.items():
        act = cases[what]
        if part == "source":
            app.source(Wrong(act), name=name, sink=Cargo(), safety_lag=timedelta(0))
        else:
            app.source(
                Server().fill(5), name=name, sink=Sunk(act, same_database=part == "sink here"), safety_lag=timedelta(0)
            )
    app.source(Server().fill(60), name="sound", sink=Cargo(), safety_lag=timedelta(0))

    async with app, asyncio.timeout(PATIENCE_SECONDS):
        await prepare(app.database)
        async with app.worker():
            plans = {
                name: await app.ingest.plan(source=name, since=DAWN, until=DAWN + HOUR) for name in [*names, "sound"]
            }
            for plan in plans.values():
                assert plan.id is not None
                await app.ingest.wait(plan.id)
        async with app.database.session() as tx:
            rows = await tx.fetch("select source, status, error_reason from ferryman.ingest_task")

    ends = {row["source"]: row["status"] for row in rows}
    assert ends.pop("sound") == "SUCCEEDED"
    bad = set(names) if part == "source" else {name for name, what in names.items() if what not in TAKEN}
    assert {names[name]: status for name, status in ends.items() if name in bad and status != "FAILED"} == {}
    assert {names[name]: ends[name] for name in names if name not in bad and ends[name] != "SUCCEEDED"} == {}
    assert all(row["error_reason"] for row in rows if row["status"] == "FAILED")
