"""An app with something of every domain, and what a tenant has of each when a test begins."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID, uuid4

from ferryman import Command, Ferryman, Message, Turn
from ferryman.http import server
from ferryman.ingest.ports import Item, Page, Request, Written
from ferryman.kernel.db import Tx
from tests.patience import PATIENCE_SECONDS

KEY = "0123456789abcdef0123456789abcdef"
DAWN = datetime(2026, 1, 1, tzinfo=UTC)
HOUR = timedelta(hours=1)


class Shelf:
    """A sink that keeps nothing; a record without a value is refused."""

    same_database = False

    async def write(self, tx: Tx | None, items: Sequence[Item], *, batch_key: str) -> Written:
        bad = [item for item in items if item.get("value") is None]
        return Written(len(items) - len(bad), [(item, "value is missing") for item in bad])


def fleet(database_url: str) -> Ferryman:
    """Make an app that knows agents, tools, commands and a source."""
    app = Ferryman(
        database_url,
        worker={"poll": "0.1s"},
        relays={"webhook_key": KEY, "private_networks": "127.0.0.0/8", "webhooks": "off"},
    )

    @app.tool(external=True, suspend_timeout_seconds=600)
    def approve(text: str) -> None:
        """Somebody outside answers."""

    @app.agent
    async def echo(turn: Turn) -> Any:
        turn.emit("thinking")
        await turn.step("think", len, str(turn.instruction))
        return {"summary": f"said {turn.instruction}"}

    @app.agent
    async def asker(turn: Turn) -> Any:
        return await turn.call_tool("approve", text=str(turn.instruction))

    @app.on_command("Cover.Request")
    async def cover(command: Command) -> Message:
        return Message("Cover.Painting", {"title": command.payload["title"]}, outside=True)

    @app.source(name="depot", sink=Shelf(), safety_lag=timedelta(0))
    async def depot(request: Request) -> Page:
        return Page([{"id": 1, "value": "v"}, {"id": 2}, {"id": 3}], has_next=False)

    return app


async def until(test: Any) -> Any:
    """Wait until something is there, and return it."""
    async with asyncio.timeout(PATIENCE_SECONDS):
        while not (found := await test()):  # noqa: ASYNC110 - many things are waited for
            await asyncio.sleep(0.01)
    return found


async def call_of(app: Ferryman, turn: UUID) -> str:
    """Wait until a turn has made a call, and return its id."""

    async def made() -> list[str]:
        return [each.details["tool_call_id"] for each in await app.agents.timeline(turn) if each.kind == "call"]

    return str((await until(made))[0])


@dataclass(frozen=True)
class Cargo:
    """One of everything: what paths and bodies name it by."""

    agent: str
    asker: str
    turn: UUID
    waiting: UUID
    call: str
    context: UUID
    box: UUID
    card: UUID
    batch: UUID
    command: UUID
    async_task: UUID
    plan: UUID
    webhook: UUID
    delivery: UUID

    def names(self) -> dict[str, str]:
        """Return them as a path names them."""
        return {name: str(value) for name, value in self.__dict__.items()}


async def plant(app: Ferryman) -> Cargo:
    """Let the app's own tenant have one of everything: a turn that ended and one that waits, a batch, a command, a plan."""
    async with app.worker():
        await app.agents.ensure("ann", "echo")
        await app.agents.ensure("wes", "asker")
        turn = await app.agents.send("ann", "hello")
        waiting = await app.agents.send("wes", "may I?")
        batch = await app.batches.fork([{"target_strategy": "new", "target_ref": "asker", "instruction": "ask"}])
        sent = await app.commands.send("Cover.Request", {"title": "Moby"})
        planned = await app.ingest.plan("depot", since=DAWN, until=DAWN + HOUR)
        assert planned.id is not None
        ended = await turn.end(timeout=PATIENCE_SECONDS)
        call = await call_of(app, waiting.id)
        [task] = await until(lambda: _tasks(app, sent.id))
        await app.ingest.wait(planned.id, timeout=PATIENCE_SECONDS)
        await until(lambda: _suspended(app, batch.id))
    webhook = await app.webhooks.add("https://example.com/hook", name="hook")
    assert ended.context_box_id is not None
    assert ended.output_box_id is not None
    assert ended.deliverable_card_id is not None
    return Cargo(
        "ann", "wes", turn.id, waiting.id, call, ended.context_box_id, ended.output_box_id, ended.deliverable_card_id,
        batch.id, sent.id, task.id, planned.id, webhook.webhook.id, await dead_delivery(app, webhook.webhook.id),
    )  # fmt: skip


async def _tasks(app: Ferryman, command: UUID) -> Sequence[Any]:
    return (await app.commands.story(command)).tasks


async def _suspended(app: Ferryman, batch: UUID) -> bool:
    [task] = await app.batches.tasks(batch)
    return task.current_agent_turn_id is not None and (await app.agents.get(task.agent_id)).status == "suspended"


async def dead_delivery(app: Ferryman, webhook: UUID) -> UUID:
    """Let a webhook have a delivery that nobody took."""
    id = uuid4()
    async with app.database.transaction() as tx:
        await tx.fetch("select set_config('session_replication_role', 'replica', true)")
        await tx.fetch(
            "insert into ferryman.webhook_deliveries (id, webhook_id, event_id, next_at, ends_at, created_at, finished_at,"
            " attempts, state, tenant, kind, body)"
            " values ($1, $2, 1, now(), now(), now(), now(), 3, 'dead', 'default', 'task', '{}')",
            id,
            webhook,
        )
    return id


def document(app: Ferryman) -> dict[str, Any]:
    """Return the OpenAPI document; it is the same for every app, and takes a while to make."""
    if not _DOCUMENT:
        _DOCUMENT.update(server.document(server.make(app)))
    return _DOCUMENT


_DOCUMENT: dict[str, Any] = {}
