"""Commands and async tasks over HTTP."""

import pytest

from ferryman import Ferryman
from ferryman.http.fields import WAIT_MAX
from tests.http.conftest import Client
from tests.http.domains.fleet import until

pytestmark = pytest.mark.contract("S4", "C1")

COVER = {"command_type": "Cover.Request", "payload": {"title": "Moby"}, "session_id": "novel-1"}


async def painted(client: Client, command: str) -> str:
    """Wait for the async task of a command, and return its id."""

    async def tasks() -> list[str]:
        return [each["id"] for each in (await client.get(f"/v1/commands/{command}/story")).json["tasks"]]

    return str((await until(tasks))[0])


@pytest.mark.contract("K11")
async def test_a_command_is_sent_once_completed_from_outside_and_told(app: Ferryman, client: Client) -> None:
    sent = await client.post("/v1/commands", COVER, Idempotency_Key="k1")
    again = await client.post("/v1/commands", COVER, Idempotency_Key="k1")
    assert (sent.status, again.status) == (202, 202)
    assert (sent.json["idempotent_hit"], again.json["idempotent_hit"]) == (False, True)
    id, where = sent.json["command_id"], sent.headers["Location"]
    assert (again.json["command_id"], sent.json["correlation_id"], sent.json["location"]) == (id, id, where)
    other = await client.post("/v1/commands", {**COVER, "session_id": "novel-2"}, Idempotency_Key="k1")
    assert (other.status, other.json["code"]) == (409, "COMMAND_DUPLICATE")
    async with app.worker():
        task = await painted(client, id)
        assert (await client.get(f"{where}?wait=0.05")).status == 202
        assert (await client.post(f"/v1/async-tasks/{task}/progress", {"progress": 40})).json == {"changed": True}
        assert (await client.get(f"/v1/async-tasks/{task}")).json["progress"] == 40
        done = await client.post(f"/v1/async-tasks/{task}/complete", {"result": {"file": "moby.png"}})
        assert done.json == {"async_task_id": task, "changed": True}
        ended = (await client.get(f"{where}?wait={WAIT_MAX}")).json
    assert (ended["status"], ended["payload"]) == ("COMPLETED", {"title": "Moby"})
    late = [
        await client.post(f"/v1/async-tasks/{task}/complete", {"result": 1}),
        await client.post(f"/v1/async-tasks/{task}/progress", {"progress": 50}),
        await client.post(f"/v1/async-tasks/{task}/cancel"),
    ]
    assert [(each.status, each.json["code"]) for each in late] == [(409, "ASYNC_TASK_ENDED")] * 3
    story = (await client.get(f"{where}/story")).json
    assert [(each["result_data"], each["status"]) for each in story["tasks"]] == [({"file": "moby.png"}, "COMPLETED")]
    facts = [each["name"] for each in story["events"] if each["kind"] == "fact"]
    assert facts[0] == "Cover.Requested"
    [row] = (await client.get("/v1/async-tasks/statistics")).json
    assert (row["task_type"], row["status"], row["count"]) == ("Cover.Painting", "COMPLETED", 1)


async def test_a_result_is_matched_by_command_and_type(app: Ferryman, client: Client) -> None:
    id = (await client.post("/v1/commands", COVER)).json["command_id"]
    async with app.worker():
        task = await painted(client, id)
        given = {"correlation_id": id, "type": "Cover.Painting", "error": {"code": "NO_PAINT", "message": "no paint"}}
        assert (await client.post("/v1/async-tasks/complete", given)).json["async_task_id"] == task
        assert (await client.get(f"/v1/commands/{id}?wait={WAIT_MAX}")).json["status"] == "FAILED"
    again = await client.post("/v1/async-tasks/complete", given)
    assert (again.status, again.json["code"]) == (404, "ASYNC_TASK_NOT_FOUND")


async def test_commands_are_listed_page_by_page_and_cancelled(client: Client) -> None:
    made = [(await client.post("/v1/commands", COVER)).json["command_id"] for _ in range(3)]
    first = (await client.get("/v1/commands?limit=2&session_id=novel-1&command_type=Cover.Request")).json
    rest = (await client.get(f"/v1/commands?limit=2&before={first['next']}")).json
    assert [each["id"] for each in first["items"] + rest["items"]] == made[::-1]
    assert (await client.get("/v1/commands?session_id=other")).json["items"] == []
    assert (await client.post(f"/v1/commands/{made[0]}/cancel", {"reason": "no"})).json == {"cancelled": True}
    assert (await client.post(f"/v1/commands/{made[0]}/cancel")).json == {"cancelled": False}
    assert [each["id"] for each in (await client.get("/v1/commands?status=FAILED")).json["items"]] == [made[0]]
