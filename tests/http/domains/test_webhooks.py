"""Webhooks, deliveries and readers of the log over HTTP."""

import pytest

from ferryman import Ferryman
from tests.http.conftest import Client
from tests.http.domains.fleet import dead_delivery

pytestmark = pytest.mark.contract("S4")

HOOK = {"url": "https://example.com/hook", "kinds": ["task.failed"], "name": "hook"}


async def test_a_webhook_is_added_once_moved_and_removed(client: Client) -> None:
    added = await client.post("/v1/webhooks", HOOK)
    again = await client.post("/v1/webhooks", HOOK)
    other = await client.post("/v1/webhooks", {**HOOK, "kinds": ["task"]})
    assert (added.status, again.status, other.status) == (201, 200, 409)
    assert (again.json["secret"], other.json["code"]) == (added.json["secret"], "WEBHOOK_DUPLICATE")
    where = added.headers["Location"]
    assert (await client.get("/v1/webhooks/hook")).json == (await client.get(where)).json == added.json["webhook"]
    assert (await client.get(f"{where}/secret")).json["secret"] == added.json["secret"]
    rotated = (await client.post(f"{where}/rotate")).json
    assert (rotated["webhook"]["secret_version"], rotated["secret"] == added.json["secret"]) == (2, False)
    moves = [await client.post(f"{where}/{move}") for move in ("pause", "pause", "resume")]
    assert [(each.json["changed"], each.json["webhook"]["state"]) for each in moves] == [
        (True, "paused"), (False, "paused"), (True, "active"),
    ]  # fmt: skip
    gone = await client.ask("DELETE", where)
    assert (gone.json["changed"], gone.json["webhook"]["state"]) == (True, "disabled")
    assert (await client.post(f"{where}/rotate")).status == 409
    assert [each["id"] for each in (await client.get("/v1/webhooks?state=disabled")).json["items"]] == [
        added.json["webhook"]["id"]
    ]


async def test_a_dead_delivery_is_tried_anew_once(app: Ferryman, client: Client) -> None:
    added = await client.post("/v1/webhooks", HOOK)
    id = str(await dead_delivery(app, added.json["webhook"]["id"]))
    where = f"{added.headers['Location']}/deliveries"
    assert [each["id"] for each in (await client.get(f"{where}?state=dead")).json["items"]] == [id]
    tried = await client.post(f"/v1/deliveries/{id}/retry")
    again = await client.post(f"/v1/deliveries/{id}/retry")
    assert (tried.status, tried.json["retry_of"], again.json["id"]) == (201, id, tried.json["id"])
    assert len((await client.get(f"{where}?limit=1")).json["items"]) == 1
    refused = await client.post(f"/v1/deliveries/{tried.json['id']}/retry")
    assert (refused.status, refused.json["code"]) == (409, "DELIVERY_NOT_DEAD")


async def test_readers_of_the_log_are_listed_and_forgotten(client: Client) -> None:
    await client.post("/v1/webhooks", HOOK)
    [reader] = (await client.get("/v1/relays")).json
    assert reader["behind"] >= 0
    assert (await client.ask("DELETE", f"/v1/relays/{reader['name']}")).json == {"forgotten": True}
    assert (await client.ask("DELETE", f"/v1/relays/{reader['name']}")).json == {"forgotten": False}
    assert (await client.get("/v1/relays")).json == []
