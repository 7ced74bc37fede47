"""The worker protocol: programs in other languages claim, keep and end tasks over HTTP."""

import asyncio
import shutil
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any
from uuid import uuid4

import aiohttp
import pytest

from ferryman import Context, Ferryman
from ferryman.http.serving import serving
from ferryman.tasks.work import words
from ferryman.testing import travel
from tests.conformance.ear import Ear
from tests.conformance.forger import at_postgres, forge, lane
from tests.http.conftest import Client, Reply
from tests.patience import PATIENCE_SECONDS

EXAMPLES = Path(__file__).resolve().parent.parent.parent / "examples"
# Where there is a Node, the worker in JavaScript is tried as well.
WORKERS = {"python": [sys.executable, str(EXAMPLES / "worker.py")]}
if node := shutil.which("node"):
    WORKERS["node"] = [node, str(EXAMPLES / "worker.mjs")]

LEASE = timedelta(seconds=20)


@pytest.fixture
async def app(database_url: str) -> AsyncIterator[Ferryman]:
    """An app whose handlers all run elsewhere."""
    ferryman = Ferryman(
        database_url, worker={"lease": LEASE, "watchdog_interval_seconds": 0.2, "lease_sweep_seconds": 0.2}
    )
    for name in ("shout", "nap"):
        ferryman.declare(name)
    async with ferryman:
        yield ferryman


class Hand:
    """A worker that the test leads by the hand."""

    def __init__(self, client: Client, worker: str) -> None:
        self.client = client
        self.worker = worker

    async def post(self, path: str, **body: Any) -> Reply:
        return await self.client.post(f"/v1/worker/{path}", {"worker": self.worker, **body})

    async def claim(self, **body: Any) -> list[dict[str, Any]]:
        told = await self.post("claim", **body)
        assert told.status == 200, told.json
        tasks: list[dict[str, Any]] = told.json["tasks"]
        return tasks


async def hello(client: Client, *handlers: str, **more: Any) -> Hand:
    told = await client.post("/v1/worker", {"handlers": handlers or ["shout"], **more})
    assert told.status == 201, told.json
    return Hand(client, told.json["worker"])


def claim_of(task: dict[str, Any]) -> dict[str, Any]:
    return {"id": task["id"], "epoch": task["epoch"]}


@asynccontextmanager
async def process(command: list[str], client: Client) -> AsyncIterator[asyncio.subprocess.Process]:
    running = await asyncio.create_subprocess_exec(*command, client.url, stdout=asyncio.subprocess.PIPE)
    try:
        await said(running, b"ready")
        yield running
    finally:
        if running.returncode is None:
            running.kill()
        await running.wait()


async def said(running: asyncio.subprocess.Process, word: bytes) -> None:
    assert running.stdout is not None
    async with asyncio.timeout(PATIENCE_SECONDS):
        while word not in (line := await running.stdout.readline()):
            assert line, "the worker ended"


async def reap(app: Ferryman) -> None:
    """Let the leases pass, and do what the watchdog does about it."""
    [rule] = [each for each in app.rules() if each.name == "W13"]
    async with app.database.transaction() as tx:
        await travel(tx, LEASE * 2)
        found = await rule.find(tx, rule.limit)
        assert found
        await rule.act(tx, found)


@pytest.mark.contract("S4", "K5", "K17")
@pytest.mark.parametrize("language", WORKERS)
async def test_a_worker_in_another_language_works_and_when_it_is_killed_its_task_runs_again(
    app: Ferryman, client: Client, language: str
) -> None:
    good = await app.tasks.create("shout", text="land ho")
    bad = await app.tasks.create("shout", max_retries=0)
    async with process(WORKERS[language], client) as running:
        assert await good.result(timeout=PATIENCE_SECONDS) == "LAND HO"
        told = (await client.get(f"/v1/tasks/{bad.id}/result?wait=20")).json
        assert (told["state"], told["code"]) == ("failed", "TASK_RETRY_EXHAUSTED")
        assert "there is no text to shout" in told["reason"]

        task = await app.tasks.create("nap", seconds=30)
        await said(running, b"napping")
        running.kill()
        await running.wait()
    await reap(app)
    second = await hello(client, "nap")
    [again] = await second.claim()
    done = await second.post("complete", **claim_of(again), result="rested")
    assert (again["id"], again["attempt"], done.json["state"]) == (str(task.id), 2, "succeeded")
    events = [event["payload"]["reason_message"] for event in (await client.get(f"/v1/tasks/{task.id}/events")).json]
    assert "lease_expired" in events


