"""A worker's own life: what it does when a part of it dies, or when the database is away as it begins or stops."""

import asyncio
import logging
from collections.abc import Callable
from typing import Any

import pytest

from ferryman import Ferryman
from ferryman.kernel import errors
from ferryman.kernel.doorbell import Heard, NoDoorbell
from ferryman.kernel.keeper import Keeper
from ferryman.kernel.loop import Pump
from ferryman.kernel.watchdog import Watchdog
from ferryman.tasks.work.due import Sweep
from tests.crash import judge
from tests.crash.wire import wired
from tests.patience import PATIENCE_SECONDS

HELD = "select state, attempt, epoch, leased_until is not null as leased from ferryman.tasks"
CONNECTED = (
    "select count(*) as n from pg_stat_activity"
    " where datname = current_database() and application_name like 'ferryman%'"
)


class Boat:
    """An app whose one handler waits until it is let go."""

    def __init__(self, url: str, **worker: Any) -> None:
        self.app = Ferryman(url, worker={"poll": "0.1s", "grace": "0.1s", **worker})
        self.started, self.go = asyncio.Event(), asyncio.Event()
        self.app.task(name="held")(self.held)

    async def held(self) -> str:
        self.started.set()
        await self.go.wait()
        return "done"


async def die(*_: Any) -> None:
    """Stand in for a part with a defect."""
    raise ZeroDivisionError("a defect")


@pytest.mark.contract("K17", "K20")
@pytest.mark.parametrize(
    ("name", "kind", "method"),
    [
        ("sweep", Sweep, "_rest"),
        ("pump", Pump, "run"),
        ("keeper", Keeper, "_rest"),
        ("watchdog", Watchdog, "_rest"),
    ],
)
async def test_a_worker_whose_part_dies_hands_back_its_work_and_says_so(
    database_url: str,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    name: str,
    kind: type,
    method: str,
) -> None:
    boat = Boat(database_url)
    begun = getattr(kind, method)

    async def until_started(self: Any, *given: Any) -> None:
        """Live as ever until the handler runs, then die."""
        living = asyncio.ensure_future(begun(self, *given))
        try:
            while not boat.started.is_set():  # noqa: ASYNC110 - seen from a thread of another loop
                await asyncio.sleep(0.01)
        finally:
            living.cancel()
        await die()

    monkeypatch.setattr(kind, method, until_started)
    async with boat.app as app:
        await app.tasks.create("held")

        async with asyncio.timeout(PATIENCE_SECONDS):
            with pytest.raises(
                errors.WorkerBroken, match=f"The {name} of this worker has died.*ZeroDivisionError"
            ) as told:
                await app.work()

    assert isinstance(told.value.__cause__, ZeroDivisionError)
    assert [(row["state"], row["attempt"], row["leased"]) for row in await judge.read(database_url, HELD)] == [
        ("ready", 1, False)
    ]
    [said] = [record for record in caplog.records if record.levelno == logging.CRITICAL]
    assert said.message == f"the {name} of this worker has died: the worker stops"


class Deaf(NoDoorbell):
    """A doorbell that refuses to be listened to about what is due."""

    def listen(self, topic: str, heard: Heard) -> Callable[[], None]:
        if topic == "due":
            raise ValueError("no such topic")
        return super().listen(topic, heard)


@pytest.mark.contract("K20")
async def test_a_worker_that_is_broken_from_the_first_moment_says_so(database_url: str) -> None:
    async with Ferryman(database_url, doorbell=Deaf()) as app, asyncio.timeout(PATIENCE_SECONDS):
        with pytest.raises(errors.WorkerBroken, match="no such topic"):
            await app.work()


@pytest.mark.contract("K24")
async def test_a_worker_that_cannot_begin_leaves_no_connection_behind(database_url: str) -> None:
    async with Ferryman(database_url, doorbell="none") as app:
        [before] = await judge.read(database_url, CONNECTED)
        await judge.read(database_url, "alter table ferryman.settings rename column value to worth")

        with pytest.raises(Exception, match="value"):
            await app.work()

        # A connection that was closed is gone for the server a moment later; one that was left behind stays.
        async with asyncio.timeout(PATIENCE_SECONDS):
            while (await judge.read(database_url, CONNECTED))[0]["n"] != before["n"]:
                pass


