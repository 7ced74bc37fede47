"""Nothing stays RECEIVED, PROCESSING, PENDING or RUNNING for ever (C7, W14, K21, W21, K22)."""

import asyncio
from datetime import timedelta
from uuid import UUID

import pytest

from ferryman import Command, Ferryman, Message, Result
from ferryman.app import doctor
from ferryman.commands.states import CommandStatus
from tests.commands.conftest import Open, ended, rows, shift, sound, task_rows, tick
from tests.patience import PATIENCE_SECONDS

WAITING = "select from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock'"


def asking(app: Ferryman) -> None:
    @app.on_command("Ask")
    async def ask(command: Command) -> list[Message]:
        return [
            Message("Slow"),
            Message("Theirs", outside=True),
            Message("Later", delay=3600),
            Message("Short", outside=True, deadline=60),
        ]

    @app.capability("Slow")
    async def slow() -> None:
        await asyncio.Event().wait()

    @app.capability("Later")
    async def later() -> None: ...


async def begun(app: Ferryman) -> UUID:
    async with app.worker(grace=timedelta(0)):
        sent = await app.commands.send("Ask", deadline=600)
        await ended(app, sent.command.task)
    return sent.id


@pytest.mark.contract("C7", "W14", "K21", "W21")
async def test_what_is_past_its_deadline_fails_with_all_that_runs_for_it(open_app: Open) -> None:
    app = await open_app(asking)
    received = (await app.commands.send("Nobody.Knows", deadline=600)).id
    command = await begun(app)
    bounds = await rows(app, "select domain, rule, ends_by - ferryman.clock() as left from ferryman.bounds_commands")
    assert sorted(each["domain"] for each in bounds) == ["async_task"] * 4 + ["command"] * 2
    assert {each["rule"] for each in bounds} == {"W14"}
    assert min(each["left"] for each in bounds) < timedelta(seconds=61)

    await shift(app, 61)
    short = await tick(app)
    between = [each["status"] for each in await task_rows(app, command)]
    await shift(app, 600)
    late = await tick(app)

    assert (short.acted("W14"), short.acted("W14-async")) == (0, 1)
    assert between == ["RUNNING", "RUNNING", "PENDING", "FAILED"]
    assert late.acted("W14") == 2
    for id in (received, command):
        over = await app.commands.get(id)
        assert (over.status, over.error_code) == (CommandStatus.FAILED, "COMMAND_TIMEOUT")
    tasks = await task_rows(app, command)
    assert [each["status"] for each in tasks] == ["FAILED"] * 4
    assert all('"code": "COMMAND_TIMEOUT"' in each["error_data"] for each in tasks)
    assert await rows(app, "select from ferryman.tasks where finished_at is null") == []
    assert await rows(app, "select from ferryman.overdue_commands") == []


@pytest.mark.contract("W14", "K21")
async def test_what_no_rule_has_ended_in_time_is_overdue(open_app: Open) -> None:
    app = await open_app(asking)
    await begun(app)
    await shift(app, 700)
    # A machine that froze during the test is an outage to the watchdog, and after one nothing is late for a while.
    await rows(app, "update ferryman.watchdog set grace_until = '-infinity'")

    overdue = await rows(app, "select domain from ferryman.overdue where domain in ('command', 'async_task')")

    assert sorted(each["domain"] for each in overdue) == ["async_task"] * 4 + ["command"]
    await tick(app)


