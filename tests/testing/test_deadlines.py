"""R9: what the test takes past its time is ended by the next run, whatever rule ends it; and a run that is out of time ends."""

import asyncio
import time
from datetime import timedelta
from typing import Any

import pytest

from ferryman import Command, Context, Ferryman, Message, Turn
from ferryman.kernel.db import Row
from ferryman.kernel.settings import Worker
from ferryman.testing import trial
from tests.patience import PATIENCE_SECONDS
from tests.relays.conftest import KEY, settled


def story(**settings: Any) -> Ferryman:
    app = Ferryman("postgresql://nowhere", agents={"wall_time": "1d"}, **settings)

    @app.tool(external=True, suspend_timeout_seconds=3600)
    def approve() -> None: ...

    @app.agent
    async def clerk(turn: Turn) -> str:
        [answer] = await turn.call_tools([("approve", {})])
        return "approved" if answer.ok else str(answer.code)

    @app.agent
    async def head(turn: Turn) -> str:
        tasks = [{"target_strategy": "new", "target_ref": "clerk", "instruction": "go"}]
        return str((await turn.fork_join(tasks, deadline_seconds=600))["status"])

    @app.on_command("Ask")
    async def ask(command: Command) -> Message:
        return Message("Theirs", outside=True, deadline=3600)

    @app.task
    async def greet() -> str:
        return "hello"

    @app.task
    async def hang(ctx: Context) -> None:
        await asyncio.Event().wait()

    return app


async def rows(app: Ferryman, query: str) -> list[Row]:
    async with app.database.session() as tx:
        return list(await tx.fetch(query))


@pytest.mark.contract("R9", "W2")
async def test_a_call_that_nobody_answers_times_out_when_its_time_has_passed(database_url: str) -> None:
    app = story()
    async with trial.opened(app, database_url) as given:
        await app.agents.ensure("ada", "clerk")
        turn = await app.agents.send("ada", "buy")
        await given.run()
        assert (await turn.record()).turn_status is None

        await given.travel(hours=2)
        await given.run()
        assert (await turn.record()).turn_status == "success"
        assert await turn.result(timeout=PATIENCE_SECONDS) == "tool_timeout"


@pytest.mark.contract("R9", "A18")
async def test_a_turn_that_waits_past_its_wall_time_ends(database_url: str) -> None:
    app = story()
    async with trial.opened(app, database_url) as given:
        await app.agents.ensure("ada", "clerk")
        turn = await app.agents.send("ada", "buy")
        await given.run()
        await given.travel(days=2)
        await given.run()

        ended = await turn.record()
        assert (ended.turn_status, ended.error_code) == ("partial", "wall_time_exceeded")


@pytest.mark.contract("R9", "W10")
async def test_a_batch_ends_at_its_deadline_and_its_parent_goes_on(database_url: str) -> None:
    app = story()
    async with trial.opened(app, database_url) as given:
        await app.agents.ensure("grace", "head")
        turn = await app.agents.send("grace", "buy")
        await given.run()
        assert [row["status"] for row in await rows(app, "select status from ferryman.pmo_batches")] == ["running"]

        # By then the parent's own patience is over too, and so is the child's: but the batch was late first.
        await given.travel(hours=2)
        await given.run()
        assert [row["status"] for row in await rows(app, "select status from ferryman.pmo_batches")] == ["timeout"]
        assert (await turn.record()).turn_status == "success"
        assert await turn.result(timeout=PATIENCE_SECONDS) == "timeout"


@pytest.mark.contract("R9", "W14")
async def test_what_the_outside_does_not_do_in_its_time_fails_with_its_command(database_url: str) -> None:
    app = story()
    async with trial.opened(app, database_url) as given:
        sent, bare = await app.commands.send("Ask"), await app.commands.send("Ask", deadline=600)
        await given.run()
        assert {(await app.commands.get(each.id)).status for each in (sent, bare)} == {"PROCESSING"}

        for by, ends in ((11, ["PROCESSING", "FAILED"]), (60, ["FAILED", "FAILED"])):
            await given.travel(minutes=by)
            await given.run()
            assert [(await app.commands.get(each.id)).status for each in (sent, bare)] == ends
        codes = await rows(app, "select error_data::text as error from ferryman.async_tasks")
        assert ["COMMAND_TIMEOUT" in row["error"] for row in codes] == [True, True]


