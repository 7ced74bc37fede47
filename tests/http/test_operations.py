"""Schedules, queues, workers and what operators ask, over HTTP."""

import asyncio
import logging

import aiohttp
import pytest
from starlette.requests import HTTPConnection

from ferryman import Ferryman
from ferryman.access.model import Scope
from ferryman.http.callers import Caller
from ferryman.http.serving import serving
from tests.http.conftest import Client
from tests.http.test_tasks import GREET
from tests.patience import PATIENCE_SECONDS


class Clerk:
    """Lets everybody in as a caller of one tenant who is no operator."""

    async def caller(self, request: HTTPConnection) -> Caller:
        return Caller("clerk", "acme", frozenset({Scope.ADMIN}))


@pytest.mark.contract("S4", "T8", "T10")
async def test_a_schedule_is_made_read_moved_and_ended(client: Client) -> None:
    asked = {**GREET, "schedule_type": "cron", "cron_expr": "0 9 * * 1-5", "timezone": "UTC", "task_id": "mornings"}
    made = await client.post("/v1/schedules", asked)
    again = await client.post("/v1/schedules", asked)
    assert (made.status, again.status) == (201, 200)
    where = made.headers["Location"]
    found = (await client.get(where)).json
    assert (found["schedule_id"], found["payload"], found["state"]) == ("mornings", {"name": "Ada"}, "active")
    assert (await client.get("/v1/schedules?state=active")).json["items"] == [made.json["schedule"]]
    assert len((await client.get(f"{where}/next?count=3")).json["items"]) == 3

    moves = [(await client.post(f"{where}/{move}")).json for move in ("pause", "pause", "resume")]
    assert [each["moved"] for each in moves] == [True, False, True]
    fired = await client.post(f"{where}/trigger")
    assert fired.status == 201
    [firing] = (await client.get("/v1/schedules/mornings/firings")).json["items"]
    assert firing["id"] == fired.json["task"]["id"]
    assert (await client.ask("DELETE", where)).json == {"moved": True}
    assert (await client.get(f"{where}/events")).json[0]["type"] == "schedule_created"


@pytest.mark.contract("T8", "S4")
async def test_the_request_of_the_source_makes_a_schedule(client: Client) -> None:
    made = await client.post("/v1/tasks", {**GREET, "schedule_type": "daily", "timezone": "Asia/Tokyo"})
    assert (made.status, made.json["idempotent_hit"]) == (201, False)
    assert made.json["task"]["schedule_type"] == "cron" or made.json["task"]["schedule_type"] == "daily"
    assert (await client.get(made.headers["Location"])).json["id"] == made.json["task"]["id"]


@pytest.mark.contract("S4", "T17")
async def test_queues_are_agreed_on_paused_and_resumed(app: Ferryman, client: Client) -> None:
    await client.post("/v1/tasks", GREET)
    [whole] = (await client.get("/v1/queues")).json["items"]
    assert (whole["name"], whole["tenant"], whole["ready"]) == ("default", "*", 1)
    agreed = await client.ask("PATCH", "/v1/operations/queues/default", {"concurrency": 5, "rate": "10/minute"})
    assert [(each["concurrency"], each["rate"]) for each in agreed.json["items"]] == [(5, "10/minute")]
    paused = await client.post("/v1/queues/default/pause")
    assert [(each["tenant"], each["paused_at"] is not None) for each in paused.json["items"]] == [
        ("*", False), ("default", True),
    ]  # fmt: skip
    assert (await client.post("/v1/operations/queues/default/pause")).json["items"][0]["paused_at"]
    for whose in ("", "/operations"):
        resumed = await client.post(f"/v1{whose}/queues/default/resume")
    assert [each["paused_at"] for each in resumed.json["items"]] == [None, None]
    assert (await client.get("/v1/queues/default/holders")).json == {"items": []}
    assert "greet" in (await client.post("/v1/operations/handlers/greet/pause")).json["items"]
    assert (await client.post("/v1/operations/handlers/greet/resume")).json == {"items": {}}


@pytest.mark.contract("K22", "K23", "W21", "S4")
async def test_operators_see_what_ends_everything(app: Ferryman, client: Client) -> None:
    made = (await client.post("/v1/tasks", GREET)).json["task"]["id"]
    [bound] = (await client.get("/v1/operations/bounds")).json["items"]
    assert (bound["domain"], bound["rule"], bound["count"]) == ("task", "T21", 1)
    assert (await client.get("/v1/operations/overdue")).json == {"items": []}
    assert "W13" in {rule["name"] for rule in (await client.get("/v1/operations/watchdog")).json["rules"]}
    report = (await client.get("/v1/operations/doctor")).json
    assert report["reachable"] is True
    assert {"workers", "invariants"} <= {each["name"] for each in report["readings"]}
    assert (await client.get(f"/v1/explain/{made}")).json["domain"] == "task"


