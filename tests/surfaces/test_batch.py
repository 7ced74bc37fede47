"""`ferryman batch`, and the demo's chapter of it."""

import asyncio
import io
import json

import pytest
from rich.console import Console

from ferryman import Client, Ferryman, Turn
from ferryman.cli.batch import look
from ferryman.cli.screen import Screen
from tests.patience import PATIENCE_SECONDS
from tests.surfaces import ferry

pytestmark = pytest.mark.contract("B10", "B9", "B1", "S3")


def make(url: str) -> Ferryman:
    app = Ferryman(url)

    @app.agent
    async def clerk(turn: Turn) -> object:
        if turn.instruction == "fork":
            return (await turn.fork_join([_task("clerk", "low", "new")]))["status"]
        if turn.instruction == "wait":
            await asyncio.sleep(600)
        return {"summary": f"did {turn.instruction}"}

    return app


def _task(ref: str, instruction: str, strategy: str = "reuse") -> dict[str, str]:
    return {"target_strategy": strategy, "target_ref": ref, "instruction": instruction}


async def test_batches_are_forked_shown_listed_and_canceled(database_url: str) -> None:
    app = make(database_url)

    async def run(*words: str) -> ferry.Ran:
        return await asyncio.to_thread(ferry.run, *words, url=database_url)

    async with app, app.worker():
        for name in ("ada", "bob", "cay"):
            await app.agents.ensure(name, "clerk")
        whole = json.dumps({"tasks": [_task("ada", "one"), _task("bob", "fork")], "fail_fast": False})
        done = await run("batch", "fork", whole, "--wait")
        waits = await run("batch", "fork", json.dumps({"tasks": [_task("cay", "wait")]}), "--json")
        id = waits.json["batch"]
        listed = await run("batch", "list", "--json")
        canceled = await run("batch", "cancel", id)
        again = await run("batch", "cancel", id)
        first = next(each["id"] for each in listed.json["batches"] if each["task_count"] == 2)
        shown = await run("batch", "show", first, "--follow")
        tree = await run("batch", "show", first, "--json")
        wrong = await run("batch", "fork", '{"tasks": [{"profile_name": "x"}]}')
        unknown = await run("batch", "show", "0190b7a0-0000-7000-8000-000000000000")

    assert (done.code, done.json["status"]) == (0, "success")
    assert [each["summary"] for each in done.json["results"]] == ["did one", "success"]
    assert canceled.out == "Ended: its children are being stopped.\n"
    assert (again.code, again.out) == (1, "It had ended already, as failed.\n")
    assert "2/2" in shown.out
    assert "did low" in shown.out
    assert tree.json["tasks"][1]["batches"][0]["tasks"][0]["status"] == "success"
    assert wrong.code == 2
    assert "tasks[0].profile_name: is not supported any more" in wrong.err
    assert unknown.code == 4


async def test_before_a_person_a_batch_is_drawn_until_its_end_as_it_fills_in(
    database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    app, go, written = Ferryman(database_url), {name: asyncio.Event() for name in "ab"}, io.StringIO()
    monkeypatch.setattr(look, "LOOK_SECONDS", 0.01)
    monkeypatch.setenv("TERM", "xterm")  # on a dumb one nothing is drawn before the end

    @app.agent
    async def clerk(turn: Turn) -> object:
        await go[turn.instruction].wait()
        return {"summary": f"did {turn.instruction}"}

    async def drawn(*words: str) -> None:
        async with asyncio.timeout(PATIENCE_SECONDS):
            while not all(word in written.getvalue() for word in words):  # noqa: ASYNC110 - a screen is watched
                await asyncio.sleep(0.01)

    screen = Screen()
    screen.out = Console(file=written, force_terminal=True, width=120)
    async with app, app.worker():
        batch = await app.batches.fork([_task("clerk", name, "new") for name in go])
        code = asyncio.create_task(look.until_end(app.batches, batch.id, screen))
        await drawn("0/2", "dispatched")
        go["b"].set()
        await drawn("1/2", "did b")
        assert "did a" not in written.getvalue()
        go["a"].set()
        assert await code == 0
    assert "2/2" in written.getvalue()
    assert "did a" in written.getvalue()


def test_plain_code_reaches_batches(database_url: str) -> None:
    with Client(make(database_url)) as client:
        batch = client.batches.fork([_task("clerk", "one", "new")])

        assert (client.batches.get(batch).status, len(client.batches.tasks(batch))) == ("running", 1)
        assert [each.id for each in client.batches.list()] == [batch]
        assert client.batches.cancel(batch)
        assert client.batches.result(batch)["results"] == [
            {"task_index": 0, "status": "canceled", "output_box_id": str(client.batches.tasks(batch)[0].output_box_id),
             "error": "canceled"}
        ]  # fmt: skip