@pytest.mark.contract("R9", "K10")
async def test_a_delivery_that_is_owed_past_its_end_is_dead(database_url: str) -> None:
    app = story(relays={"webhook_key": KEY})
    async with trial.opened(app, database_url) as given:
        hook = await app.webhooks.add("https://receiver.example.com/hook", name="hook")
        await app.webhooks.pause(hook.webhook.id)
        await app.tasks.create("greet")
        async with app.worker():  # what goes out is not waited for by run()
            owed = {each.id for each in await settled(app, hook.webhook)}
        await given.travel(days=2)
        await given.run()

        # What happened since is owed from now on.
        deliveries = await app.webhooks.deliveries(hook.webhook.id)
        assert {each.state for each in deliveries if each.id in owed} == {"dead"}


@pytest.mark.contract("R9")
async def test_what_is_due_is_done_before_anything_is_ended_for_being_late(database_url: str) -> None:
    """A second try after an hour comes before the patience of two hours is over, although three have passed."""
    app = story()
    tries: list[int] = []

    @app.tool(retries=1, backoff=3600, suspend_timeout_seconds=7200)
    async def shaky() -> int:
        tries.append(1)
        if len(tries) == 1:
            raise ConnectionError("not yet")
        return len(tries)

    @app.agent
    async def patient(turn: Turn) -> int:
        return int(await turn.call_tool("shaky"))

    async with trial.opened(app, database_url) as given:
        await app.agents.ensure("ada", "patient")
        turn = await app.agents.send("ada", "try")
        await given.run()
        await given.travel(hours=3)
        await given.run()

        assert await turn.result(timeout=PATIENCE_SECONDS) == 2


@pytest.mark.contract("R9", "T21")
async def test_a_task_that_nobody_may_begin_any_more_expires_at_once(database_url: str) -> None:
    app = story(tasks={"ends_after": "1h"}, worker={"watchdog_interval_seconds": 100})
    async with trial.opened(app, database_url) as given:
        task = await app.tasks.create("greet")
        await given.travel(hours=2)
        await given.run()  # its time is over long before the watchdog of a worker would look

        assert ((await task.refresh()).state, (await task.refresh()).last_error_code) == ("cancelled", "TASK_EXPIRED")


@pytest.mark.contract("R9")
async def test_what_is_late_and_what_no_rule_ends_is_not_waited_for(database_url: str) -> None:
    app = story()
    async with trial.opened(app, database_url) as given:
        # As if a rule had been forgotten: listed as late, and found by nobody.
        for statement in (
            "create table public.forgotten (ends_by timestamptz)",
            "insert into public.forgotten values (ferryman.clock())",
            "alter view ferryman.bounds rename to known",
            "create view ferryman.bounds as select * from ferryman.known union all"
            " select 'forgotten', null, null, null, 'W99', ends_by, null from public.forgotten",
        ):
            await rows(app, statement)
        task = await app.tasks.create("greet")
        await given.run()

        assert await task.result(timeout=PATIENCE_SECONDS) == "hello"


@pytest.mark.contract("R9")
async def test_a_run_that_is_out_of_time_grants_no_grace(database_url: str) -> None:
    app = story()
    assert app.settings.worker.grace == Worker().grace == timedelta(seconds=20)
    async with trial.opened(app, database_url) as given:
        task = await app.tasks.create("hang")
        begun = time.monotonic()
        with pytest.raises(TimeoutError, match=r"After 0\.5 s there is still due: 1 x task hang\."):
            await given.run(timeout=0.5)

        assert time.monotonic() - begun < 10
        assert (await task.refresh()).state == "ready"