@pytest.mark.contract("S4", "K4", "T7")
async def test_a_zombie_cannot_end_the_task_of_its_successor(app: Ferryman, client: Client) -> None:
    task = await app.tasks.create("shout", text="a")
    zombie, successor = await hello(client), await hello(client)
    [first] = await zombie.claim()
    await reap(app)
    [second] = await successor.claim()

    late = {
        word: await zombie.post(word, **claim_of(first), **more)
        for word, more in (
            ("complete", {"result": "Z"}), ("fail", {"reason": "z"}), ("release", {}), ("progress", {"percent": 5}),
        )
    }  # fmt: skip
    kept = await zombie.post("heartbeat", held=[claim_of(first)])
    forged = await zombie.post("complete", **claim_of(second), result="Z")

    told = {word: (reply.status, reply.json["code"]) for word, reply in {**late, "forged": forged}.items()}
    assert told == dict.fromkeys(told, (409, "TASK_LEASE_LOST"))
    assert kept.json == {"kept": [], "lost": [first["id"]]}
    assert (await successor.post("complete", **claim_of(second), result="A")).json["state"] == "succeeded"
    assert await task.result(timeout=PATIENCE_SECONDS) == "A"


@pytest.mark.contract("R7", "K12", "K4", "S4")
async def test_a_forged_fence_moves_nothing(app: Ferryman, client: Client) -> None:
    """Who knows a task, its holder and its epoch is still not its holder: neither of this tenant nor of another."""
    theirs, ours = await app.of("other").tasks.create("shout", text="a"), await app.tasks.create("shout", text="b")
    told = await client.post("/v1/worker", {"handlers": ["shout"]}, Ferryman_Tenant="other")
    secret = told.json["worker"]
    taken = await client.post("/v1/worker/claim", {"worker": secret, "limit": 9}, Ferryman_Tenant="other")
    [foreign] = taken.json["tasks"]
    holder = await hello(client)
    [own] = await holder.claim()
    # All that can be read of the holders: their ids in the list of workers, and the owner of the lease.
    seen = [each["boot_id"] for each in (await client.get("/v1/workers")).json["items"]]
    async with app.database.session() as tx:
        seen += [str(row["lease_owner"]) for row in await tx.fetch("select lease_owner from ferryman.tasks")]
    shown = [
        await client.get(f"/v1/{path}") for path in ("workers", f"tasks/{ours.id}", f"explain/{ours.id}", "events")
    ]
    assert len(set(seen)) == 2
    assert not any(word in str(reply.json) for reply in shown for word in (holder.worker, secret))

    words: dict[str, dict[str, Any]] = {
        "complete": {"result": "X"},
        "fail": {"reason": "x"},
        "release": {},
        "progress": {"percent": 5},
    }
    forger = await hello(client)
    answers = {}
    for word, more in words.items():
        for worker in (forger.worker, secret, *sorted(set(seen))):
            for claim in (foreign, own):
                for epoch in range(1, claim["epoch"] + 2):
                    body = {"worker": worker, "id": claim["id"], "epoch": epoch, **more}
                    reply = await client.post(f"/v1/worker/{word}", body)
                    answers[word, worker, claim["id"], epoch] = (reply.status, reply.json.get("code"))
    beats = [
        await client.post("/v1/worker/heartbeat", {"worker": forger.worker, "held": [claim_of(each)]})
        for each in (foreign, own)
    ]

    refusals = {(404, "TASK_NOT_FOUND"), (404, "WORKER_UNKNOWN"), (409, "TASK_LEASE_LOST")}
    assert {key: answer for key, answer in answers.items() if answer not in refusals} == {}
    assert [reply.json["kept"] for reply in beats] == [[], []]
    async with app.database.session() as tx:
        rows = await tx.fetch("select state, epoch, attempt from ferryman.tasks")
        assert await tx.fetch("select from ferryman.task_progress") == []
    assert [tuple(row) for row in rows] == [("running", 1, 1)] * 2  # type: ignore[arg-type]
    done = {"worker": secret, **claim_of(foreign), "result": "A"}
    assert (await client.post("/v1/worker/complete", done, Ferryman_Tenant="other")).json["state"] == "succeeded"
    assert await theirs.result(timeout=PATIENCE_SECONDS) == "A"


