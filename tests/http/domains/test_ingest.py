"""Ingestion over HTTP."""

import pytest

from ferryman import Ferryman
from ferryman.http.fields import WAIT_MAX
from tests.http.conftest import Client
from tests.http.domains.fleet import DAWN, HOUR

pytestmark = pytest.mark.contract("S4", "I16")

WINDOW = {"source": "depot", "since": DAWN.isoformat(), "until": (DAWN + 2 * HOUR).isoformat()}


@pytest.mark.contract("K11")
async def test_a_plan_is_made_once_followed_and_explained(app: Ferryman, client: Client) -> None:
    made = await client.post("/v1/ingest/plans", WINDOW)
    again = await client.post("/v1/ingest/plans", WINDOW)
    assert (made.status, again.status) == (201, 200)
    assert (made.json["made"], made.json["slices"], again.json["plan"]) == (True, 2, made.json["plan"])
    where = made.headers["Location"]
    waiting = await client.get(f"{where}?wait=0.05")
    assert (waiting.status, waiting.json["share"], waiting.json["over"]) == (202, 0, False)
    async with app.worker():
        done = await client.get(f"{where}?wait={WAIT_MAX}")
    assert (done.status, done.json["share"], done.json["items"], done.json["quarantined"]) == (200, 1, 6, 4)
    runs = (await client.get(f"/v1/ingest/blackbox/{made.json['plan']}")).json
    assert [(run["status"], run["trigger_type"]) for run in runs] == [("SUCCEEDED", "API")] * 2
    first = (await client.get("/v1/ingest/quarantine?source=depot&limit=3")).json
    rest = (await client.get(f"/v1/ingest/quarantine?source=depot&limit=3&before={first['next']}")).json
    seen = [(each["batch"], each["no"]) for each in first["items"] + rest["items"]]
    assert (len(seen), len(set(seen)), rest["next"]) == (4, 4, None)
    [cursor] = (await client.get("/v1/ingest/cursors?source=depot")).json
    assert (cursor["agrees"], cursor["position"]) == (True, cursor["replayed"])
    [gate] = (await client.get("/v1/ingest/gates")).json
    assert (gate["source"], gate["credential"]) == ("depot", "")


@pytest.mark.contract("I11")
async def test_a_cursor_is_taken_back_with_a_reason(app: Ferryman, client: Client) -> None:
    plan = (await client.post("/v1/ingest/plans", WINDOW)).json["plan"]
    async with app.worker():
        await client.get(f"/v1/ingest/plans/{plan}?wait={WAIT_MAX}")
    back = {"source": "depot", "to": (DAWN + HOUR).isoformat(), "reason": "fetch again"}
    moved = await client.post("/v1/ingest/cursors/rewind", back)
    assert (moved.status, moved.json["agrees"], moved.json["events"][-1]["reason"]) == (200, True, "fetch again")
    again = await client.post("/v1/ingest/cursors/rewind", back)
    assert (again.status, again.json["code"]) == (422, "INGEST_INVALID_REQUEST")
    count = await client.post("/v1/ingest/cursors/rewind", {**back, "to": 17})
    assert (count.status, count.json["code"]) == (404, "INGEST_NOT_FOUND")


async def test_history_is_planned_and_plans_are_listed_page_by_page(client: Client) -> None:
    made = [(await client.post("/v1/ingest/backfills", {**WINDOW, "campaign": f"c{n}"})).json["plan"] for n in range(3)]
    first = (await client.get("/v1/ingest/plans?limit=2")).json
    rest = (await client.get(f"/v1/ingest/plans?limit=2&source=depot&before={first['next']}")).json
    assert [each["id"] for each in first["items"] + rest["items"]] == made[::-1]
    assert {each["operation"] for each in first["items"]} == {"BACKFILL"}


async def test_a_schedule_plans_regularly(app: Ferryman, client: Client) -> None:
    made = await client.post("/v1/ingest/schedules", {"source": "depot", "every": "15m"})
    again = await client.post("/v1/ingest/schedules", {"source": "depot", "every": "15m"})
    assert (made.status, again.status, again.json["id"]) == (201, 200, made.json["id"])
    assert (await app.schedules.record(made.json["schedule_id"])).name == "ingest.plan"
