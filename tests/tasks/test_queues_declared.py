"""Queues are declared, refused and looked after."""

import asyncio
from datetime import timedelta
from typing import Any

import pytest

from ferryman import Client
from ferryman.app import wiring
from ferryman.kernel import errors, watchdog
from ferryman.kernel.pool import Line
from ferryman.testing import travel
from tests.patience import PATIENCE_SECONDS
from tests.tasks.conftest import MakeApp
from tests.tasks.hall import job, results

pytestmark = pytest.mark.contract("T17")

# Declaring


async def test_a_declared_queue_is_stored_when_a_worker_starts(make_app: MakeApp) -> None:
    app = await make_app((job, {"queue": "mail"}))
    app.queue(
        "mail",
        concurrency=5,
        key_concurrency=2,
        rate="100/minute",
        burst=7,
        weight=3,
        max_depth=50,
        at_limit="coalesce",
    )
    async with app.worker(queues=["mail"]):
        await results([await app.tasks.create(job)])

    queue = await app.queues.get("mail")
    assert (queue.concurrency, queue.key_concurrency, queue.rate, queue.burst) == (5, 2, "100/minute", 7)
    assert (queue.weight, queue.max_depth, queue.at_limit) == (3, 50, "coalesce")


async def test_an_app_that_declares_its_queues_refuses_others(make_app: MakeApp) -> None:
    app = await make_app(job)
    app.queue("mail")

    with pytest.raises(errors.UnknownQueue, match="Did you mean mail"):
        await app.tasks.create(job, queue="mails")

    assert (await app.tasks.create(job)).task.queue == "default"
    assert len(await app.tasks.list()) == 1


@pytest.mark.parametrize(
    "ask",
    [
        lambda queues: queues.set("nobody", concurrency=1), lambda queues: queues.pause("nobody"),
        lambda queues: queues.resume("nobody"), lambda queues: queues.get("nobody"),
    ],
)  # fmt: skip
async def test_a_queue_that_nobody_knows_is_refused_and_not_made(make_app: MakeApp, ask: Any) -> None:
    app = await make_app(job)

    with pytest.raises(errors.UnknownQueue):
        await ask(app.queues)

    assert await app.queues.list() == []


@pytest.mark.parametrize(
    "terms", [{"concurrency": 0}, {"rate": "often"}, {"weight": -1}, {"max_depth": 0}, {"colour": "red"}]
)
async def test_what_cannot_be_agreed_is_refused_and_changes_nothing(make_app: MakeApp, terms: dict[str, Any]) -> None:
    app = await make_app(job)
    with pytest.raises(errors.QueueInvalid):
        await app.queues.set("default", new=True, **terms)
    with pytest.raises((errors.QueueInvalid, TypeError)):
        app.queue("mail", **terms)

    assert await app.queues.list() == []


async def test_the_watchdog_rings_for_a_task_that_stands_before_a_free_slot(
    make_app: MakeApp, database_url: str
) -> None:
    app = await make_app(job)
    await app.queues.set("default", new=True, concurrency=1)
    rung = asyncio.Event()
    app.doorbell.listen("queues", lambda _hints: rung.set())
    await app.tasks.create(job, priority=-9)
    rules = [rule for rule in wiring.rules(app._open) if rule.name == "T17"]

    line = Line(database_url)
    report = await watchdog.tick(line, rules)
    await line.close()

    assert report.outcomes[0].found == 1
    await asyncio.wait_for(rung.wait(), PATIENCE_SECONDS)


@pytest.mark.parametrize(("waited", "first"), [(timedelta(minutes=17), "urgent"), (timedelta(minutes=19), "patient")])
async def test_priority_ages_so_that_no_stream_of_urgent_work_keeps_the_rest_waiting_for_ever(
    make_app: MakeApp, waited: timedelta, first: str
) -> None:
    began = list[str]()

    async def note(who: str) -> None:
        began.append(who)

    app = await make_app(note)
    patient = await app.tasks.create(note, who="patient", priority=9)
    async with app.database.session() as tx:
        await travel(tx, waited)  # from 9 to -9 are eighteen steps of a minute
    urgent = await app.tasks.create(note, who="urgent", priority=-9)

    async with app.worker(concurrency=1):
        await results([patient, urgent])

    assert began[0] == first


def test_plain_code_reaches_queues_and_tries_anew(database_url: str) -> None:
    with Client(database_url) as client:
        task = client.create("greet", queue="mail")
        assert client.queues.set("mail", concurrency=2).concurrency == 2
        client.queues.pause("mail")
        assert client.queues.get("mail").paused_at is not None
        client.queues.resume("mail")
        client.queues.pause_task("greet")
        client.queues.resume_task("greet")
        task.cancel()
        assert [each.old for each in client.retry(task.id)] == [task.id]
        assert [queue.name for queue in client.queues.list()] == ["mail"]
        assert client.queues.holders("mail") == []
