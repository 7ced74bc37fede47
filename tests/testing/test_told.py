"""R9: what a trial tells a test of what is not done, and why."""

import asyncio
import contextlib
import logging
from datetime import timedelta
from pathlib import Path

import pytest

from ferryman import Context, Turn
from ferryman.kernel.timed import timed
from ferryman.testing import trial, vigil
from tests.testing.test_trial import story


@pytest.mark.contract("R9")
async def test_what_cannot_be_done_is_named_with_the_reason(database_url: str, tmp_path: Path) -> None:
    app = story(tmp_path / "ledger")
    app.declare("elsewhere")
    app.declare("further")
    async with trial.opened(app, database_url) as given:
        for name in ("further", "elsewhere", "further"):
            await app.tasks.create(name)
        await app.tasks.create("plain", {"mark": "x"}, queue="attic")

        with pytest.raises(TimeoutError) as told:
            await given.run(timeout=0.5)

    nobody = "(this app has no handler of that name)"
    assert str(told.value) == (
        f"After 0.5 s there is still due: 1 x task elsewhere {nobody}, 2 x task further {nobody}, "
        "1 x task plain (this app's worker does not serve the queue attic)."
    )


@pytest.mark.contract("R9")
async def test_nobody_waits_for_ever_for_what_nobody_does(
    database_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(vigil, "PATIENCE", timedelta(seconds=0.2))
    app = story(tmp_path / "ledger")

    @app.task(backoff=60)
    async def fail() -> None:
        raise ConnectionError("not yet")

    async with trial.opened(app, database_url) as given:
        failed, later = await app.tasks.create("fail"), await app.tasks.create("later")
        await app.agents.ensure("ada", "clerk")
        await given.run()
        turn = await app.agents.send("ada", "add")
        batch = await app.batches.fork([{"target_strategy": "new", "target_ref": "clerk", "instruction": "add"}])
        command = await app.commands.send("Some.Request")
        waits = (each.result() for each in (failed, later, turn, batch))
        told = await asyncio.gather(*waits, app.commands.wait(command.id), return_exceptions=True)

        assert [type(each) for each in told] == [TimeoutError] * 5
        assert str(told[0]).startswith(
            f"Nobody works in this trial, and the task {failed.id}, for which somebody has waited"
        )
        assert "Attempt 1 ended with TASK_EXECUTION_FAILED" in str(told[0])
        assert "ConnectionError: not yet" in str(told[0])
        await app.commands.cancel(command.id)
        await given.travel(hours=1, seconds=1)
        await given.run()
        assert await later.result() == "done"


@pytest.mark.contract("R9")
async def test_what_handlers_raise_is_in_the_log_with_its_traceback(
    database_url: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    app = story(tmp_path / "ledger")

    @app.task(max_retries=0)
    async def fail() -> None:
        raise ConnectionError("planted here")

    @app.agent
    async def fool(turn: Turn) -> None:
        raise ConnectionError("and here")

    before = [logging.getLogger(name).level for name in ("ferryman.tasks", "ferryman.agents")]
    async with trial.opened(app, database_url) as given:
        await app.tasks.create("fail")
        await app.agents.ensure("ada", "fool")
        await app.agents.send("ada", "go")
        await given.run()

    assert 'raise ConnectionError("planted here")' in caplog.text
    assert 'raise ConnectionError("and here")' in caplog.text
    assert [logging.getLogger(name).level for name in ("ferryman.tasks", "ferryman.agents")] == before


@pytest.mark.contract("R9")
async def test_who_waits_while_somebody_works_is_left_alone(
    database_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(vigil, "PATIENCE", timedelta(seconds=0.05))
    app = story(tmp_path / "ledger")

    @app.task
    async def outlast(ctx: Context) -> str:
        with contextlib.suppress(TimeoutError):
            await timed(asyncio.Event().wait(), 0.5)  # for longer than anybody would be let wait in vain
        return "done"

    async with trial.opened(app, database_url) as given:
        first = await app.tasks.create("outlast")
        _, done = await asyncio.gather(given.run(), first.result())
        assert done == "done"
        async with app.worker():
            while not any(worker.alive for worker in await app.workers()):
                pass
            second = await app.tasks.create("outlast")
            assert await second.result() == "done"
