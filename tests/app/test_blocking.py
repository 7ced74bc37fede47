"""The synchronous client does what the async doors do (S2)."""

import asyncio
import inspect
from datetime import UTC, datetime, timedelta

import pytest

from ferryman import Client, Ferryman
from ferryman.app.agents import Agents
from ferryman.app.batches import Batches
from ferryman.app.blocking_batches import BlockingBatches
from ferryman.app.blocking_commands import BlockingCommands
from ferryman.app.blocking_ingest import BlockingIngest
from ferryman.app.blocking_turns import BlockingAgents
from ferryman.app.blocking_webhooks import BlockingWebhooks
from ferryman.app.commands import Commands
from ferryman.app.ingest import Ingest
from ferryman.app.relays import Webhooks
from ferryman.kernel import errors
from tests.http.domains.fleet import fleet

DAWN = datetime(2026, 1, 1, tzinfo=UTC)

# What has no meaning without an event loop, or is done by what a call gives into the caller's hands.
LEFT_OUT = {
    Agents: {"close", "accept", "create", "enqueue", "stream", "wait"},
    Batches: {"close", "join", "wait"},  # plain code waits by `result`
    Commands: {"close"},
    Ingest: {"close", "fired"},
    Webhooks: set[str](),
}


@pytest.mark.contract("S2")
@pytest.mark.parametrize(
    ("door", "plain"),
    [
        (Agents, BlockingAgents),
        (Batches, BlockingBatches),
        (Commands, BlockingCommands),
        (Ingest, BlockingIngest),
        (Webhooks, BlockingWebhooks),
    ],
)
def test_plain_code_can_call_whatever_a_door_offers(door: type, plain: type) -> None:
    offered = {
        name
        for name, each in inspect.getmembers(door)
        if not name.startswith("_") and (inspect.iscoroutinefunction(each) or inspect.isasyncgenfunction(each))
    }

    assert {name for name in offered if not hasattr(plain, name)} == LEFT_OUT[door]


@pytest.mark.contract("S2")
def test_a_script_sends_plans_and_adds(database_url: str) -> None:
    with Client(fleet(database_url)) as client:
        sent = client.commands.accept({"command_type": "Cover.Request", "idempotency_key": "k"})
        planned = client.ingest.plan("depot", since=DAWN, until=DAWN + timedelta(hours=1))
        added = client.webhooks.add("https://example.com/", name="hook")
        batch = client.batches.accept(
            {"tasks": [{"target_strategy": "new", "target_ref": "echo", "instruction": "go"}]}
        )

        assert client.commands.get(sent.id).status == "RECEIVED"
        assert client.commands.cancel(sent.id)
        assert [each.id for each in client.ingest.status()] == [planned.id]
        assert client.webhooks.secret("hook") == added.secret
        assert client.webhooks.pause("hook")
        assert [each.id for each in client.webhooks.list(state="paused")] == [added.webhook.id]
        assert client.batches.tree(batch).batch.status == "running"


@pytest.mark.contract("S2")
async def test_an_app_that_is_open_in_another_loop_is_refused_and_stays_open(database_url: str) -> None:
    async with Ferryman(database_url) as app:
        with pytest.raises(errors.OpenElsewhere):
            await asyncio.to_thread(Client(app).__enter__)

        assert list(await app.tasks.list()) == []
