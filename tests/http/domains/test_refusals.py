"""Bad input, domain by domain: the right status, our code, and nothing stored."""

from typing import Any

import pytest

from ferryman import Ferryman
from tests.http.conftest import Client
from tests.http.domains.fleet import DAWN

NOBODY = "01890000-0000-7000-8000-000000000000"
TASK = {"target_strategy": "new", "target_ref": "echo", "instruction": "go"}
WINDOW = {"source": "depot", "since": DAWN.isoformat()}
DEEP: Any = 1
for _ in range(200):
    DEEP = [DEEP]

TABLES = (
    "agents", "agent_inbox", "cards", "boxes", "budgets", "pmo_batches", "pmo_batch_tasks", "command_inbox", "async_tasks",
    "tasks", "schedules", "ingest_plan", "ingest_slice", "ingest_cursor", "webhooks", "webhook_deliveries", "events",
)  # fmt: skip

Case = tuple[str, str, Any, int, str]

AGENTS: list[Case] = [
    ("POST", "/v1/agents", {"agent_id": "a b", "profile": "echo"}, 422, "AGENT_INVALID_REQUEST"),
    ("POST", "/v1/agents", {"agent_id": "a.b", "profile": "echo"}, 422, "AGENT_INVALID_REQUEST"),
    ("POST", "/v1/agents", {"agent_id": "", "profile": "echo"}, 422, "AGENT_INVALID_REQUEST"),
    ("POST", "/v1/agents", {"agent_id": "bob", "profile": "no name"}, 422, "TASK_INVALID_REQUEST"),
    ("POST", "/v1/agents", {"agent_id": "bob", "profile": "echo", "when_busy": "x"}, 422, "AGENT_INVALID_REQUEST"),
    ("POST", "/v1/agents", {"agent_id": "bob"}, 422, "REQUEST_INVALID"),
    ("POST", "/v1/agents", {"agent_id": "bob", "profile": "echo", "colour": 1}, 422, "REQUEST_INVALID"),
    ("POST", "/v1/agents", {"agent_id": 1, "profile": "echo"}, 422, "REQUEST_INVALID"),
    ("POST", "/v1/agents", {"agent_id": "bob", "profile": "echo", "tags": ["\0"]}, 422, "REQUEST_INVALID"),
    ("POST", "/v1/agents", {"agent_id": "bob", "profile": "echo", "metadata": {"d": DEEP}}, 422, "REQUEST_INVALID"),
    ("POST", "/v1/agents", {"agent_id": "bob", "profile": "echo", "metadata": {"n": 2**70}}, 422, "REQUEST_INVALID"),
    ("POST", "/v1/agents", None, 415, "MEDIA_UNKNOWN"),
    ("GET", "/v1/agents/nobody", None, 404, "AGENT_NOT_FOUND"),
    ("GET", "/v1/agents/%00", None, 422, "REQUEST_INVALID"),
    ("GET", "/v1/agents?after=%00", None, 422, "REQUEST_INVALID"),
    ("GET", "/v1/agents?profile=%00", None, 422, "REQUEST_INVALID"),
    ("GET", "/v1/agents?status=asleep", None, 422, "REQUEST_INVALID"),
    ("POST", "/v1/agents/nobody/wakeup", None, 404, "AGENT_NOT_FOUND"),
    ("POST", "/v1/agents/ann/wakeup", {"dispatch_next": "yes"}, 422, "REQUEST_INVALID"),
]
TURNS: list[Case] = [
    ("POST", "/v1/agents/nobody/turns", {"instruction": "go"}, 404, "AGENT_NOT_FOUND"),
    ("GET", "/v1/agents/nobody/turns", None, 404, "AGENT_NOT_FOUND"),
    ("POST", "/v1/agents/ann/turns", {}, 422, "AGENT_INVALID_REQUEST"),
    ("POST", "/v1/agents/ann/turns", {"instruction": 1, "context_box_id": NOBODY}, 422, "AGENT_INVALID_REQUEST"),
    ("POST", "/v1/agents/ann/turns", {"context_box_id": NOBODY}, 422, "AGENT_INVALID_REQUEST"),
    ("POST", "/v1/agents/ann/turns", {"context_box_id": NOBODY, "result_fields": ["a"]}, 422, "AGENT_INVALID_REQUEST"),
    ("POST", "/v1/agents/ann/turns", {"instruction": 1, "channel": "a.b"}, 422, "AGENT_INVALID_REQUEST"),
    ("POST", "/v1/agents/ann/turns", {"instruction": 1, "wall_time_seconds": -1}, 422, "REQUEST_INVALID"),
    ("POST", "/v1/agents/ann/turns", {"instruction": 1, "wall_time_seconds": 1e300}, 422, "REQUEST_INVALID"),
    ("POST", "/v1/agents/ann/turns", {"instruction": 1, "budget": {"tokens": -1}}, 422, "REQUEST_INVALID"),
    ("POST", "/v1/agents/ann/turns", {"instruction": 1, "budget": {"gold": 1}}, 422, "REQUEST_INVALID"),
    ("POST", "/v1/agents/ann/turns", {"instruction": 1, "result_fields": [""]}, 422, "REQUEST_INVALID"),
    ("POST", "/v1/agents/ann/turns", {"instruction": "x" * 1_100_000}, 422, "AGENT_INVALID_REQUEST"),
    ("POST", "/v1/agents/ann/turns", {"instruction": "\0"}, 422, "REQUEST_INVALID"),
    ("GET", "/v1/agents/ann/turns?before=1", None, 422, "REQUEST_INVALID"),
    ("GET", f"/v1/agents/ann/turns?before={NOBODY}", None, 404, "TURN_NOT_FOUND"),
    ("GET", "/v1/turns/1", None, 422, "REQUEST_INVALID"),
    *(("GET", f"/v1/turns/{NOBODY}{part}", None, 404, "TURN_NOT_FOUND")
      for part in ("", "/result", "/result?wait=1", "/timeline", "/steps", "/stream")),
    ("GET", f"/v1/turns/{NOBODY}/result?wait=61", None, 422, "REQUEST_INVALID"),
    ("GET", f"/v1/turns/{NOBODY}/result?wait=nan", None, 422, "REQUEST_INVALID"),
    ("POST", f"/v1/turns/{NOBODY}/stop", None, 404, "TURN_NOT_FOUND"),
    ("POST", f"/v1/turns/{NOBODY}/stop", {"reason": ""}, 422, "REQUEST_INVALID"),
    ("POST", "/v1/tool-results/x", {"result": 1}, 404, "CALL_NOT_FOUND"),
    ("POST", "/v1/tool-results/x", {"status": "odd"}, 422, "AGENT_INVALID_REQUEST"),
    ("POST", "/v1/tool-results/x", {"after_execution": "odd"}, 422, "AGENT_INVALID_REQUEST"),
    ("POST", "/v1/tool-results/%00", {"result": 1}, 422, "REQUEST_INVALID"),
    ("POST", f"/v1/tool-results/{'x' * 201}", {"result": 1}, 422, "REQUEST_INVALID"),
    ("GET", f"/v1/cards/{NOBODY}", None, 404, "CARD_NOT_FOUND"),
    ("GET", f"/v1/boxes/{NOBODY}/cards", None, 404, "BOX_NOT_FOUND"),
    ("GET", f"/v1/boxes/{NOBODY}/cards?after=-1", None, 422, "REQUEST_INVALID"),
]  # fmt: skip
BATCHES: list[Case] = [
    ("POST", "/v1/batches", {}, 422, "BATCH_REFUSED"),
    ("POST", "/v1/batches", {"tasks": []}, 422, "BATCH_REFUSED"),
    ("POST", "/v1/batches", {"tasks": [TASK] * 257}, 422, "BATCH_REFUSED"),
    ("POST", "/v1/batches", {"tasks": [TASK], "deadline_seconds": 0}, 422, "BATCH_REFUSED"),
    ("POST", "/v1/batches", {"tasks": [TASK], "fail_fast": "yes"}, 422, "BATCH_REFUSED"),
    ("POST", "/v1/batches", {"tasks": [TASK], "id": NOBODY}, 422, "BATCH_REFUSED"),
    ("POST", "/v1/batches", {"tasks": [TASK], "channel": "main"}, 422, "BATCH_REFUSED"),
    ("POST", "/v1/batches", {"tasks": [TASK], "retry_batch_id": NOBODY}, 422, "BATCH_REFUSED"),
    ("POST", "/v1/batches", {"tasks": [{**TASK, "agent_profile": "echo"}]}, 422, "BATCH_REFUSED"),
    ("POST", "/v1/batches", {"tasks": [{**TASK, "target_ref": "unknown"}]}, 422, "BATCH_REFUSED"),
    ("POST", "/v1/batches", {"tasks": [{**TASK, "instruction": " "}]}, 422, "BATCH_REFUSED"),
    ("POST", "/v1/batches", {"tasks": [{**TASK, "context_box_id": NOBODY}]}, 422, "BATCH_REFUSED"),
    ("POST", "/v1/batches", {"tasks": [{**TASK, "context_box_id": 7}]}, 422, "BATCH_REFUSED"),
    ("POST", "/v1/batches", {"tasks": [{**TASK, "target_strategy": "reuse", "target_ref": "nobody"}]}, 422, "BATCH_REFUSED"),
    ("POST", "/v1/batches", {"tasks": [{**TASK, "target_strategy": "clone", "target_ref": "ann"}]}, 422, "BATCH_REFUSED"),
    ("POST", "/v1/batches", [TASK], 422, "REQUEST_INVALID"),
    ("POST", "/v1/batches?wait=-1", {"tasks": [TASK]}, 422, "REQUEST_INVALID"),
    ("GET", "/v1/batches?status=done", None, 422, "REQUEST_INVALID"),
    *(("GET", f"/v1/batches/{NOBODY}{part}", None, 404, "BATCH_NOT_FOUND")
      for part in ("", "/tasks", "/tree", "/result", "/result?wait=1")),
    ("POST", f"/v1/batches/{NOBODY}/cancel", None, 404, "BATCH_NOT_FOUND"),
]  # fmt: skip
COMMANDS: list[Case] = [
    ("POST", "/v1/commands", {}, 422, "COMMAND_INVALID_REQUEST"),
    ("POST", "/v1/commands", {"command_type": "a..b"}, 422, "COMMAND_INVALID_REQUEST"),
    ("POST", "/v1/commands", {"command_type": "A.B", "colour": 1}, 422, "COMMAND_INVALID_REQUEST"),
    ("POST", "/v1/commands", {"command_type": "A.B", "deadline_seconds": -1}, 422, "COMMAND_INVALID_REQUEST"),
    ("POST", "/v1/commands", {"command_type": "A.B", "session_id": ""}, 422, "COMMAND_INVALID_REQUEST"),
    ("POST", "/v1/commands", {"command_type": "A.B", "session_id": {}}, 422, "COMMAND_INVALID_REQUEST"),
    ("POST", "/v1/commands", {"command_type": "A.B", "scope": 1}, 422, "COMMAND_INVALID_REQUEST"),
    ("POST", "/v1/commands", {"command_type": "A.B", "payload": "x" * 1_100_000}, 422, "COMMAND_INVALID_REQUEST"),
    ("GET", "/v1/commands?status=done", None, 422, "REQUEST_INVALID"),
    ("GET", "/v1/commands?session_id=%00", None, 422, "REQUEST_INVALID"),
    ("GET", f"/v1/commands/{NOBODY}", None, 404, "COMMAND_NOT_FOUND"),
    ("GET", f"/v1/commands/{NOBODY}?wait=1", None, 404, "COMMAND_NOT_FOUND"),
    ("GET", f"/v1/commands/{NOBODY}/story", None, 404, "COMMAND_NOT_FOUND"),
    ("POST", f"/v1/commands/{NOBODY}/cancel", None, 404, "COMMAND_NOT_FOUND"),
    ("GET", f"/v1/async-tasks/{NOBODY}", None, 404, "ASYNC_TASK_NOT_FOUND"),
    ("POST", f"/v1/async-tasks/{NOBODY}/complete", {"result": 1}, 404, "ASYNC_TASK_NOT_FOUND"),
    ("POST", f"/v1/async-tasks/{NOBODY}/complete", {"result": 1, "error": 1}, 422, "COMMAND_INVALID_REQUEST"),
    ("POST", f"/v1/async-tasks/{NOBODY}/cancel", None, 404, "ASYNC_TASK_NOT_FOUND"),
    ("POST", f"/v1/async-tasks/{NOBODY}/progress", {"progress": 50}, 404, "ASYNC_TASK_NOT_FOUND"),
    ("POST", f"/v1/async-tasks/{NOBODY}/progress", {"progress": 101}, 422, "COMMAND_INVALID_REQUEST"),
    ("POST", "/v1/async-tasks/complete", {"correlation_id": "x", "type": "A.B"}, 422, "COMMAND_INVALID_REQUEST"),
    ("POST", "/v1/async-tasks/complete", {"correlation_id": NOBODY, "type": "A.B"}, 404, "ASYNC_TASK_NOT_FOUND"),
]  # fmt: skip
INGEST: list[Case] = [
    ("POST", "/v1/ingest/plans", {"source": "nowhere"}, 422, "INGEST_UNKNOWN_SOURCE"),
    ("POST", "/v1/ingest/plans", {**WINDOW, "endpoint": "nowhere"}, 422, "INGEST_UNKNOWN_SOURCE"),
    ("POST", "/v1/ingest/plans", {**WINDOW, "until": "2025-01-01T00:00:00Z"}, 422, "INGEST_INVALID_WINDOW"),
    ("POST", "/v1/ingest/plans", {"source": "depot", "since": "2026-01-01T00:00:00"}, 422, "INGEST_INVALID_WINDOW"),
    ("POST", "/v1/ingest/plans", {**WINDOW, "since": "yesterday"}, 422, "REQUEST_INVALID"),
    ("POST", "/v1/ingest/plans", {**WINDOW, "operation": "STEAL"}, 422, "INGEST_INVALID_REQUEST"),
    ("POST", "/v1/ingest/plans", {**WINDOW, "strategy": "LUCK"}, 422, "INGEST_INVALID_REQUEST"),
    ("POST", "/v1/ingest/plans", {**WINDOW, "params": {"step_seconds": "x"}}, 422, "INGEST_INVALID_REQUEST"),
    ("POST", "/v1/ingest/plans", {**WINDOW, "budget": {"gold": 1}}, 422, "INGEST_INVALID_REQUEST"),
    ("POST", "/v1/ingest/plans", {**WINDOW, "expression": {"q": "{nothing}"}}, 422, "INGEST_INVALID_EXPRESSION"),
    ("POST", "/v1/ingest/plans", {**WINDOW, "strategy": "ID_RANGE", "params": {}}, 422, "INGEST_INVALID_REQUEST"),
    ("POST", "/v1/ingest/plans", {**WINDOW, "job": ""}, 422, "TASK_INVALID_REQUEST"),
    ("POST", "/v1/ingest/plans", {**WINDOW, "campaign": "a b"}, 422, "TASK_INVALID_REQUEST"),
    ("POST", "/v1/ingest/plans", {**WINDOW, "trigger": "MANUAL"}, 422, "REQUEST_INVALID"),
    ("POST", "/v1/ingest/backfills", {"source": "depot"}, 422, "REQUEST_INVALID"),
    ("GET", f"/v1/ingest/plans/{NOBODY}", None, 404, "INGEST_NOT_FOUND"),
    ("GET", f"/v1/ingest/plans/{NOBODY}?wait=1", None, 404, "INGEST_NOT_FOUND"),
    ("GET", f"/v1/ingest/blackbox/{NOBODY}", None, 404, "INGEST_NOT_FOUND"),
    ("GET", "/v1/ingest/quarantine", None, 422, "REQUEST_INVALID"),
    ("GET", "/v1/ingest/quarantine?source=depot&before=x", None, 422, "REQUEST_INVALID"),
    ("GET", f"/v1/ingest/quarantine?source=depot&before={NOBODY}:99999999999", None, 422, "REQUEST_INVALID"),
    ("POST", "/v1/ingest/cursors/rewind", {"source": "depot", "to": 1, "reason": "x"}, 404, "INGEST_NOT_FOUND"),
    ("POST", "/v1/ingest/cursors/rewind", {"source": "depot", "to": 1, "reason": " "}, 422, "INGEST_INVALID_REQUEST"),
    ("POST", "/v1/ingest/cursors/rewind", {"source": "depot", "to": "then", "reason": "x"}, 422, "REQUEST_INVALID"),
    ("POST", "/v1/ingest/schedules", {"source": "depot"}, 422, "TASK_INVALID_SCHEDULE"),
    ("POST", "/v1/ingest/schedules", {"source": "depot", "cron": "whenever"}, 422, "TASK_INVALID_SCHEDULE"),
    ("POST", "/v1/ingest/schedules", {"source": "nowhere", "every": "15m"}, 422, "INGEST_UNKNOWN_SOURCE"),
]  # fmt: skip
WEBHOOKS: list[Case] = [
    ("POST", "/v1/webhooks", {"url": "nonsense"}, 422, "WEBHOOK_INVALID"),
    ("POST", "/v1/webhooks", {"url": "https://10.0.0.1/"}, 422, "WEBHOOK_INVALID"),
    ("POST", "/v1/webhooks", {"url": "https://example.com", "kinds": []}, 422, "WEBHOOK_INVALID"),
    ("POST", "/v1/webhooks", {"url": "https://example.com", "kinds": ["a b"]}, 422, "WEBHOOK_INVALID"),
    ("POST", "/v1/webhooks", {"url": "https://example.com", "name": NOBODY}, 422, "WEBHOOK_INVALID"),
    ("POST", "/v1/webhooks", {"url": "https://example.com", "name": 1}, 422, "REQUEST_INVALID"),
    ("GET", "/v1/webhooks?state=loud", None, 422, "REQUEST_INVALID"),
    ("GET", "/v1/webhooks/%00", None, 422, "REQUEST_INVALID"),
    *((method, f"/v1/webhooks/nobody{part}", None, 404, "WEBHOOK_NOT_FOUND") for method, part in (
        ("GET", ""), ("GET", "/secret"), ("GET", "/deliveries"), ("POST", "/rotate"), ("POST", "/pause"), ("POST", "/resume"),
        ("DELETE", ""))),
    ("POST", f"/v1/deliveries/{NOBODY}/retry", None, 404, "DELIVERY_NOT_FOUND"),
    ("POST", "/v1/deliveries/x/retry", None, 422, "REQUEST_INVALID"),
]  # fmt: skip


