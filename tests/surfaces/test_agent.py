"""`ferryman agent`, and what `explain` says of a turn."""

import asyncio
from uuid import UUID

import pytest

from ferryman import Client, Ferryman, Turn
from ferryman.agents.intake.timeline import Moment
from tests.patience import PATIENCE_SECONDS
from tests.surfaces import ferry

pytestmark = pytest.mark.contract("A17", "S3", "K22")


def make(url: str) -> Ferryman:
    app = Ferryman(url)

    @app.tool(external=True)
    def outside() -> None: ...

    @app.agent
    async def clerk(turn: Turn) -> object:
        await turn.step("think", asyncio.sleep, 0)
        return await turn.call_tool("outside")

    return app


async def waiting(app: Ferryman, turn: UUID) -> list[Moment]:
    """Wait until a turn waits for a call, and return it."""
    while True:
        calls = [each for each in await app.agents.timeline(turn) if each.kind == "call"]
        if calls:
            return calls
        await asyncio.sleep(0.02)


async def test_agents_are_made_asked_watched_explained_and_stopped(database_url: str) -> None:
    url = database_url
    app = make(url)

    async def run(*words: str) -> ferry.Ran:
        return await asyncio.to_thread(ferry.run, *words, url=url)

    made = await run("agent", "create", "cleo", "clerk")
    unknown = await run("agent", "send", "nobody", "do it")
    no_call = await run("agent", "report", "call_1", "1")
    sent = await run("agent", "send", "cleo", "do it", "--json")
    turn = sent.json["turn"]
    waits = await run("explain", turn, "--json")
    async with app, app.worker():
        async with asyncio.timeout(PATIENCE_SECONDS):
            calls = await waiting(app, UUID(turn))
        explained = await run("explain", turn)
        drawn = await run("agent", "timeline", turn)
        second = (await run("agent", "send", "cleo", "and that", "--json")).json["turn"]
        stopped = await run("agent", "stop", turn)
        async with asyncio.timeout(PATIENCE_SECONDS):
            [call] = await waiting(app, UUID(second))
        reports = [await run("agent", "report", call.details["tool_call_id"], '"yes"') for _ in range(2)]
        end = await app.agents.wait(UUID(second))
        cards = await run("agent", "cards", str(end.output_box_id), "--json")
        listed = await run("agent", "turns", "cleo", "--json")
        older = await run("agent", "turns", "cleo", "--before", second, "--json")
    shown = await run("agent", "show", "cleo")
    ended = await run("explain", turn)

    assert made.out == "cleo is a clerk, idle.\n"
    assert (unknown.code, "There is no agent nobody" in unknown.err) == (4, True)
    assert (no_call.code, "No turn has made the call" in no_call.err) == (4, True)
    assert waits.json["reasons"][0]["code"] == "no_worker"
    assert calls[0].details["tool_call_id"] in explained.out
    assert "somebody outside answers" in explained.out
    assert "step think" in drawn.out
    assert "call outside" in drawn.out
    assert stopped.out.startswith("accepted")
    assert [each["id"] for each in listed.json["turns"]] == [second, turn]
    assert [each["id"] for each in older.json["turns"]] == [turn]
    assert [each.code for each in reports] == [0, 5]
    assert [each["content"] for each in cards.json["cards"] if each["type"] == "task.deliverable"] == ["yes"]
    assert "stopped" in shown.out
    assert "It has ended as failed, stopped." in ended.out


def test_plain_code_reaches_agents(database_url: str) -> None:
    with Client(make(database_url)) as client:
        agent = client.agents.ensure("cleo", "clerk")
        turn = client.agents.send("cleo", "do it")
        queued = client.agents.send("cleo", "and that")

        assert client.agents.cancel(queued.id).status == "accepted"
        assert [each.id for each in client.agents.turns("cleo")] == [queued.id, turn.id]
        assert (agent.profile, client.agents.get("cleo").status) == ("clerk", "dispatched")
        assert [each.name for each in turn.timeline()] == ["dispatched"]
        assert [each.agent_id for each in client.agents.list()] == ["cleo"]
