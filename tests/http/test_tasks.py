"""Tasks over HTTP."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest

from ferryman import Ferryman
from tests.http.conftest import Client
from tests.patience import PATIENCE_SECONDS

GREET = {"name": "greet", "payload": {"name": "Ada"}}


@pytest.mark.contract("S4")
async def test_a_task_is_created_run_and_read(app: Ferryman, client: Client) -> None:
    made = await client.post("/v1/tasks", GREET)
    assert made.status == 201
    assert made.json["idempotent_hit"] is False
    where = made.headers["Location"]
    async with app.worker():
        await (await app.tasks.get(made.json["task"]["id"])).result(timeout=PATIENCE_SECONDS)
    found = (await client.get(where)).json
    assert (found["state"], found["payload"], found["result"]) == ("succeeded", {"name": "Ada"}, "Hello, Ada")
    moves = [event["payload"]["to_state"] for event in (await client.get(f"{where}/events")).json]
    assert moves == ["ready", "running", "succeeded"]


@pytest.mark.contract("S4")
async def test_a_repeat_with_a_key_answers_with_the_task_that_is_there(client: Client) -> None:
    first = await client.post("/v1/tasks", GREET, Idempotency_Key="k1")
    again = await client.post("/v1/tasks", GREET, Idempotency_Key="k1")
    assert (first.status, again.status) == (201, 200)
    assert again.json["task"]["id"] == first.json["task"]["id"]
    assert again.json["idempotent_hit"] is True
    other = await client.post("/v1/tasks", {**GREET, "idempotency_key": "k2"}, Idempotency_Key="k1")
    assert (other.status, other.json["code"]) == (422, "REQUEST_INVALID")


@pytest.mark.contract("S4", "T17")
async def test_many_are_created_all_or_none(client: Client) -> None:
    wrong = await client.post("/v1/tasks/bulk", {"tasks": [GREET, {"name": "greet", "payload": {"name": 7}}]})
    assert (wrong.status, wrong.json["details"]["index"]) == (422, 1)
    assert wrong.json["message"].startswith("Request 1: ")
    assert (await client.get("/v1/tasks")).json["items"] == []

    keyed = [{**GREET, "idempotency_key": str(n)} for n in range(3)]
    made = await client.post("/v1/tasks/bulk", {"tasks": [*keyed, GREET]})
    again = await client.post("/v1/tasks/bulk", {"tasks": [{**GREET, "task_id": "named"}, *keyed]})
    assert (made.status, again.status) == (201, 201)
    assert [item["idempotent_hit"] for item in again.json["items"]] == [False, True, True, True]
    ids = [[item["task"]["id"] for item in told.json["items"]] for told in (made, again)]
    assert ids[0][:3] == ids[1][1:]
    conflict = await client.post("/v1/tasks/bulk", {"tasks": [GREET, {**keyed[0], "max_retries": 9}]})
    assert (conflict.status, conflict.json["code"]) == (409, "TASK_DUPLICATE")
    listed = (await client.get("/v1/tasks")).json["items"]
    assert len(listed) == 5
    assert made.json["items"][3]["task"] == next(each for each in listed if each["id"] == ids[0][3])


@pytest.mark.contract("S4", "T19", "T18")
async def test_a_person_approves_and_the_result_is_waited_for(app: Ferryman, client: Client) -> None:
    made = (await client.post("/v1/tasks", {"name": "ask"})).json["task"]["id"]
    assert (await client.get(f"/v1/tasks/{made}/result")).status == 202
    waiting = asyncio.create_task(client.get(f"/v1/tasks/{made}/result?wait=20"))
    async with app.worker():
        sent = await client.post(f"/v1/tasks/{made}/events", {"name": "approved", "payload": {"by": "Ada"}})
        told = await waiting
    assert (sent.status, told.status) == (201, 200)
    assert (told.json["ended"], told.json["state"], told.json["result"]) == (True, "succeeded", {"by": "Ada"})
    late = await client.post(f"/v1/tasks/{made}/events", {"name": "approved"})
    assert (late.status, late.json["code"]) == (409, "TASK_ENDED")
    async with client.session.get(f"{client.url}/v1/tasks/{made}/progress/stream") as stream:
        assert b'"state":"succeeded"' in await stream.read()


@pytest.mark.contract("K19", "S4")
async def test_a_task_carries_the_trace_of_its_request(app: Ferryman, client: Client) -> None:
    trace = "00-" + "a" * 32 + "-" + "b" * 16 + "-01"
    made = [(await client.post("/v1/tasks", GREET, traceparent=each)).json["task"]["id"] for each in (trace, "00-junk")]
    async with app.database.session() as tx:
        rows = await tx.fetch("select id::text, traceparent from ferryman.tasks")
    assert {row["id"]: row["traceparent"] for row in rows} == {made[0]: trace, made[1]: None}


@pytest.mark.contract("S4")
async def test_a_list_is_read_page_by_page(client: Client) -> None:
    made = [(await client.post("/v1/tasks", GREET)).json["task"]["id"] for _ in range(5)]
    seen: list[str] = []
    query = ""
    for _ in range(3):
        got = (await client.get(f"/v1/tasks?limit=2{query}")).json
        seen += [task["id"] for task in got["items"]]
        query = f"&before={got['next']}"
    assert seen == made[::-1]
    assert got["next"] is None
    assert (await client.get("/v1/tasks?state=running")).json == {"items": [], "next": None}


@pytest.mark.contract("S4")
async def test_a_task_is_cancelled_and_tried_anew(client: Client) -> None:
    made = (await client.post("/v1/tasks", GREET)).json["task"]["id"]
    assert (await client.post(f"/v1/tasks/{made}/cancel", {"reason": "not wanted"})).json == {"cancelled": True}
    assert (await client.post(f"/v1/tasks/{made}/cancel")).json == {"cancelled": False}
    anew = (await client.post(f"/v1/tasks/{made}/retry")).json["task_id"]
    assert (await client.get(f"/v1/tasks/{anew}")).json["retry_of"] == made
    told = (await client.get(f"/v1/tasks/{anew}/explain")).json
    assert "no_live_worker" in str(told) or told["reasons"]


WRONG: list[tuple[str, str, Any, int, str]] = [
    ("GET", "/v1/tasks/nobody", None, 404, "TASK_NOT_FOUND"),
    ("GET", "/v1/tasks/nobody/result", None, 404, "TASK_NOT_FOUND"),
    ("GET", "/v1/tasks/nobody/progress", None, 404, "TASK_NOT_FOUND"),
    ("GET", "/v1/tasks/nobody/result?wait=61", None, 422, "REQUEST_INVALID"),
    ("POST", "/v1/tasks/nobody/events", {"name": "approved"}, 404, "TASK_NOT_FOUND"),
    ("POST", "/v1/tasks/nobody/events", {"name": "not a name"}, 422, "TASK_INVALID_REQUEST"),
    ("GET", "/v1/nothing", None, 404, "ROUTE_UNKNOWN"),
    ("DELETE", "/v1/tasks", None, 405, "METHOD_REFUSED"),
    ("POST", "/v1/tasks", {"name": "unknown"}, 422, "TASK_UNKNOWN_HANDLER"),
    ("POST", "/v1/tasks", {"name": "greet", "colour": 1}, 422, "TASK_INVALID_REQUEST"),
    ("POST", "/v1/tasks", {"name": "greet", "payload": {"name": 2**70}}, 422, "REQUEST_INVALID"),
    ("POST", "/v1/tasks", {**GREET, "schedule_type": "cron"}, 422, "TASK_INVALID_SCHEDULE"),
    ("POST", "/v1/tasks", [], 422, "REQUEST_INVALID"),
    ("POST", "/v1/tasks", None, 415, "MEDIA_UNKNOWN"),
    ("POST", "/v1/tasks/bulk", {"tasks": []}, 422, "REQUEST_INVALID"),
    ("POST", "/v1/tasks/bulk", {"tasks": [GREET] * 1001}, 422, "REQUEST_INVALID"),
    ("POST", "/v1/tasks/bulk", {"tasks": [GREET], "name": "greet"}, 422, "REQUEST_INVALID"),
    ("POST", "/v1/tasks/bulk", {"tasks": [GREET, {"name": "unknown"}]}, 422, "TASK_UNKNOWN_HANDLER"),
    ("POST", "/v1/tasks/bulk", {"tasks": [GREET, 7]}, 422, "TASK_INVALID_REQUEST"),
    ("GET", "/v1/tasks?limit=0", None, 422, "REQUEST_INVALID"),
    ("GET", "/v1/tasks?state=asleep", None, 422, "REQUEST_INVALID"),
    ("POST", "/v1/schedules", {**GREET, "schedule_type": "at"}, 422, "TASK_INVALID_SCHEDULE"),
    ("GET", "/v1/schedules/nobody", None, 404, "SCHEDULE_NOT_FOUND"),
    ("GET", "/v1/schedules/nobody/next", None, 404, "SCHEDULE_NOT_FOUND"),
    ("DELETE", "/v1/schedules/nobody", None, 404, "SCHEDULE_NOT_FOUND"),
    ("GET", "/v1/queues/nobody", None, 404, "UNKNOWN_QUEUE"),
    ("POST", "/v1/queues/nobody/pause", None, 404, "UNKNOWN_QUEUE"),
    ("PATCH", "/v1/queues/default", {"tenant": "other"}, 422, "QUEUE_INVALID"),
    ("PATCH", "/v1/queues/default", {"concurrency": -1}, 422, "QUEUE_INVALID"),
    ("PATCH", "/v1/operations/queues/default", {"new": True}, 422, "QUEUE_INVALID"),
    ("GET", "/v1/events?after=-1", None, 422, "REQUEST_INVALID"),
    ("GET", "/v1/events?kind=a%20b", None, 422, "TASK_INVALID_REQUEST"),
    ("GET", "/v1/events/stream?subject=x", None, 422, "REQUEST_INVALID"),
    ("GET", "/v1/explain/nobody", None, 404, "TASK_NOT_FOUND"),
]


@pytest.mark.contract("K20")
async def test_a_refusal_is_a_problem_with_our_code(client: Client) -> None:
    for method, path, body, status, code in WRONG:
        told = await client.ask(method, path, body)
        assert (told.status, told.json["code"]) == (status, code), (method, path, told.json)
        assert told.headers["Content-Type"] == "application/problem+json"
        assert told.json["advice"]
    assert (await client.get("/v1/tasks")).json["items"] == []
    assert (await client.get("/v1/schedules")).json["items"] == []


@pytest.mark.contract("K20")
@pytest.mark.parametrize("path", ["/v1/tasks", "/v1/tasks/bulk"])
async def test_a_fault_of_ours_is_told_without_its_words(
    app: Ferryman, client: Client, monkeypatch: pytest.MonkeyPatch, path: str
) -> None:
    def broken(*_: object) -> None:
        raise RuntimeError("canary")

    monkeypatch.setattr("ferryman.app.tasks.Tasks._draft", broken)
    told = await client.post(path, GREET if path == "/v1/tasks" else {"tasks": [GREET]})
    assert (told.status, told.json["code"]) == (500, "FERRYMAN_ERROR")
    assert "canary" not in str(told.json)


@pytest.mark.contract("S4")
async def test_a_create_may_come_in_many_small_pieces(client: Client) -> None:
    async def pieces() -> AsyncIterator[bytes]:
        for byte in b'{"name": "greet", "payload": {"name": "%s"}}' % (b"a" * 3000):
            yield bytes([byte])

    async with client.session.post(
        f"{client.url}/v1/tasks", data=pieces(), headers={"Content-Type": "application/json"}
    ) as answer:
        told = await answer.json()

    assert answer.status == 201, told
    kept = await client.get(f"/v1/tasks/{told['task']['id']}")
    assert kept.json["payload"] == {"name": "a" * 3000}
