"""No tenant meets another's objects: not by their ids in paths, nor in bodies, nor at the doors themselves (K12)."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any
from uuid import uuid4

import pytest

from ferryman import Budget, Ferryman, FerrymanError
from ferryman.agents.model import Rejected
from ferryman.app.doors import Doors
from tests.http.conftest import Client
from tests.http.domains.fleet import Cargo, document, plant
from tests.patience import PATIENCE_SECONDS

pytestmark = pytest.mark.contract("K12", "S4")

TAGS = {"agents", "turns", "cards", "batches", "commands", "ingest", "webhooks"}
DONE = {"result": 1}
NEW = {"target_strategy": "new", "target_ref": "echo", "instruction": "go"}

# Every operation on an object that a path names; what it says to whoever the object does not belong to.
PATHS: dict[tuple[str, str], tuple[str, Any, str]] = {
    ("GET", "/v1/agents/{agent_id}"): ("/v1/agents/{agent}", None, "AGENT_NOT_FOUND"),
    ("POST", "/v1/agents/{agent_id}/wakeup"): ("/v1/agents/{agent}/wakeup", {"dispatch_next": True}, "AGENT_NOT_FOUND"),
    ("POST", "/v1/agents/{agent_id}/turns"): ("/v1/agents/{agent}/turns", {"instruction": 1}, "AGENT_NOT_FOUND"),
    ("GET", "/v1/agents/{agent_id}/turns"): ("/v1/agents/{agent}/turns", None, "AGENT_NOT_FOUND"),
    ("GET", "/v1/turns/{turn_id}"): ("/v1/turns/{turn}", None, "TURN_NOT_FOUND"),
    ("GET", "/v1/turns/{turn_id}/result"): ("/v1/turns/{turn}/result", None, "TURN_NOT_FOUND"),
    ("GET", "/v1/turns/{turn_id}/timeline"): ("/v1/turns/{turn}/timeline", None, "TURN_NOT_FOUND"),
    ("GET", "/v1/turns/{turn_id}/steps"): ("/v1/turns/{turn}/steps", None, "TURN_NOT_FOUND"),
    ("GET", "/v1/turns/{turn_id}/stream"): ("/v1/turns/{turn}/stream", None, "TURN_NOT_FOUND"),
    ("POST", "/v1/turns/{turn_id}/stop"): ("/v1/turns/{waiting}/stop", None, "TURN_NOT_FOUND"),
    ("POST", "/v1/tool-results/{tool_call_id}"): ("/v1/tool-results/{call}", DONE, "CALL_NOT_FOUND"),
    ("GET", "/v1/cards/{card_id}"): ("/v1/cards/{card}", None, "CARD_NOT_FOUND"),
    ("GET", "/v1/boxes/{box_id}/cards"): ("/v1/boxes/{box}/cards", None, "BOX_NOT_FOUND"),
    ("GET", "/v1/batches/{batch_id}"): ("/v1/batches/{batch}", None, "BATCH_NOT_FOUND"),
    ("GET", "/v1/batches/{batch_id}/tasks"): ("/v1/batches/{batch}/tasks", None, "BATCH_NOT_FOUND"),
    ("GET", "/v1/batches/{batch_id}/tree"): ("/v1/batches/{batch}/tree", None, "BATCH_NOT_FOUND"),
    ("GET", "/v1/batches/{batch_id}/result"): ("/v1/batches/{batch}/result", None, "BATCH_NOT_FOUND"),
    ("POST", "/v1/batches/{batch_id}/cancel"): ("/v1/batches/{batch}/cancel", None, "BATCH_NOT_FOUND"),
    ("GET", "/v1/commands/{command_id}"): ("/v1/commands/{command}", None, "COMMAND_NOT_FOUND"),
    ("GET", "/v1/commands/{correlation_id}/story"): ("/v1/commands/{command}/story", None, "COMMAND_NOT_FOUND"),
    ("POST", "/v1/commands/{command_id}/cancel"): ("/v1/commands/{command}/cancel", None, "COMMAND_NOT_FOUND"),
    ("GET", "/v1/async-tasks/{async_task_id}"): ("/v1/async-tasks/{async_task}", None, "ASYNC_TASK_NOT_FOUND"),
    ("POST", "/v1/async-tasks/{async_task_id}/progress"): (
        "/v1/async-tasks/{async_task}/progress", {"progress": 5}, "ASYNC_TASK_NOT_FOUND"),
    ("POST", "/v1/async-tasks/{async_task_id}/complete"): (
        "/v1/async-tasks/{async_task}/complete", DONE, "ASYNC_TASK_NOT_FOUND"),
    ("POST", "/v1/async-tasks/{async_task_id}/cancel"): (
        "/v1/async-tasks/{async_task}/cancel", None, "ASYNC_TASK_NOT_FOUND"),
    ("GET", "/v1/ingest/plans/{plan_id}"): ("/v1/ingest/plans/{plan}", None, "INGEST_NOT_FOUND"),
    ("GET", "/v1/ingest/blackbox/{id}"): ("/v1/ingest/blackbox/{plan}", None, "INGEST_NOT_FOUND"),
    ("GET", "/v1/webhooks/{webhook}"): ("/v1/webhooks/{webhook}", None, "WEBHOOK_NOT_FOUND"),
    ("GET", "/v1/webhooks/{webhook}/secret"): ("/v1/webhooks/{webhook}/secret", None, "WEBHOOK_NOT_FOUND"),
    ("GET", "/v1/webhooks/{webhook}/deliveries"): ("/v1/webhooks/{webhook}/deliveries", None, "WEBHOOK_NOT_FOUND"),
    ("POST", "/v1/webhooks/{webhook}/rotate"): ("/v1/webhooks/{webhook}/rotate", None, "WEBHOOK_NOT_FOUND"),
    ("POST", "/v1/webhooks/{webhook}/pause"): ("/v1/webhooks/{webhook}/pause", None, "WEBHOOK_NOT_FOUND"),
    ("POST", "/v1/webhooks/{webhook}/resume"): ("/v1/webhooks/{webhook}/resume", None, "WEBHOOK_NOT_FOUND"),
    ("DELETE", "/v1/webhooks/{webhook}"): ("/v1/webhooks/{webhook}", None, "WEBHOOK_NOT_FOUND"),
    ("POST", "/v1/deliveries/{delivery_id}/retry"): ("/v1/deliveries/{delivery}/retry", None, "DELIVERY_NOT_FOUND"),
}  # fmt: skip

# Ids of objects inside of bodies and queries.
INSIDE: list[tuple[str, str, Any, str]] = [
    ("POST", "/v1/agents/bea/turns", {"context_box_id": "{context}"}, "AGENT_INVALID_REQUEST"),
    ("GET", "/v1/agents/bea/turns?before={turn}", None, "TURN_NOT_FOUND"),
    *(("POST", "/v1/batches", {"tasks": [{"instruction": "go", **task}]}, "BATCH_REFUSED") for task in (
        {"target_strategy": "reuse", "target_ref": "{agent}"},
        {"target_strategy": "clone", "target_ref": "{agent}"},
        {"target_strategy": "new", "target_ref": "echo", "context_box_id": "{context}"},
        {"target_strategy": "new", "target_ref": "echo", "context_box_id": "{box}"})),
    ("POST", "/v1/async-tasks/complete", {"correlation_id": "{command}", "type": "Cover.Painting"}, "ASYNC_TASK_NOT_FOUND"),
    ("POST", "/v1/ingest/cursors/rewind", {"source": "depot", "to": "2026-01-01T00:00:00Z", "reason": "x"}, "INGEST_NOT_FOUND"),
]  # fmt: skip
LISTS = (
    "/v1/agents", "/v1/batches", "/v1/commands", "/v1/ingest/plans", "/v1/ingest/quarantine?source=depot",
    "/v1/ingest/cursors", "/v1/webhooks", "/v1/async-tasks/statistics",
)  # fmt: skip
# What the doors take beyond HTTP: ids of turns, batches, boxes and budgets that a caller chooses.
Call = Callable[[Doors, Cargo], Awaitable[Any]]
DOORS: dict[str, tuple[Call, str]] = {
    "a turn's id": (lambda b, a: b.agents.enqueue("bea", "x", turn=a.turn), "turn_conflict"),
    "a box to read": (lambda b, a: b.agents.enqueue("bea", context_box=a.context), "box_unknown"),
    "a box to write": (lambda b, a: b.agents.enqueue("bea", "x", output_box=a.box), "box_unknown"),
    "a budget": (lambda b, a: b.agents.enqueue("bea", "x", budget=a.batch), "budget_unknown"),
    "a turn to take back": (lambda b, a: b.agents.cancel(a.waiting), "not_queued"),
    "a batch's id": (lambda b, a: b.batches.fork([NEW], id=a.batch), "BATCH_DUPLICATE"),
    "a batch to wait for": (lambda b, a: b.batches.wait(a.batch, timeout=PATIENCE_SECONDS), "BATCH_NOT_FOUND"),
    "a command to wait for": (lambda b, a: b.commands.wait(a.command, timeout=PATIENCE_SECONDS), "COMMAND_NOT_FOUND"),
    "a plan to wait for": (lambda b, a: b.ingest.wait(a.plan, timeout=PATIENCE_SECONDS), "INGEST_NOT_FOUND"),
}
OWNED = (
    "agents", "agent_state_head", "agent_inbox", "turn_waiting_tools", "cards", "boxes", "pmo_batches", "pmo_batch_tasks",
    "command_inbox", "async_tasks", "tasks", "ingest_plan", "ingest_task", "ingest_cursor", "webhooks", "webhook_deliveries",
)  # fmt: skip


async def held(app: Ferryman) -> list[str]:
    """Return a digest of all that the first tenant has, for each table."""
    async with app.database.session() as tx:
        return [
            (
                await tx.fetch(
                    "select coalesce(md5(string_agg(each::text, '|' order by each::text)), '') as sum"
                    f" from ferryman.{table} as each where tenant = 'default'"
                )
            )[0]["sum"]
            for table in OWNED
        ]


def filled(body: Any, cargo: Cargo) -> Any:
    """Put the ids of a tenant's objects in their places."""
    if isinstance(body, dict):
        return {name: filled(each, cargo) for name, each in body.items()}
    if isinstance(body, list):
        return [filled(each, cargo) for each in body]
    return body.format(**cargo.names()) if isinstance(body, str) else body