@pytest.mark.contract("K24")
async def test_a_worker_begins_when_the_database_that_went_away_is_back(
    database_url: str, caplog: pytest.LogCaptureFixture
) -> None:
    async with wired(database_url) as (wire, url):
        boat = Boat(url)
        boat.go.set()
        async with boat.app as app, Ferryman(database_url) as client:
            client.declare("held")
            wire.refuse()
            working = asyncio.ensure_future(app.work(stop=(stop := asyncio.Event())))
            await seen(lambda: any(said.startswith("waiting for the database") for said in caplog.messages))
            wire.mend()
            handle = await client.tasks.create("held")

            assert await handle.result(timeout=PATIENCE_SECONDS) == "done"
            stop.set()
            await asyncio.wait_for(working, PATIENCE_SECONDS)


@pytest.mark.contract("K24")
async def test_an_app_may_be_opened_before_its_database_is_there(
    database_url: str, caplog: pytest.LogCaptureFixture
) -> None:
    async with wired(database_url) as (wire, url):
        wire.refuse()
        boat, stop = Boat(url), asyncio.Event()
        opening = asyncio.ensure_future(boat.app.open(unless=stop))
        await seen(lambda: any(said.startswith("waiting for the database") for said in caplog.messages))
        wire.mend()

        app = await asyncio.wait_for(opening, PATIENCE_SECONDS)
        assert (await app.tasks.create("held")).task.name == "held"
        await app.close()


@pytest.mark.contract("K17", "K24")
async def test_an_app_that_waits_for_its_database_stops_when_told(
    database_url: str, caplog: pytest.LogCaptureFixture
) -> None:
    async with wired(database_url) as (wire, url):
        wire.refuse()
        boat, stop = Boat(url), asyncio.Event()
        opening = asyncio.ensure_future(boat.app.open(unless=stop))
        await seen(lambda: any(said.startswith("waiting for the database") for said in caplog.messages))

        stop.set()

        app = await asyncio.wait_for(opening, PATIENCE_SECONDS)
        with pytest.raises(errors.NotOpen):
            _ = app.tasks


async def test_a_wrong_address_is_told_and_not_waited_for(database_url: str) -> None:
    wrong = database_url.replace("postgres@", "nobody_here@")

    async with asyncio.timeout(PATIENCE_SECONDS):
        with pytest.raises(errors.DatabaseRefused):
            await Ferryman(wrong).open(unless=asyncio.Event())


@pytest.mark.contract("K17", "K24")
async def test_what_a_stopping_worker_claimed_unseen_is_handed_back_when_the_database_answers(
    database_url: str,
) -> None:
    async with wired(database_url) as (wire, url), Ferryman(database_url) as client:
        boat = Boat(url, lease="60s")
        client.declare("held")
        async with boat.app as app:
            wire.cut_answer("held-unseen", then=wire.refuse)
            working = asyncio.ensure_future(app.work(stop=(stop := asyncio.Event())))
            await client.tasks.create("held", task_id="held-unseen")
            await seen(lambda: wire.cuts == 1)
            [unseen] = await judge.read(database_url, HELD)
            stop.set()
            wire.mend()
            await asyncio.wait_for(working, PATIENCE_SECONDS)

    [row] = await judge.read(database_url, HELD)
    assert (unseen["state"], unseen["epoch"]) == ("running", 1)
    assert (row["state"], row["attempt"], row["leased"]) == ("ready", 1, False)
    assert not boat.started.is_set()


@pytest.mark.contract("K17", "K24", "W13")
async def test_a_worker_stopped_while_the_database_is_away_ends_in_time_and_its_lease_does_the_rest(
    database_url: str, caplog: pytest.LogCaptureFixture
) -> None:
    lease = {"lease": "2s", "lease_sweep_seconds": 0.2, "watchdog_interval_seconds": 0.5}
    async with wired(database_url) as (wire, url), Ferryman(database_url) as client:
        client.declare("held")
        handle = await client.tasks.create("held", backoff=0.05)
        leaver, successor = Boat(url, **lease), Boat(database_url, **lease)
        successor.go.set()
        async with leaver.app as app:
            working = asyncio.ensure_future(app.work(stop=(stop := asyncio.Event())))
            await asyncio.wait_for(leaver.started.wait(), PATIENCE_SECONDS)
            wire.refuse()
            stop.set()
            await asyncio.wait_for(working, 2 + 15)  # its lease, and what each of its parts may take to leave
        assert "stopped without the database: leases end what could not be handed back" in caplog.messages

        async with successor.app as app, app.worker():
            assert await handle.result(timeout=PATIENCE_SECONDS) == "done"

    [row] = await judge.read(database_url, HELD)
    assert (row["state"], row["attempt"]) == ("succeeded", 2)


async def seen(look: Callable[[], bool]) -> None:
    async with asyncio.timeout(PATIENCE_SECONDS):
        while not look():  # noqa: ASYNC110 - a log has no event
            await asyncio.sleep(0.01)
