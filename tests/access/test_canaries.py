"""Secrets planted in every place, and looked for in everything that comes out (S6, R7)."""

from __future__ import annotations

import io
import logging
import re
from collections.abc import Iterator
from typing import Any
from urllib.parse import quote, urlsplit, urlunsplit

import pytest
from fastapi.routing import APIRoute, iter_route_contexts

from ferryman import Ferryman
from ferryman.app.doctor import examine
from ferryman.app.tokens import ALL
from ferryman.http.server import make
from ferryman.kernel import errors, telemetry
from tests.access import atlas, town
from tests.access.wire import Wire

PASSWORD = "zanzibar-password-canary"
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


def with_password(url: str) -> str:
    parts = urlsplit(url)
    user = parts.username or "postgres"
    place = parts.netloc.rpartition("@")[2]
    return urlunsplit(parts._replace(netloc=f"{user}:{quote(PASSWORD)}@{place}"))


@pytest.mark.contract("S6", "R7", "K19")
async def test_no_secret_comes_out_anywhere(
    database_url: str, said: io.StringIO, capfd: pytest.CaptureFixture[str]
) -> None:
    out: list[str] = []
    app = Ferryman(with_password(database_url), doorbell="none", relays={"webhook_key": WEBHOOK_KEY})
    async with town.furnish(app):
        await town.settle(app, "default", "word")
        made = await app.tokens.create("root", scopes="admin", tenant=ALL)
        begun = await app.tokens.sign_in(made.text)
        assert begun is not None
        await app.tasks.create("greet", {"card": PAYLOAD}, max_retries=0)
        out.append(repr(app.settings) + str(app.settings.sources()) + repr(made) + repr(app.tokens))
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
        out.append(telemetry.exposition().decode())
        async with app.database.session() as tx:
            out.append(str([dict(row) for row in await tx.fetch("select * from ferryman.events")]))  # type: ignore[call-overload]
            for table in ("access_tokens", "access_sessions"):
                stored = await tx.fetch(f"select t::text as row from ferryman.{table} as t")
                out.append(str([row["row"] for row in stored]))
        out.append(str(await examine(app.settings)))
    out.append(await refused(database_url))
    written = capfd.readouterr()
    everything = "\n".join([*out, written.out, written.err, said.getvalue()])

    assert len(said.getvalue()) > 1000
    assert "root" in everything
    for name, secret in {
        "password": PASSWORD, "webhook key": WEBHOOK_KEY, "token": made.text.rpartition("_")[2], "session": begun.secret,
        "payload": PAYLOAD,
    }.items():  # fmt: skip
        at = everything.find(secret)
        assert at < 0, (name, everything[max(0, at - 300) : at + 100])


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
    ):
        app = Ferryman(wrong)
        try:
            await app.open()
        except (errors.FerrymanError, ValueError, OSError) as error:
            told += f"{error} {error!r} {getattr(error, 'details', '')}"
    return told