async def refused(call: Awaitable[Any]) -> str:
    """Return the code of a refusal, raised or answered."""
    try:
        answer = await call
    except FerrymanError as error:
        return error.code
    return answer.code if isinstance(answer, Rejected) else f"taken: {answer}"


async def test_nobody_meets_what_belongs_to_another_tenant(app: Ferryman, client: Client) -> None:
    cargo = await plant(app)
    await app.of("other").agents.ensure("bea", "echo")
    before = await held(app)
    asked = [(method, *PATHS[method, path]) for method, path in PATHS] + INSIDE
    told = {}
    for method, path, body, code in asked:
        reply = await client.ask(method, filled(path, cargo), filled(body, cargo), Ferryman_Tenant="other")
        told[method, path, str(body)] = (reply.json.get("code"), code)
    assert {each: codes for each, codes in told.items() if codes[0] != codes[1]} == {}
    for path in LISTS:
        got = (await client.get(path, Ferryman_Tenant="other")).json
        items = got["items"] if isinstance(got, dict) else got
        assert [each for each in items if each.get("agent_id") != "bea"] == [], path
        own = (await client.get(path)).json
        assert own["items"] if isinstance(own, dict) else own, path
    doors = app.of("other")
    for name, (call, code) in DOORS.items():
        assert await refused(call(doors, cargo)) == code, name
    assert await held(app) == before
    # Whom it belongs to does meet it; an ended turn has nothing more to say.
    for (method, _), (where, _body, _code) in PATHS.items():
        if method == "GET" and not where.endswith("/stream"):
            assert (await client.get(filled(where, cargo))).status in {200, 202}, where