async def stored(app: Ferryman) -> list[int]:
    """Count the rows of every table."""
    async with app.database.session() as tx:
        return [(await tx.fetch(f"select count(*) as n from ferryman.{table}"))[0]["n"] for table in TABLES]


@pytest.mark.contract("K20", "S4")
@pytest.mark.filterwarnings("ignore:Sending a large body:ResourceWarning")
@pytest.mark.parametrize(
    "cases",
    [AGENTS, TURNS, BATCHES, COMMANDS, INGEST, WEBHOOKS],
    ids=["agents", "turns", "batches", "commands", "ingest", "webhooks"],
)
async def test_bad_input_is_told_with_our_code_and_stores_nothing(
    app: Ferryman, client: Client, cases: list[Case]
) -> None:
    await app.agents.ensure("ann", "echo")
    before = await stored(app)
    wrong = []
    for method, path, body, status, code in cases:
        told = await client.ask(method, path, body)
        got = (told.status, told.json["code"] if isinstance(told.json, dict) and "code" in told.json else told.json)
        if (
            got != (status, code)
            or told.headers["Content-Type"] != "application/problem+json"
            or not told.json["advice"]
        ):
            wrong.append((method, path, str(body)[:120], got, (status, code)))
    assert wrong == []
    assert await stored(app) == before