@pytest.mark.contract("S4", "K24")
async def test_a_complete_whose_answer_was_lost_can_be_sent_again(app: Ferryman, client: Client) -> None:
    task = await app.tasks.create("shout", text="a")
    hand = await hello(client)
    [held] = await hand.claim()
    first = await hand.post("complete", **claim_of(held), result="A")
    again = await hand.post("complete", **claim_of(held), result="A")
    other = await hand.post("fail", **claim_of(held), reason="no")
    assert (first.status, again.status, other.status) == (200, 200, 409)
    moves = [event["payload"]["to_state"] for event in (await client.get(f"/v1/tasks/{task.id}/events")).json]
    assert moves == ["ready", "running", "succeeded"]


@pytest.mark.contract("S4", "K5")
async def test_a_claim_whose_answer_was_lost_is_handed_back_with_the_next(app: Ferryman, client: Client) -> None:
    tasks = [await app.tasks.create("shout", text=str(n)) for n in range(2)]
    hand = await hello(client)
    [lost] = await hand.claim()
    [other, back] = await hand.claim(limit=2, holds=[])
    assert {other["id"], back["id"]} == {str(task.id) for task in tasks}
    [anew] = [each for each in (other, back) if each["id"] == lost["id"]]
    assert (anew["attempt"], anew["epoch"]) == (1, lost["epoch"] + 1)


