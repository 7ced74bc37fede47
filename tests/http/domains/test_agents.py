"""Agents, turns, calls and cards over HTTP."""

import asyncio
import json
from typing import Any

import pytest

from ferryman import Ferryman
from ferryman.http.fields import WAIT_MAX
from tests.http.conftest import Client
from tests.http.domains.fleet import call_of
from tests.patience import PATIENCE_SECONDS

pytestmark = pytest.mark.contract("S4")


async def test_an_agent_is_made_once_listed_and_woken(client: Client) -> None:
    made = await client.post("/v1/agents", {"agent_id": "bob", "profile": "echo", "tags": ["a"], "metadata": {"n": 1}})
    again = await client.post("/v1/agents", {"agent_id": "bob", "profile": "echo"})
    other = await client.post("/v1/agents", {"agent_id": "bob", "profile": "asker"})
    assert (made.status, again.status, other.status) == (201, 200, 409)
    assert other.json["code"] == "AGENT_DUPLICATE"
    assert again.json == {"idempotent_hit": True, "agent": made.json["agent"]}
    for name in ("cas", "dan"):
        await client.post("/v1/agents", {"agent_id": name, "profile": "asker"})
    first = (await client.get("/v1/agents?limit=2")).json
    rest = (await client.get(f"/v1/agents?limit=2&after={first['next']}")).json
    assert [each["agent_id"] for each in first["items"] + rest["items"]] == ["bob", "cas", "dan"]
    assert rest["next"] is None
    assert [each["agent_id"] for each in (await client.get("/v1/agents?profile=echo&status=idle")).json["items"]] == [
        "bob"
    ]
    assert (await client.get("/v1/agents/bob")).json["metadata"] == {"n": 1}
    woken = await client.post("/v1/agents/bob/wakeup", {"dispatch_next": True})
    assert woken.json == {"status": "accepted", "agent_turn_id": None, "turn_epoch": None}


@pytest.mark.contract("K11")
async def test_a_turn_is_asked_for_once_waited_for_and_read(app: Ferryman, client: Client) -> None:
    await client.post("/v1/agents", {"agent_id": "bob", "profile": "echo"})
    asked = {"instruction": "hi", "budget": {"tokens": 100}, "wall_time_seconds": 60}
    sent = await client.post("/v1/agents/bob/turns", asked, Idempotency_Key="k1")
    again = await client.post("/v1/agents/bob/turns", asked, Idempotency_Key="k1")
    assert (sent.status, again.status) == (201, 200)
    assert again.json == {**sent.json, "idempotent_hit": True}
    await client.post("/v1/agents", {"agent_id": "cas", "profile": "echo"})
    other = await client.post("/v1/agents/cas/turns", asked, Idempotency_Key="k1")
    changed = await client.post("/v1/agents/bob/turns", {**asked, "instruction": "ho"}, Idempotency_Key="k1")
    for refused, field in ((other, "agent_id"), (changed, "instruction")):
        assert (refused.status, refused.json["code"]) == (409, "TURN_DUPLICATE")
        assert refused.json["details"]["conflict_fields"] == [field]
    where = sent.headers["Location"]
    soon = await client.get(f"{where}/result")
    assert (soon.status, soon.json["ended"], soon.json["deliverable"]) == (202, False, None)
    async with app.worker():
        done = await client.get(f"{where}/result?wait={WAIT_MAX}")
    assert (done.status, done.json["status"], done.json["deliverable"]) == (200, "success", {"summary": "said hi"})
    turn = (await client.get(where)).json
    assert (turn["agent_id"], turn["turn_status"], turn["depth"]) == ("bob", "success", 0)
    assert [each["name"] for each in (await client.get(f"{where}/timeline")).json if each["kind"] == "state"] == [
        "dispatched", "running", "idle",
    ]  # fmt: skip
    [step] = [each for each in (await client.get(f"{where}/steps")).json if each["name"] == "think"]
    assert (step["result"], step["status"]) == (2, "completed")
    box = (await client.get(f"/v1/boxes/{turn['output_box_id']}/cards?limit=1")).json
    assert box["items"][0]["content"] == {"summary": "said hi"}
    assert (await client.get(f"/v1/boxes/{turn['output_box_id']}/cards?after={box['next']}")).json["items"] == []
    assert (await client.get(f"/v1/cards/{turn['deliverable_card_id']}")).json["type"] == "task.deliverable"


