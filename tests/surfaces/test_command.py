"""`ferryman command`."""

import asyncio
import json
from collections.abc import AsyncIterator

import pytest

from ferryman import Client, Command, Ferryman, Message
from tests.surfaces import ferry

UNKNOWN = "00000000-0000-7000-8000-000000000000"


@pytest.fixture
async def app(database_url: str) -> AsyncIterator[Ferryman]:
    made = Ferryman(database_url)

    @made.on_command("Cover.Request")
    async def cover(command: Command) -> Message:
        return Message("Cover.Painting", command.payload, outside=True)

    async with made:
        yield made


@pytest.mark.contract("C1", "C10", "S3")
async def test_a_command_is_sent_followed_answered_and_told(app: Ferryman, database_url: str) -> None:
    async def run(*words: str) -> ferry.Ran:
        return await asyncio.to_thread(ferry.run, "command", *words, url=database_url)

    sent = await run("send", "Cover.Request", '{"title": "Moby"}', "--session", "s1", "--key", "k1", "--json")
    id = sent.json["command_id"]
    async with app.worker():
        while not (tasks := (await app.commands.story(id)).tasks):  # noqa: ASYNC110 - until the worker has come to it
            await asyncio.sleep(0.01)
    shown = await run("show", id)
    done = await run("complete", str(tasks[0].id), '{"file": "moby.png"}', "--type", "Cover.Painted")
    late = await run("complete", str(tasks[0].id), "--json")
    story = await run("story", id, "--json")
    listed = await run("list", "--status", "completed")
    over = await run("cancel", id)
    missing = await run("show", UNKNOWN)
    nothing = await run("complete", UNKNOWN, "--json")
    wrong = await run("story", "cmd-123")

    assert (sent.code, sent.json["status"], sent.json["location"]) == (0, "RECEIVED", f"/commands/{id}")
    assert "Cover.Painting" in shown.out
    assert "PROCESSING" in shown.out
    assert (done.code, late.code, late.json["code"]) == (0, 5, "ASYNC_TASK_ENDED")
    assert story.json["command"]["status"] == "COMPLETED"
    assert story.json["tasks"][0]["result_data"] == {"file": "moby.png"}
    assert [each["name"] for each in story.json["events"]][-1] == "Cover.Command.Completed"
    assert id in listed.out
    assert (over.code, missing.code, nothing.code, wrong.code) == (5, 4, 4, 2)
    assert "expected the UUID" in wrong.err


@pytest.mark.contract("C1", "S2")
def test_plain_code_sends_commands_and_reads_their_stories(database_url: str) -> None:
    with Client(database_url) as client:
        sent = client.commands.send("Cover.Request", {"title": "Moby"}, idempotency_key="k")
        again = client.commands.send("Cover.Request", idempotency_key="k")
        assert (again.id, again.idempotent_hit) == (sent.id, True)
        assert client.commands.cancel(sent.id, reason="no cover")
        assert client.commands.wait(sent.id).status == "FAILED"
        assert [each.id for each in client.commands.list()] == [sent.id]
        assert [each.to_state for each in client.commands.story(sent.id).events] == ["RECEIVED", "FAILED"]
        assert not client.commands.complete(async_task_id=UNKNOWN).changed
        assert json.loads(client.commands.get(sent.id).payload) == {"title": "Moby"}