@pytest.mark.contract("S4", "T5", "T18")
async def test_what_a_remote_worker_says_is_kept_and_a_failure_is_tried_again(
    app: Ferryman, client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(words, "SOON", 60.0)  # it is answered when it is written, however long that takes here
    task = await app.tasks.create("shout", text="a", backoff=0.0)
    hand = await hello(client)
    [held] = await hand.claim()
    word = await hand.post(
        "progress", **claim_of(held), percent=40, message="half way", log=[{"message": "aye", "level": "warning"}]
    )
    assert word.json == {"kept": True}
    far = (await client.get(f"/v1/tasks/{task.id}/progress")).json
    assert far == {"percent": 40, "message": "half way", "state": "running"}
    lines = (await client.get(f"/v1/tasks/{task.id}/logs")).json["items"]
    assert [(line["level"], line["message"]) for line in lines] == [("warning", "aye")]

    failed = await hand.post("fail", **claim_of(held), reason="a storm")
    assert (failed.json["state"], failed.json["code"]) == ("ready", "TASK_EXECUTION_FAILED")
    [again] = await hand.claim(wait=20)
    assert again["attempt"] == 2
    ended = await hand.post("fail", **claim_of(again), reason="sunk", retry=False)
    assert (ended.json["state"], ended.json["reason"]) == ("failed", "sunk")


@pytest.mark.contract("S4", "T14")
async def test_a_waiting_heartbeat_hears_of_a_cancel(app: Ferryman, client: Client) -> None:
    task = await app.tasks.create("shout", text="a")
    hand = await hello(client)
    [held] = await hand.claim()
    beating = asyncio.create_task(hand.post("heartbeat", held=[claim_of(held)], wait=30))
    assert (await client.get("/healthz")).status == 200  # the heartbeat was sent before it
    app.doorbell.ring("cancel")  # of nobody in particular: no answer yet
    assert (await client.get("/healthz")).status == 200
    await task.cancel()
    told = await asyncio.wait_for(beating, PATIENCE_SECONDS)
    assert told.json == {"kept": [], "lost": [held["id"]]}


@pytest.mark.contract("K12", "S4")
async def test_a_remote_worker_serves_one_tenant(app: Ferryman, client: Client) -> None:
    theirs = await app.of("other").tasks.create("shout", text="theirs")
    ours = await app.tasks.create("shout", text="ours")
    hand = await hello(client)
    assert [task["id"] for task in await hand.claim(limit=10)] == [str(ours.id)]
    crossing = await client.post("/v1/worker/claim", {"worker": hand.worker}, Ferryman_Tenant="other")
    assert (crossing.status, crossing.json["code"]) == (404, "WORKER_UNKNOWN")
    foreign = await hand.post("complete", id=str(theirs.id), epoch=1)
    assert (foreign.status, foreign.json["code"]) == (404, "TASK_NOT_FOUND")


@pytest.mark.contract("K2", "K12", "S4")
async def test_a_ring_that_names_anothers_lane_brings_a_remote_worker_nothing(
    app: Ferryman, client: Client, database_url: str
) -> None:
    theirs = await app.of("other").tasks.create("shout", text="theirs")
    hand = await hello(client)
    claiming = asyncio.create_task(hand.claim(wait=30))
    async with at_postgres(database_url, "ferryman") as forger:
        await forge(
            forger, [Ear(app.doorbell, "ready")], [[lane("default", "other")], [lane("default", "other\x1f")], []]
        )

    ours = await app.tasks.create("shout", text="ours")

    assert [task["id"] for task in await claiming] == [str(ours.id)]
    assert ((await theirs.refresh()).state, theirs.task.attempt) == ("ready", 1)


@pytest.mark.contract("S4", "K17", "K22")
async def test_a_remote_worker_is_seen_and_what_it_held_is_handed_back_when_it_goes(
    app: Ferryman, client: Client
) -> None:
    task = await app.tasks.create("shout", text="a")
    before = (await client.get(f"/v1/tasks/{task.id}/explain")).json
    hand = await hello(client, host="ship", pid=7)
    [seen] = (await client.get("/v1/workers")).json["items"]
    assert (seen["handlers"], seen["remote"], seen["tenant"], seen["host"]) == (["shout"], True, "default", "ship")
    after = (await client.get(f"/v1/explain/{task.id}")).json
    codes = [{reason["code"] for reason in told["reasons"]} for told in (before, after)]
    assert "no_worker" in codes[0]
    assert "no_worker" not in codes[1]

    [held] = await hand.claim()
    assert (await hand.post("goodbye")).json == {"handed_back": 1}
    assert (await client.get("/v1/workers")).json["items"] == []
    found = (await client.get(f"/v1/tasks/{task.id}")).json
    assert (found["state"], found["attempt"]) == ("ready", held["attempt"])
    assert (await hand.post("claim")).json["code"] == "WORKER_UNKNOWN"


@pytest.mark.contract("S4", "T17")
async def test_limits_hold_for_remote_workers(app: Ferryman, client: Client) -> None:
    for n in range(3):
        await app.tasks.create("shout", text=str(n))
    await app.queues.set("default", concurrency=1)
    hand = await hello(client)
    [first] = await hand.claim(limit=3)
    assert await hand.claim(limit=3) == []
    waiting = asyncio.create_task(hand.claim(limit=3, wait=20))
    await hand.post("complete", **claim_of(first))
    assert len(await waiting) == 1


@pytest.mark.contract("S4", "K6", "T19")
async def test_the_end_of_a_child_that_ran_elsewhere_wakes_its_parent(database_url: str) -> None:
    app = Ferryman(database_url)
    app.declare("shout")

    @app.task
    async def captain(ctx: Context) -> Any:
        return await ctx.child("shout", text="land ho")

    async with app, serving(app, guard=None, port=0) as served, aiohttp.ClientSession() as session:
        hand = await hello(Client(session, served.url))
        async with app.worker():
            parent = await app.tasks.create(captain)
            [child] = await hand.claim(wait=20)
            await hand.post("complete", **claim_of(child), result="LAND HO")
            assert await parent.result(timeout=PATIENCE_SECONDS) == "LAND HO"


NOBODY: dict[str, Any] = {"worker": "fw_nobody", "id": str(uuid4()), "epoch": 1}
WRONG: list[tuple[str, dict[str, Any], int, str]] = [
    ("", {"handlers": []}, 422, "TASK_INVALID_REQUEST"),
    ("", {"handlers": ["no spaces"]}, 422, "TASK_INVALID_REQUEST"),
    ("", {"handlers": ["a"], "colour": 1}, 422, "REQUEST_INVALID"),
    ("/claim", {"worker": "fw_nobody"}, 404, "WORKER_UNKNOWN"),
    ("/claim", {"worker": "fw_nobody", "limit": 0}, 422, "REQUEST_INVALID"),
    ("/claim", {"worker": "fw_nobody", "wait": 1e9}, 422, "REQUEST_INVALID"),
    ("/complete", NOBODY, 404, "TASK_NOT_FOUND"),
    ("/complete", {**NOBODY, "id": "x"}, 422, "REQUEST_INVALID"),
    ("/complete", {**NOBODY, "result": 2**70}, 422, "TASK_INVALID_RESULT"),
    ("/progress", {**NOBODY, "log": [{"message": "a", "level": "loud"}]}, 422, "TASK_INVALID_REQUEST"),
]


@pytest.mark.contract("K13", "K20", "S4")
async def test_what_a_worker_says_wrong_is_a_problem(client: Client) -> None:
    for path, body, status, code in WRONG:
        told = await client.post(f"/v1/worker{path}", body)
        assert (told.status, told.json["code"]) == (status, code), (path, body, told.json)
    assert (await client.get("/v1/workers?all=true")).json["items"] == []
