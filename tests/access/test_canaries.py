"""Secrets planted in every place, and looked for in everything that comes out (S6, R7)."""

from __future__ import annotations

import io
import logging
import re
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlsplit, urlunsplit
from uuid import UUID

import nats
import pytest
from fastapi.routing import APIRoute, iter_route_contexts
from nats.aio.msg import Msg
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from ferryman import Ferryman
from ferryman.app.doctor import examine
from ferryman.app.tokens import ALL
from ferryman.http.server import make
from ferryman.kernel import errors, telemetry
from ferryman.kernel.nats_flush import flush_all
from ferryman.testing import NatsServer
from tests.access import atlas, town
from tests.access.wire import Wire
from tests.relays.conftest import until
from tests.relays.receiver import Receiver, receiving

PASSWORD = "zanzibar-password-canary"
NATS_PASSWORD = "zanzibar-nats-canary"
WEBHOOK_KEY = "zanzibar-webhook-key-canary-000000"
PAYLOAD = "zanzibar-payload-canary"
# What each page with a place in its address is asked for.
SHOWN = {
    "/agents/{agent_id}": "agents.agent_id",
    "/batches/{id}": "pmo_batches.id",
    "/commands/{id}": "command_inbox.id",
    "/ingest/plans/{id}": "ingest_plan.id",
    "/ingest/sources/{source}": "ingest_plan.source",
    "/ingest/tasks/{id}": "ingest_task.id",
    "/queues/{name}": "queues.name",
    "/schedules/{schedule_id}": "schedules.schedule_id",
    "/tasks/{task_id}": "tasks.id",
    "/turns/{id}": "agent_inbox.id",
    "/webhooks/{named}": "webhooks.name",
}


@pytest.fixture
def said() -> Iterator[io.StringIO]:
    """Everything that is logged, however deep, with its extras and its tracebacks."""

    class All(logging.StreamHandler[io.StringIO]):
        def format(self, record: logging.LogRecord) -> str:
            return f"{super().format(record)} {record.__dict__}"

    stream = io.StringIO()
    handler, root = All(stream), logging.getLogger()
    level, root.level = root.level, logging.DEBUG
    root.addHandler(handler)
    yield stream
    root.removeHandler(handler)
    root.level = level


def with_password(url: str, password: str = PASSWORD) -> str:
    parts = urlsplit(url)
    user = parts.username or "postgres"
    place = parts.netloc.rpartition("@")[2]
    return urlunsplit(parts._replace(netloc=f"{user}:{quote(password)}@{place}"))


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[NatsServer]:
    with NatsServer(tmp_path / "nats") as server:
        yield server


@asynccontextmanager
async def overheard(server: NatsServer) -> AsyncIterator[list[Msg]]:
    """Everything that anybody publishes."""
    found: list[Msg] = []

    async def hear(message: Msg) -> None:
        found.append(message)

    client = await nats.connect(server.url)
    await client.subscribe(">", cb=hear)
    await flush_all(client)
    try:
        yield found
    finally:
        await client.close()


def hides(everything: str, secrets: dict[str, str]) -> None:
    for name, secret in secrets.items():
        at = everything.find(secret)
        assert at < 0, (name, everything[max(0, at - 300) : at + 100])


