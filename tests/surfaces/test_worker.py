"""`ferryman worker`: a process that is told to stop."""

import asyncio
import json
import signal
import socket
import urllib.request

import pytest

from ferryman import Ferryman, Handle
from ferryman.tasks.states import READY, RUNNING
from tests.crash.wire import wired
from tests.patience import PATIENCE_SECONDS
from tests.surfaces import ferry


async def on_the_water(app: Ferryman) -> Handle:
    """Create a task, and wait until its handler has spoken."""
    handle = await app.tasks.create("cross", {})
    async for word in handle.watch():
        if word.state is RUNNING and word.percent == 40:
            return handle
    raise AssertionError("it ended")


@pytest.mark.contract("K17")
@pytest.mark.parametrize("ask", [signal.SIGTERM, signal.SIGINT])
async def test_a_worker_that_is_told_to_stop_hands_back_what_it_holds(database_url: str, ask: signal.Signals) -> None:
    async with Ferryman(database_url) as app:
        with ferry.worker("--grace", "0.1s", url=database_url) as worker:
            handle = await on_the_water(app)
            worker.send_signal(ask)
            code = worker.wait(PATIENCE_SECONDS)

        task = await handle.refresh()
        assert code == 0
        assert (task.state, task.attempt, task.leased_until) == (READY, 1, None)


@pytest.mark.contract("K17")
async def test_a_second_signal_leaves_at_once(database_url: str) -> None:
    async with Ferryman(database_url) as app:
        with ferry.worker("--grace", "10m", url=database_url) as worker:
            await on_the_water(app)
            worker.send_signal(signal.SIGTERM)
            ferry.read_until(worker.stderr, "draining")
            worker.send_signal(signal.SIGTERM)

            assert worker.wait(PATIENCE_SECONDS) == 128 + signal.SIGTERM


@pytest.mark.contract("K24")
async def test_a_worker_started_before_its_database_says_so_waits_and_begins(database_url: str) -> None:
    async with wired(database_url) as (wire, url), Ferryman(database_url) as app:
        wire.refuse()
        with ferry.running("worker", "--app", "shop:app", url=url) as worker:
            said = await asyncio.to_thread(ferry.read_until, worker.stderr, "waiting for the database")
            wire.mend()
            await asyncio.to_thread(ferry.read_until, worker.stderr, "working")
            handle = await app.tasks.create("greet", {"name": "Ada"})

            assert await handle.result(timeout=PATIENCE_SECONDS) == "Hello, Ada"
            worker.send_signal(signal.SIGTERM)
            assert await asyncio.to_thread(worker.wait, PATIENCE_SECONDS) == 0

    assert "PostgreSQL cannot be used now" in said[-1]


@pytest.mark.contract("K17", "K24")
async def test_a_worker_that_waits_for_its_database_goes_when_told(database_url: str) -> None:
    async with wired(database_url) as (wire, url):
        wire.refuse()
        with ferry.running("worker", "--app", "shop:app", url=url) as worker:
            await asyncio.to_thread(ferry.read_until, worker.stderr, "waiting for the database")
            worker.send_signal(signal.SIGTERM)

            assert await asyncio.to_thread(worker.wait, PATIENCE_SECONDS) == 0


@pytest.mark.contract("K19")
def test_a_worker_answers_prometheus_and_logs_json(database_url: str) -> None:
    with socket.socket() as kept:
        # Bound until the end, so that nobody else is given this port; who asks for it by its number may listen there.
        kept.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        kept.bind(("127.0.0.1", 0))
        port = kept.getsockname()[1]
        with ferry.running(
            "worker", "--app", "shop:app", "--log", "json", "--metrics-port", str(port), url=database_url
        ) as worker:
            lines = ferry.read_until(worker.stderr, '"working"')
            with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=30) as answer:
                metrics = answer.read().decode()
            worker.send_signal(signal.SIGTERM)
            assert worker.wait(PATIENCE_SECONDS) == 0

    assert "ferryman_claimed_total" in metrics
    said = json.loads(lines[-1])
    assert said["queues"] == ["default"]
    assert said["level"] == "info"
