"""The pages of agents, batches, commands, ingestion and webhooks: who may do what there, and whose work they show."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import timedelta
from typing import Any
from uuid import UUID

import aiohttp
import asyncpg
import pytest
from starlette.requests import HTTPConnection

from ferryman import Ferryman, Turn
from ferryman.access.model import Scope
from ferryman.http.callers import Caller
from ferryman.http.serving import serving
from ferryman.kernel import ids, open_transactions
from tests.ingest.harbour import DAWN, HOUR, Server

KEY = {"webhook_key": "k" * 40, "private_networks": ("127.0.0.0/8",)}


class Someone:
    """A guard that lets everybody in as one caller."""

    def __init__(self, tenant: str, *scopes: Scope, operator: bool = False) -> None:
        self._caller = Caller("somebody", tenant, frozenset(scopes), operator=operator)

    async def caller(self, request: HTTPConnection) -> Caller:
        return self._caller


async def _nothing(items: Any) -> int:
    return len(items)


@pytest.fixture
async def app(database_url: str) -> AsyncIterator[Ferryman]:
    """An app with one object of each kind, of the tenant default; nobody works."""
    from ferryman.ingest.sinks.call import CallSink

    made = Ferryman(database_url, doorbell="none", relays=KEY)

    @made.agent
    async def clerk(turn: Turn) -> None: ...

    made.source(Server().fill(5), name="depot", sink=CallSink(_nothing))
    async with made:
        yield made


async def planted(app: Ferryman) -> dict[str, UUID]:
    await app.agents.ensure("ada", "clerk")
    turn = await app.agents.send("ada", "go")
    batch = await app.batches.fork([{"target_strategy": "new", "target_ref": "clerk", "instruction": "go"}])
    plan = await app.ingest.plan("depot", since=DAWN, until=DAWN + HOUR)
    sent = await app.commands.send("Cover.Request", {})
    webhook = (await app.webhooks.add("http://127.0.0.1:9/", name="ledger")).webhook
    assert plan.id is not None
    [slice] = await app.ingest.slices(plan.id)
    return {
        "turn": turn.id, "batch": batch.id, "plan": plan.id, "command": sent.id, "webhook": webhook.id, "slice": slice.id,
        "nothing": ids.new_id(),
    }  # fmt: skip


@asynccontextmanager
async def asking(app: Ferryman, guard: Someone) -> AsyncIterator[Any]:
    """Ask as somebody; answers are a status and a text."""
    async with serving(app, guard=guard, port=0) as served, aiohttp.ClientSession() as session:

        async def ask(method: str, path: str, form: dict[str, str] | None = None) -> tuple[int, str]:
            async with session.request(method, served.url + path, data=form, allow_redirects=False) as answer:
                return answer.status, await answer.text()

        yield ask


PAGES = (
    "/agents/ada", "/turns/{turn}", "/batches/{batch}", "/commands/{command}", "/ingest/plans/{plan}", "/webhooks/{webhook}",
    "/webhooks/ledger",
)  # fmt: skip
WRITES: tuple[tuple[str, dict[str, str]], ...] = (
    ("/agents/ada/send", {"instruction": "go"}),
    ("/agents/ada/wakeup", {}),
    ("/turns/{turn}/stop", {}),
    ("/turns/{turn}/answer", {"call": "x"}),
    ("/batches/{batch}/cancel", {}),
    ("/commands/{command}/cancel", {}),
    ("/commands/tasks/{nothing}/cancel", {}),
    ("/ingest/sources/depot/plan", {"operation": "BACKFILL"}),
    ("/ingest/sources/depot/rewind", {"sure": "depot"}),
    ("/webhooks/{webhook}/pause", {}),
    ("/webhooks/{webhook}/resume", {}),
    ("/deliveries/{nothing}/retry", {}),
)
LISTS = ("/agents", "/batches", "/commands", "/ingest", "/webhooks")


@pytest.mark.contract("S5", "S6")
async def test_who_may_only_read_changes_nothing_and_sees_no_forms(app: Ferryman) -> None:
    parts = await planted(app)
    async with asking(app, Someone("default", Scope.READ)) as ask:
        for path, form in WRITES:
            assert (await ask("POST", path.format(**parts), form))[0] == 403, path
        for path in (*PAGES, *LISTS, "/ingest/sources/depot"):
            status, text = await ask("GET", path.format(**parts))
            assert status == 200, path
            assert 'method="post" class="stacked"' not in text
            assert "/stop" not in text
            assert "/cancel" not in text
            assert "/rewind" not in text
            assert "Readers of the log" not in text, "relays are for operators"
    assert (await app.batches.get(parts["batch"])).status == "running"


@pytest.mark.contract("S6", "I11")
async def test_only_an_admin_takes_a_cursor_back(app: Ferryman) -> None:
    await planted(app)
    async with asking(app, Someone("default", Scope.WRITE)) as ask:
        status, text = await ask("POST", "/ingest/sources/depot/rewind", {"sure": "depot"})
        assert status == 403
        assert "scope admin" in text
        assert "/rewind" not in (await ask("GET", "/ingest/sources/depot"))[1]


@pytest.mark.contract("K12", "S6")
async def test_pages_and_forms_of_one_tenant_show_and_do_nothing_to_another(app: Ferryman) -> None:
    parts = await planted(app)
    async with asking(app, Someone("other", Scope.ADMIN)) as ask:
        for path in (*PAGES, "/ingest/tasks/{slice}"):
            assert (await ask("GET", path.format(**parts)))[0] == 404, path
        for path in LISTS:
            status, text = await ask("GET", path)
            assert status == 200, path
            assert not [name for name, id in parts.items() if str(id) in text], path
        for path, form in WRITES:
            if "/sources/" not in path:
                assert (await ask("POST", path.format(**parts), form))[0] in {404, 409, 422}, path
    assert (await app.agents.turn(parts["turn"])).turn_status is None
    assert (await app.batches.get(parts["batch"])).status == "running"
    assert not (await app.commands.get(parts["command"])).terminal
    assert (await app.webhooks.get(parts["webhook"])).state.value == "active"
    assert len(await app.agents.inbox("ada")) == 1


REFUSALS: tuple[tuple[str, dict[str, str], str], ...] = (
    ("/agents/ada/send", {"instruction": "  "}, "say what the agent is to do"),
    ("/agents/ada/send", {"instruction": "{oh"}, "instruction: "),
    ("/agents/nobody/send", {"instruction": "go"}, "nobody"),
    ("/turns/{turn}/answer", {"call": "x", "status": "success"}, "does not wait for an answer"),
    ("/batches/{nothing}/cancel", {}, "There is no batch"),
    ("/commands/{nothing}/cancel", {}, "There is no command"),
    ("/ingest/sources/depot/plan", {"operation": "BACKFILL", "since": "soon"}, "expected a time such as"),
    ("/ingest/sources/depot/plan", {"operation": "SWIM"}, "operation"),
    ("/ingest/sources/nowhere/plan", {}, "No source is named nowhere"),
    ("/ingest/sources/depot/rewind", {"sure": "depo"}, "type the name of the source"),
    ("/ingest/sources/depot/rewind", {"sure": "depot", "cursor": "x"}, "no such cursor"),
    ("/deliveries/{nothing}/retry", {}, "There is no delivery"),
)


@pytest.mark.contract("S5", "K20")
async def test_a_refusal_is_told_where_the_form_stood(app: Ferryman) -> None:
    parts = await planted(app)
    async with asking(app, Someone("default", Scope.ADMIN)) as ask:
        for path, form, says in REFUSALS:
            status, text = await ask("POST", path.format(**parts), form)
            assert status in {404, 409, 422}, (path, text)
            assert says in text, path
            told, _ = await ask("POST", path.format(**parts), {**form, "back": "/agents"})
            assert told == 303, path


@pytest.mark.contract("S5", "K10")
async def test_operators_see_which_transaction_holds_up_the_readers_of_the_log(
    app: Ferryman, database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(open_transactions, "LONG", timedelta(0))
    other = await asyncpg.connect(database_url, server_settings={"application_name": "importer"})
    await other.execute("begin")
    await other.execute(
        "insert into ferryman.events (at, subject, tenant, kind) values (now(), gen_random_uuid(), 'default', 'thing')"
    )
    told = f"Process {other.get_server_pid()} (importer, role postgres"
    await app.counting.alarms(patience=60)  # pages show what the last look found
    async with asking(app, Someone("default", Scope.READ, operator=True)) as ask:
        shown = {path: told in (await ask("GET", path))[1] for path in ("/", "/webhooks")}
    async with asking(app, Someone("default", Scope.READ)) as ask:
        to_tenants = {path: told in (await ask("GET", path))[1] for path in ("/", "/webhooks")}
    await other.close()

    assert shown == {"/": True, "/webhooks": True}
    assert to_tenants == {"/": False, "/webhooks": False}