async def test_turns_of_one_moment_are_listed_page_by_page_without_a_gap(app: Ferryman, client: Client) -> None:
    await client.post("/v1/agents", {"agent_id": "bob", "profile": "echo"})
    made = {(await client.post("/v1/agents/bob/turns", {"instruction": n})).json["turn_id"] for n in range(5)}
    async with app.database.transaction() as tx:
        await tx.fetch("update ferryman.agent_inbox set created_at = now()")
    seen: list[str] = []
    query = ""
    for _ in range(3):
        got = (await client.get(f"/v1/agents/bob/turns?limit=2{query}")).json
        seen += [turn["id"] for turn in got["items"]]
        query = f"&before={got['next']}"
    assert (set(seen), len(seen), got["next"]) == (made, 5, None)


@pytest.mark.contract("A10")
async def test_a_call_is_answered_from_outside_once(app: Ferryman, client: Client) -> None:
    await client.post("/v1/agents", {"agent_id": "wes", "profile": "asker"})
    async with app.worker():
        turn = (await client.post("/v1/agents/wes/turns", {"instruction": "may I?"})).json["turn_id"]
        call = await call_of(app, turn)
        stale = await client.post(f"/v1/tool-results/{call}", {"result": "no", "turn_epoch": 99})
        wrong = await client.post(f"/v1/tool-results/{call}", {"status": "splendid"})
        assert (stale.status, stale.json["details"]["code"]) == (409, "stale_epoch")
        assert (wrong.status, wrong.json["details"]["code"]) == (422, "invalid_status")
        first = await client.post(f"/v1/tool-results/{call}", {"result": "yes"})
        second = await client.post(f"/v1/tool-results/{call}", {"result": "no"})
        done = await client.get(f"/v1/turns/{turn}/result?wait={WAIT_MAX}")
    assert (first.json, second.json["effect"]) == ({"status": "accepted", "effect": True}, False)
    assert done.json["deliverable"] == "yes"
    unknown = await client.post("/v1/tool-results/nobody", {"result": "yes"})
    assert (unknown.status, unknown.json["code"]) == (404, "CALL_NOT_FOUND")


@pytest.mark.contract("A16")
async def test_a_turn_is_stopped_once(app: Ferryman, client: Client) -> None:
    await client.post("/v1/agents", {"agent_id": "wes", "profile": "asker"})
    first = (await client.post("/v1/agents/wes/turns", {"instruction": 1})).json["turn_id"]
    queued = (await client.post("/v1/agents/wes/turns", {"instruction": 2})).json["turn_id"]
    async with app.worker():
        await call_of(app, first)
        stopped = [await client.post(f"/v1/turns/{turn}/stop", {"reason": "not wanted"}) for turn in (queued, first)]
        ends = [(await client.get(f"/v1/turns/{turn}/result?wait={WAIT_MAX}")).json for turn in (queued, first)]
    assert [each.json["status"] for each in stopped] == ["accepted", "accepted"]
    assert [(each["status"], each["error_code"]) for each in ends] == [("canceled", "canceled"), ("failed", "stopped")]
    again = await client.post(f"/v1/turns/{first}/stop")
    assert (again.status, again.json["details"]["code"]) == (409, "ended")


@pytest.mark.contract("A15")
async def test_a_turn_is_listened_to_until_it_ends(app: Ferryman, client: Client) -> None:
    await client.post("/v1/agents", {"agent_id": "bob", "profile": "echo"})
    turn = (await client.post("/v1/agents/bob/turns", {"instruction": "hi"})).json["turn_id"]
    async with asyncio.timeout(PATIENCE_SECONDS), client.session.get(f"{client.url}/v1/turns/{turn}/stream") as heard:
        assert heard.content_type == "text/event-stream"
        assert await heard.content.readline() == b": beat\n"  # the server listens now
        async with app.worker():
            text = (await heard.content.read()).decode()
    events: list[tuple[str, Any]] = []
    for block in text.strip().split("\n\n"):
        if block.startswith("event: "):
            name, data = block.split("\n")
            events.append((name.removeprefix("event: "), json.loads(data.removeprefix("data: "))))
    assert events == [("text", "thinking"), ("end", {"status": "success", "error_code": None})]


async def test_a_turn_may_read_a_box_that_exists(app: Ferryman, client: Client) -> None:
    await client.post("/v1/agents", {"agent_id": "bob", "profile": "echo"})
    async with app.worker():
        first = (await client.post("/v1/agents/bob/turns", {"instruction": "hi"})).json["turn_id"]
        await client.get(f"/v1/turns/{first}/result?wait={WAIT_MAX}")
        box = (await client.get(f"/v1/turns/{first}")).json["context_box_id"]
        second = (await client.post("/v1/agents/bob/turns", {"context_box_id": box})).json["turn_id"]
        done = (await client.get(f"/v1/turns/{second}/result?wait={WAIT_MAX}")).json
    assert done["deliverable"] == {"summary": "said hi"}
