"""Tasks over HTTP."""

from typing import Any

import pytest

from ferryman import Ferryman
from tests.http.conftest import Client

GREET = {"name": "greet", "payload": {"name": "Ada"}}


@pytest.mark.contract("S4")
async def test_a_task_is_created_run_and_read(app: Ferryman, client: Client) -> None:
    made = await client.post("/v1/tasks", GREET)
    assert made.status == 201
    assert made.json["idempotent_hit"] is False
    where = made.headers["Location"]
    async with app.worker():
        await (await app.tasks.get(made.json["task"]["id"])).result(timeout=20)
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


@pytest.mark.contract("K20")
@pytest.mark.parametrize(
    ("method", "path", "body", "status", "code"),
    [
        ("GET", "/v1/tasks/nobody", None, 404, "TASK_NOT_FOUND"),
        ("GET", "/v1/nothing", None, 404, "ROUTE_UNKNOWN"),
        ("DELETE", "/v1/tasks", None, 405, "METHOD_REFUSED"),
        ("POST", "/v1/tasks", {"name": "unknown"}, 422, "TASK_UNKNOWN_HANDLER"),
        ("POST", "/v1/tasks", {"name": "greet", "colour": 1}, 422, "TASK_INVALID_REQUEST"),
        ("POST", "/v1/tasks", [], 422, "REQUEST_INVALID"),
        ("POST", "/v1/tasks", None, 415, "MEDIA_UNKNOWN"),
        ("GET", "/v1/tasks?limit=0", None, 422, "REQUEST_INVALID"),
        ("GET", "/v1/tasks?state=asleep", None, 422, "REQUEST_INVALID"),
    ],
)
async def test_a_refusal_is_a_problem_with_our_code(
    client: Client, method: str, path: str, body: Any, status: int, code: str
) -> None:
    told = await client.ask(method, path, body)
    assert (told.status, told.json["code"]) == (status, code)
    assert told.headers["Content-Type"] == "application/problem+json"
    assert told.json["advice"]
    assert (await client.get("/v1/tasks")).json["items"] == []