@pytest.mark.contract("W14", "K9", "K6")
async def test_a_capability_whose_worker_dies_again_and_again_ends_failed(open_app: Open) -> None:
    """The end by the watchdog of tasks is told to the async task in the same transaction."""
    from ferryman.kernel import watchdog
    from ferryman.tasks import watch

    def register(app: Ferryman) -> None:
        app.on_command("Ask")(lambda command: Message("Deadly", max_retries=0))

        @app.capability("Deadly")
        async def deadly() -> None:
            await asyncio.Event().wait()

    app = await open_app(register)
    async with app.worker(grace=timedelta(0)):
        sent = await app.commands.send("Ask")
        await ended(app, sent.command.task)
        while not await rows(app, "select from ferryman.tasks where state = 'running'"):  # noqa: ASYNC110 - until it runs
            await asyncio.sleep(0.01)
        second = timedelta(seconds=1)
        rules = watch.rules(app._open.owners, app.doorbell, sweep=second, interval=second)
        async with app.database.transaction() as tx:
            # Its worker is frozen: it renews no more, and its lease passes.
            [row] = await tx.fetch(
                "update ferryman.tasks set leased_until = ferryman.clock() where state = 'running' returning id"
            )
            await watchdog.tick(tx, [rule for rule in rules if rule.name == "W13"])
        over = await app.commands.get(sent.id)

    [task] = await task_rows(app, sent.id)
    assert (task["status"], task["task"]) == ("FAILED", row["id"])
    assert (over.status, over.error_code) == (CommandStatus.FAILED, "TASK_RETRY_EXHAUSTED")


@pytest.mark.contract("W14", "K6", "R4")
async def test_commands_that_nobody_knows_are_locked_in_one_order_whatever_their_names(open_app: Open) -> None:
    """Whoever waits for a command holds none behind it: W14 locks the same ones by their ids, and the two would deadlock."""
    app = await open_app(asking)
    first = (await app.commands.send("Zebra")).id
    last = (await app.commands.send("Ape")).id
    async with app.worker(grace=timedelta(0)):
        while not await rows(app, "select from ferryman.workers where handlers @> '{capability:Slow}'"):  # noqa: ASYNC110
            await asyncio.sleep(0.01)
        await shift(app, 2)
        await rows(app, "update ferryman.workers set seen_until = seen_until + interval '2 s'")
        async with app.database.transaction() as stranger:
            await stranger.fetch("select from ferryman.command_inbox where id = $1 for update", first)
            giving_up = asyncio.create_task(tick(app, "W14-unknown"))
            async with asyncio.timeout(PATIENCE_SECONDS):
                while not await rows(app, WAITING):  # noqa: ASYNC110 - another process, PostgreSQL, is watched
                    await asyncio.sleep(0.005)
            free = await rows(app, "select id from ferryman.command_inbox where id = $1 for update skip locked", last)
        report = await giving_up

    assert [each["id"] for each in free] == [last]
    assert report.acted() == 2


@pytest.mark.contract("W14", "K7")
async def test_an_end_that_was_never_told_is_found(open_app: Open) -> None:
    """Completion follows from what is stored: a task that ended behind everybody's back, as no path of ours lets it."""
    app = await open_app(asking)
    command = await begun(app)
    [slow, *_] = await task_rows(app, command)
    await rows(
        app,
        "update ferryman.tasks set state = 'cancelled', finished_at = ferryman.clock(), rank = null, wake_at = null,"
        " lease_owner = null, leased_until = null where id = $1",
        slow["task"],
    )
    await rows(
        app,
        "insert into ferryman.events (at, subject, attempt, tenant, kind, from_state, to_state)"
        " select now(), id, attempt, tenant, 'task', 'ready', 'cancelled' from ferryman.tasks where id = $1",
        slow["task"],
    )
    await shift(app, 2)

    assert (await tick(app, "W14-lost")).acted() == 1

    [slow, *_] = await task_rows(app, command)
    assert slow["status"] == "FAILED"
    assert "ASYNC_TASK_LOST" in slow["error_data"]


@pytest.mark.contract("C5", "W14")
async def test_a_follow_up_whose_code_is_gone_fails_once_and_loudly(open_app: Open) -> None:
    def old(app: Ferryman) -> None:
        asking(app)

        @app.on_result("Theirs.Completed")
        async def follow(result: Result) -> None: ...

    app = await open_app(old)
    command = await begun(app)
    new = await open_app(asking)
    _, theirs, *_ = await task_rows(app, command)
    async with new.worker(grace=timedelta(0)):
        await new.commands.complete(async_task_id=theirs["id"], type="Theirs.Completed", result={})
        while not await rows(app, "select from ferryman.workers where handlers @> '{capability:Slow}'"):  # noqa: ASYNC110
            await asyncio.sleep(0.01)
        await shift(app, 2)
        await rows(app, "update ferryman.workers set seen_until = seen_until + interval '2 s'")
        assert (await tick(new, "W14-unknown")).acted() == 1

    now = await app.commands.get(command)
    assert (now.status, now.error_code, now.failed) == (CommandStatus.PROCESSING, "COMMAND_UNKNOWN_TYPE", 1)
    assert await rows(app, "select from ferryman.command_routes") == []