@pytest.mark.contract("S6", "R7", "K19")
async def test_no_secret_comes_out_anywhere(
    database_url: str,
    said: io.StringIO,
    spans: InMemorySpanExporter,
    broker: NatsServer,
    capfd: pytest.CaptureFixture[str],
) -> None:
    out: list[str] = []
    relays = {"webhook_key": WEBHOOK_KEY, "private_networks": "127.0.0.0/8", "nats": "on"}
    nats_url = with_password(broker.url, NATS_PASSWORD)
    app = Ferryman(with_password(database_url), nats_url=nats_url, doorbell="nats", relays=relays)
    async with overheard(broker) as published, receiving() as receiver, town.furnish(app):
        await town.settle(app, "default", "word")
        made = await app.tokens.create("root", scopes="admin", tenant=ALL)
        begun = await app.tokens.sign_in(made.text)
        assert begun is not None
        hook = await app.webhooks.add(receiver.url("/hook"))
        task = await app.tasks.create("greet", {"card": PAYLOAD}, max_retries=0)
        out.append(
            repr(app.settings) + str(app.settings.sources()) + repr(made) + repr(app.tokens) + repr(hook.webhook)
        )
        wire = Wire(make(app), token=made.text)
        async with app.worker(concurrency=2):
            for operation in atlas.operations(make(app).openapi()):
                for body in (operation.example(), b"{", {"token": made.text, "password": PASSWORD}):
                    if operation.method == "GET" and body is not None:
                        continue
                    if operation.path.endswith("/tokens") and operation.method == "POST" and body != b"{":
                        continue  # the one answer that shows a token: a new one
                    answer = await wire.ask(operation.method, operation.target(), body)
                    shown = answer.body.decode(errors="replace") + str(answer.headers)
                    out.append(shown if operation.path != "/v1/tasks" else shown.replace(PAYLOAD, ""))
            await wire.ask("GET", f"/v1/tasks?token={made.text[:-2]}xx", cookie=f"ferryman_session={begun.secret}")
            await wire.of(made.text[:-2] + "xx").get("/v1/tasks")
            await wire.post("/login", {"token": made.text[:-1]})
            out += await pages(wire.of(None), await town.ids_of(app, "default"), begun.secret)
            out += await told_outside(task.id, receiver, published)
        out.append(telemetry.exposition().decode())
        async with app.database.session() as tx:
            out.append(str([dict(row) for row in await tx.fetch("select * from ferryman.events")]))  # type: ignore[call-overload]
            for table in ("access_tokens", "access_sessions", "webhooks", "webhook_deliveries"):
                stored = await tx.fetch(f"select t::text as row from ferryman.{table} as t")
                out.append(str([row["row"] for row in stored]))
        out.append(str(await examine(app.settings)))
    out.append(await refused(database_url))
    traced = [each.to_json() for each in spans.get_finished_spans()]
    written = capfd.readouterr()
    everything = "\n".join([*out, *traced, written.out, written.err, said.getvalue()])

    assert len(said.getvalue()) > 1000
    assert "root" in everything
    assert any('"greet"' in each for each in traced)
    hides(everything, {
        "password": PASSWORD, "password of NATS": NATS_PASSWORD, "webhook key": WEBHOOK_KEY, "webhook secret": hook.secret,
        "payload": PAYLOAD, "token": made.text.rpartition("_")[2], "session": begun.secret,
    })  # fmt: skip


async def told_outside(task: UUID, receiver: Receiver, published: list[Msg]) -> list[str]:
    """Return what webhooks and NATS were told, when both have heard of the end of a task."""

    async def look() -> bool:
        called = any(str(task).encode() in each.body and b"succeeded" in each.body for each in receiver.calls)
        return called and any(each.subject.endswith(f".{task}.succeeded") for each in published)

    await until(look, "a call and a message about the end of a task")
    return [
        *(f"{each.path} {each.headers} {each.body.decode()}" for each in receiver.calls),
        *(f"{each.subject} {each.headers} {each.data.decode(errors='replace')}" for each in published),
    ]


async def pages(wire: Wire, ids: dict[str, str], session: str) -> list[str]:
    """Return every page of the dashboard, as whoever has signed in sees it; a task's own page shows its payload."""
    shown = {}
    web: Any = wire.web
    documented = web.openapi()["paths"]
    for each in iter_route_contexts(web.routes):
        path = str(each.path)
        route = each.original_route
        # Forms are for those who change something.
        if isinstance(route, APIRoute) and path not in documented and "GET" in (route.methods or ()):
            target = re.sub(r"{[^}]*}", lambda _place, at=path: quote(ids[SHOWN[at]], safe=""), path)  # type: ignore[misc]
            answer = await wire.get(target, accept="text/html", cookie=f"ferryman_session={session}")
            assert answer.status < 400, (path, answer.body[:300])
            shown[path] = answer.body.decode() + str(answer.headers)
    assert shown.keys() >= {"/", "/tasks", "/watchdog", *SHOWN}
    return [page if path != "/tasks/{task_id}" else page.replace(PAYLOAD, "") for path, page in shown.items()]


async def refused(database_url: str) -> str:
    """Return what is said when the database cannot be reached, by a wrong name and a wrong door."""
    told = ""
    parts = urlsplit(with_password(database_url))
    for wrong in (
        urlunsplit(parts._replace(path="/nowhere")),
        f"postgresql://u:{PASSWORD}@127.0.0.1:1/x",
        f"postgresql://u:{PASSWORD}@[::1/x",
        f"postgresql://u:{PASSWORD}@x:{PASSWORD}@db/x",
    ):
        try:
            await Ferryman(wrong).open()
        except errors.FerrymanError as error:
            told += f"{error} {error!r} {getattr(error, 'details', '')}"
    return told
