"""Batches over HTTP, in the JSON of the source."""

import pytest

from ferryman import Ferryman
from ferryman.http.fields import WAIT_MAX
from tests.http.conftest import Client

pytestmark = pytest.mark.contract("S4", "B10")


def asked(*refs: str, **more: object) -> dict[str, object]:
    """Return a batch of new agents, one for each profile."""
    tasks = [{"target_strategy": "new", "target_ref": ref, "instruction": f"go {n}"} for n, ref in enumerate(refs)]
    return {"tasks": tasks, **more}


@pytest.mark.contract("K11")
async def test_a_batch_is_forked_joined_and_read(app: Ferryman, client: Client) -> None:
    async with app.worker():
        forked = await client.post(f"/v1/batches?wait={WAIT_MAX}", asked("echo", "echo"), Idempotency_Key="k1")
    assert (forked.status, forked.json["idempotent_hit"]) == (201, False)
    assert forked.json["result"]["status"] == "success"
    results = [(each["task_index"], each["summary"]) for each in forked.json["result"]["results"]]
    assert results == [(0, "said go 0"), (1, "said go 1")]
    assert all("error" not in each for each in forked.json["result"]["results"])
    where = forked.headers["Location"]
    again = await client.post("/v1/batches", asked("echo", "echo"), Idempotency_Key="k1")
    assert (again.status, again.json["idempotent_hit"], again.headers["Location"]) == (200, True, where)
    others = [
        asked("echo"),
        asked("echo", "asker"),
        asked("echo", "echo", fail_fast=True),
        asked("echo", "echo", deadline_seconds=9),
    ]
    told = [await client.post("/v1/batches", each, Idempotency_Key="k1") for each in others]
    assert [(each.status, each.json["code"], each.json["details"]["field"]) for each in told] == [
        (409, "BATCH_DUPLICATE", field) for field in ("tasks", "tasks[1]", "fail_fast", "deadline_seconds")
    ]
    assert (await client.get(f"{where}/result")).json == forked.json["result"]
    assert [each["status"] for each in (await client.get(f"{where}/tasks")).json] == ["success", "success"]
    tree = (await client.get(f"{where}/tree")).json
    assert (tree["batch"]["status"], [each["batches"] for each in tree["tasks"]]) == ("success", [[], []])
    assert (await client.post(f"{where}/cancel")).json == {"cancelled": False, "status": "success"}


async def test_a_batch_is_not_waited_for_for_ever_and_is_cancelled(client: Client) -> None:
    forked = await client.post("/v1/batches?wait=0.05", asked("echo", fail_fast=True, deadline_seconds=60))
    where = forked.headers["Location"]
    assert (forked.json["batch"]["status"], forked.json["result"]) == ("running", None)
    running = await client.get(f"{where}/result?wait=0.05")
    assert (running.status, running.json["status"]) == (202, "running")
    assert (await client.post(f"{where}/cancel")).json == {"cancelled": True, "status": "failed"}
    ended = await client.get(f"{where}/result")
    assert (ended.status, [each["status"] for each in ended.json["results"]]) == (200, ["canceled"])


async def test_batches_are_listed_page_by_page(client: Client) -> None:
    made = [(await client.post("/v1/batches", asked("echo"))).json["batch"]["id"] for _ in range(3)]
    first = (await client.get("/v1/batches?limit=2")).json
    rest = (await client.get(f"/v1/batches?limit=2&before={first['next']}&status=running")).json
    assert [each["id"] for each in first["items"] + rest["items"]] == made[::-1]
    assert (await client.get("/v1/batches?status=success")).json["items"] == []