@pytest.mark.contract("K22", "W21")
async def test_explain_says_what_a_command_waits_for_and_what_ends_it(open_app: Open) -> None:
    app = await open_app(asking)
    waiting = (await app.commands.send("Nobody.Knows")).id
    command = await begun(app)
    _, theirs, *_ = await task_rows(app, command)

    received, working, outside = [await app.tasks.explain(id) for id in (waiting, command, theirs["id"])]

    assert (received.domain, received.state, received.codes()) == (
        "command", "RECEIVED", ["waiting_for_mapping", "nobody_knows_it", "no_worker"],
    )  # fmt: skip
    assert received.reasons[2].says == "Its task: No worker is alive."
    assert working.codes().count("waiting_for_async_task") == 4
    assert working.ends is not None
    assert working.ends.rule == "W14"
    assert (outside.domain, outside.doing) == ("async_task", "It waits for a result from outside.")


@pytest.mark.contract("W21")
async def test_doctor_lists_commands_with_the_rule_that_ends_them(open_app: Open) -> None:
    app = await open_app(asking)
    await begun(app)

    report = await doctor.examine(app.settings, everything=True)

    said = str(report.as_dict())
    assert "async_task" in said
    assert "W14" in said


@pytest.mark.contract("C7")
async def test_finished_commands_are_forgotten_with_their_tasks_when_their_time_is_over(open_app: Open) -> None:
    from ferryman.commands import watch
    from ferryman.kernel import watchdog
    from tests.sql.walking import past

    app = await open_app(asking)
    live = await begun(app)
    done = await begun(app)
    await app.commands.cancel(done)
    # One whose command is gone by other ways than this.
    alone = await begun(app)
    await app.commands.cancel(alone)
    await rows(app, "delete from ferryman.command_inbox where id = $1", alone)
    await shift(app, 3600)

    async with app.database.transaction() as tx:
        told = [await past(tx, domain, kept=timedelta(minutes=30)) for domain in ("command", "async task")]
        report = await watchdog.tick(tx, watch.retention(kept=timedelta(minutes=30)))

    assert told == [1, 4], "doctor counts what the rules find"
    assert (report.acted("C12"), report.acted("C12-alone")) == (1, 4)
    assert [row["id"] for row in await rows(app, "select id from ferryman.command_inbox")] == [live]
    assert len(await rows(app, "select from ferryman.async_tasks")) == 4
    await tick(app)
    await sound(app)


@pytest.mark.contract("K22")
async def test_explain_says_how_a_command_and_an_async_task_ended(open_app: Open) -> None:
    app = await open_app(asking)
    command = await begun(app)
    slow, *_ = await task_rows(app, command)
    running = await app.explain(slow["id"])
    await app.commands.cancel(command)

    over, theirs = await app.explain(command), await app.explain(slow["id"])

    assert running.domain == "async_task"
    assert {"waiting_for_async_task", "no_worker"} <= set(running.codes())
    assert (over.codes(), over.ends) == (["ended"], None)
    assert over.reasons[0].says.startswith("It ended as FAILED at ")
    assert (theirs.codes(), theirs.state) == (["ended"], "CANCELLED")


@pytest.mark.contract("K22")
async def test_explain_names_what_follows_a_result(open_app: Open) -> None:
    app = await open_app(asking)
    command = await begun(app)
    slow, theirs, *_ = await task_rows(app, command)
    await rows(app, "update ferryman.async_tasks set follow_up = $1 where id = $2", slow["task"], theirs["id"])

    [said] = [each for each in (await app.explain(command)).reasons if each.code == "waiting_for_follow_up"]
    await rows(app, "update ferryman.async_tasks set follow_up = null where id = $1", theirs["id"])

    assert said.says.startswith(f"What follows Theirs is the task {slow['task']} (")
    assert said.about["async_task"] == str(theirs["id"])