def test_every_operation_on_a_named_object_is_tried(app: Ferryman) -> None:
    known = {
        (method.upper(), path)
        for path, operations in document(app)["paths"].items()
        for method, operation in operations.items()
        if "{" in path and TAGS & set(operation["tags"])
    }
    assert known == set(PATHS)


async def test_two_tenants_may_use_the_same_keys_and_names(app: Ferryman, client: Client) -> None:
    made = []
    for tenant in ("default", "other"):
        who = {"Ferryman_Tenant": tenant}
        await client.post("/v1/agents", {"agent_id": "bob", "profile": "echo"}, **who)
        turn = await client.post("/v1/agents/bob/turns", {"instruction": 1}, Idempotency_Key="k", **who)
        batch = await client.post("/v1/batches", {"tasks": [NEW]}, Idempotency_Key="k", **who)
        sent = await client.post("/v1/commands", {"command_type": "A.B"}, Idempotency_Key="k", **who)
        hook = await client.post("/v1/webhooks", {"url": "https://example.com/", "name": "hook"}, **who)
        assert [each.status for each in (turn, batch, sent, hook)] == [201, 201, 202, 201]
        made.append(
            {turn.json["turn_id"], batch.json["batch"]["id"], sent.json["command_id"], hook.json["webhook"]["id"]}
        )
    assert made[0] & made[1] == set()


async def test_two_orders_with_one_id_in_one_set_are_one_turn_of_one_tenant(app: Ferryman) -> None:
    id = uuid4()
    doors = [app.of("default").agents, app.of("other").agents]
    for door in doors:
        await door.ensure("bob", "echo")
    # The first of all is under way, so that the two share the next trip.
    answers = await asyncio.gather(doors[0].enqueue("bob", 0), *(door.enqueue("bob", 1, turn=id) for door in doors))
    assert [each.status for each in answers] == ["accepted", "accepted", "rejected"]
    assert answers[2].code == "turn_conflict"


async def test_what_one_tenant_cannot_store_does_not_spoil_anothers(app: Ferryman) -> None:
    doors = [app.of("default").agents, app.of("other").agents]
    for door in doors:
        await door.ensure("bob", "echo")
    too_much = Budget(tokens=2**70)

    answers = await asyncio.gather(
        doors[0].enqueue("bob", 0),
        doors[0].send("bob", 1, budget=too_much),
        doors[1].send("bob", 2),
        return_exceptions=True,
    )

    assert [type(each).__name__ for each in answers] == ["Accepted", "StatementRefused", "TurnHandle"]