@pytest.mark.contract("K12", "S4", "S6")
async def test_a_tenant_sees_nothing_of_the_others(app: Ferryman) -> None:
    theirs = await app.tasks.create("greet", name="Ada")
    await app.queues.set("default", tenant="default", concurrency=3)
    async with serving(app, guard=Clerk(), port=0) as served, aiohttp.ClientSession() as session, app.worker():
        await theirs.result(timeout=PATIENCE_SECONDS)
        client = Client(session, served.url)
        for path in ("", "/result", "/events", "/explain", "/logs", "/progress"):
            assert (await client.get(f"/v1/tasks/{theirs.id}{path}")).status == 404, path
        assert (await client.get(f"/v1/explain/{theirs.id}")).status == 404
        assert (await client.get("/v1/tasks")).json["items"] == []
        assert (await client.get("/v1/events?after=0")).json["items"] == []
        assert (await client.get(f"/v1/events?after=0&subject={theirs.id}")).json["items"] == []
        assert {each["tenant"] for each in (await client.get("/v1/queues/default")).json["items"]} == {"*"}
        [worker] = (await client.get("/v1/workers")).json["items"]
        assert (worker["host"], worker["pid"], worker["settings"]) == (None, None, None)
        for path in ("/v1/operations/doctor", "/v1/operations/bounds", "/v1/operations/watchdog", "/metrics"):
            assert (await client.get(path)).json["code"] == "FORBIDDEN", path
        assert (await client.get("/v1/tasks", Ferryman_Tenant="default")).json["code"] == "FORBIDDEN"


@pytest.mark.contract("K19", "S4")
async def test_metrics_tell_depths_and_requests(client: Client) -> None:
    await client.post("/v1/tasks", GREET)
    told = (await client.get("/metrics")).json
    assert 'ferryman_queue_depth{domain="task",queue="default",state="ready"} 1.0' in told
    assert 'ferryman_http_requests_total{route="/v1/tasks",status="201"}' in told
    assert (await client.get("/readyz")).json == {"status": "ready"}


@pytest.mark.contract("K19")
async def test_the_journal_names_ids_and_no_payload(client: Client, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "ferryman.http.access")
    secret = {"name": "greet", "payload": {"name": "canary"}}
    made = (await client.post("/v1/tasks", secret, Idempotency_Key="k-canary")).json["task"]["id"]
    await client.get(f"/v1/tasks/{made}?token=canary")
    lines = [record for record in caplog.records if record.name == "ferryman.http.access"]
    told = [getattr(record, "http") for record in lines]  # noqa: B009 - put there by `extra`
    assert [(each["method"], each["route"], each["status"]) for each in told] == [
        ("POST", "/v1/tasks", 201), ("GET", "/v1/tasks/{task_id}", 200),
    ]  # fmt: skip
    assert (told[1]["task_id"], told[1]["caller"], told[1]["tenant"]) == (made, "local", "default")
    assert "canary" not in str([record.__dict__ for record in lines])


@pytest.mark.contract("S4")
async def test_a_server_that_stops_ends_streams_and_long_requests(app: Ferryman) -> None:
    task = await app.tasks.create("greet", name="Ada")
    async with aiohttp.ClientSession() as session:
        async with serving(app, guard=None, port=0) as served:
            client = Client(session, served.url)
            stream = await session.get(f"{served.url}/v1/events/stream")
            assert stream.status == 200
            hand = (await client.post("/v1/worker", {"handlers": ["nothing"]})).json["worker"]
            long = [
                asyncio.create_task(client.get(f"/v1/tasks/{task.id}/result?wait=60")),
                asyncio.create_task(client.post("/v1/worker/claim", {"worker": hand, "wait": 60})),
            ]
            assert (await client.get("/healthz")).status == 200  # they were sent before it on connections of their own
        told = await asyncio.wait_for(asyncio.gather(*long), PATIENCE_SECONDS)
        assert [(each.status, each.json.get("tasks", each.json.get("ended"))) for each in told] == [
            (202, False), (200, []),
        ]  # fmt: skip
        async with asyncio.timeout(PATIENCE_SECONDS):
            await stream.read()
