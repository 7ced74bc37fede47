"""A command from its receipt to its end: facts, async tasks, results, follow-ups, in one story (C1, C2, C4 to C7, C10)."""

import asyncio
import json
from uuid import UUID

import pytest

from ferryman import Command, Context, Fact, Ferryman, Message, Result
from ferryman.commands.states import AsyncTaskStatus, CommandStatus
from ferryman.kernel import errors
from tests.commands.conftest import SECOND, Open, rows, task_rows
from tests.patience import PATIENCE_SECONDS


def novel(app: Ferryman) -> None:
    @app.on_command("Character.Request", "CHARACTER_REQUEST", fact="Character.Requested")
    async def character(command: Command) -> list[Message]:
        return [
            Message("Character.Design.GenerationRequested", {"kind": command.payload["kind"]}),
            Message("Character.Arc.Design", {"kind": command.payload["kind"]}),
        ]

    @app.capability("Character.Design.Generation")
    async def design(kind: str) -> dict[str, str]:
        return {"name": "Ada", "kind": kind}

    @app.capability("Character.Arc.Design")
    def arc(kind: str) -> dict[str, str]:  # a plain function, in a thread
        return {"arc": kind}

    @app.on_result("Character.Design.Generated")
    async def designed(result: Result) -> list[Message | Fact]:
        assert result.result["kind"] == result.input["kind"]
        return [Fact("Character.Proposed", result.result), Message("Review.Quality.EvaluationRequested", {"score": 8})]

    @app.capability("Review.Quality.Evaluation")
    async def review(score: int) -> dict[str, int]:
        return {"score": score}


@pytest.mark.contract("C1", "C2", "C4", "C5", "C7", "C10")
async def test_a_command_is_received_worked_on_and_completed_with_all_that_it_started(open_app: Open) -> None:
    app = await open_app(novel)

    sent = await app.commands.send("Character.Request", {"kind": "hero"}, session_id="s1", scope="Genesis")
    async with app.worker():
        command = await app.commands.wait(sent.id, timeout=PATIENCE_SECONDS)

    assert sent.answer()["location"] == f"/commands/{sent.id}"
    assert (command.status, command.tasks, command.open, command.failed) == (CommandStatus.COMPLETED, 3, 0, 0)
    story = await app.commands.story(str(sent.id))
    assert [each.subject_name for each in story.events if each.kind == "command"] == [
        f"Genesis.Command.{word}" for word in ("Received", "Processing", "Completed")
    ]
    facts = story.facts()
    assert facts[0] == "Character.Requested"
    assert sorted(facts[1:]) == [
        "Character.Arc.Design.Completed", "Character.Design.Generated", "Character.Proposed", "Review.Quality.Evaluated",
    ]  # fmt: skip
    requested = next(each for each in story.events if each.subject_name == "Character.Requested")
    assert json.loads(requested.data or "") == {"session_id": "s1", "input": {"kind": "hero"}}
    received = json.loads(story.events[0].data or "")
    assert received["correlation_id"] == str(sent.id)
    assert [(each.task_type, each.status) for each in story.tasks] == [
        ("Character.Design.Generation", AsyncTaskStatus.COMPLETED),
        ("Character.Arc.Design", AsyncTaskStatus.COMPLETED),
        ("Review.Quality.Evaluation", AsyncTaskStatus.COMPLETED),
    ]
    design = story.tasks[0]
    assert json.loads(design.input_data or "") == {"session_id": "s1", "kind": "hero"}
    assert json.loads(design.result_data or "") == {"name": "Ada", "kind": "hero"}
    assert (design.progress, design.retry_count, design.triggered_by_command_id) == (100, 0, sent.id)
    assert str(UUID(design.execution_node or "")) == design.execution_node
    assert story.as_json()["tasks"][2]["result_data"] == {"score": 8}
    # The task of a capability ended with a result message in the form of the source.
    [task] = await rows(app, "select result::text from ferryman.tasks where id = $1", design.task)
    assert json.loads(task["result"]) == {
        "type": "Character.Design.Generated",
        "data": {"session_id": "s1", "result": {"name": "Ada", "kind": "hero"}, "correlation_id": str(sent.id)},
    }


@pytest.mark.contract("C1", "K11")
async def test_a_repeat_answers_with_the_same_command_and_makes_nothing_twice(open_app: Open) -> None:
    app = await open_app(novel)
    send = app.commands.send

    first = await send("Character.Request", {"kind": "hero"}, session_id="s1", idempotency_key="once")
    again, other = await asyncio.gather(
        send("Character.Request", {"kind": "villain"}, session_id="s1", idempotency_key="once"),
        send("Character.Request", {"kind": "villain"}, session_id="s1", idempotency_key="other"),
    )
    with pytest.raises(errors.CommandDuplicate) as conflict:
        await send("CHARACTER_REQUEST", {"kind": "hero"}, session_id="s2", idempotency_key="once")

    assert (again.id, again.idempotent_hit, first.idempotent_hit, other.idempotent_hit) == (
        first.id,
        True,
        False,
        False,
    )
    assert conflict.value.details["conflict_fields"] == ["command_type", "session_id"]
    assert len(await rows(app, "select from ferryman.command_inbox")) == 2
    assert len(await rows(app, "select from ferryman.tasks")) == 2
    assert len(await rows(app, "select from ferryman.events where kind = 'command'")) == 2


@pytest.mark.contract("C2")
async def test_commands_of_one_session_do_not_wait_for_each_other(open_app: Open) -> None:
    """In the source a session is stuck on its first command, which nothing ever ends."""
    app = await open_app(novel)
    async with app.worker():
        sent = [await app.commands.send("Character.Request", {"kind": "hero"}, session_id="s1") for _ in range(3)]
        ended = [await app.commands.wait(each.id, timeout=PATIENCE_SECONDS) for each in sent]

    assert {each.status for each in ended} == {CommandStatus.COMPLETED}
    assert len({each.id for each in ended}) == 3


@pytest.mark.contract("C7")
async def test_a_command_that_asks_for_nothing_is_completed_at_once(open_app: Open) -> None:
    def register(app: Ferryman) -> None:
        app.on_command("Note.Take")(lambda command: Fact("Note.Taken", {"note": command.payload}))

    app = await open_app(register)
    async with app.worker():
        sent = await app.commands.send("Note.Take", "milk")
        command = await app.commands.wait(sent.id, timeout=PATIENCE_SECONDS)

    assert (command.status, command.tasks) == (CommandStatus.COMPLETED, 0)
    assert (await app.commands.story(sent.id)).facts() == ["Note.Take.Requested", "Note.Taken"]


@pytest.mark.contract("C6", "C7", "C8")
async def test_a_failing_capability_is_retried_and_then_fails_its_command_with_what_it_said(open_app: Open) -> None:
    tries: list[int] = []

    def register(app: Ferryman) -> None:
        @app.on_command("Theme.Request")
        async def theme(command: Command) -> list[Message]:
            return [Message("Theme.Generation", {}, max_retries=2), Message("Theme.Check", {})]

        @app.capability("Theme.Generation", backoff=0.01)
        async def generate(ctx: Context) -> None:
            tries.append(ctx.attempt)
            ctx.progress(10 * ctx.attempt)
            raise ValueError("the model is away")

        @app.capability("Theme.Check")
        async def check() -> dict[str, bool]:
            return {"ok": True}

    app = await open_app(register)
    async with app.worker():
        sent = await app.commands.send("Theme.Request")
        command = await app.commands.wait(sent.id, timeout=PATIENCE_SECONDS)

    assert tries == [1, 2, 3]
    assert (command.status, command.error_code, command.failed) == (CommandStatus.FAILED, "TASK_RETRY_EXHAUSTED", 1)
    assert "Theme.Generation" in (command.error_message or "")
    assert "the model is away" in (command.error_message or "")
    failed, completed = await task_rows(app, sent.id)
    assert (failed["status"], failed["retry_count"], failed["max_retries"], failed["progress"]) == ("FAILED", 2, 2, 30)
    assert json.loads(failed["error_data"])["code"] == "TASK_RETRY_EXHAUSTED"
    assert failed["execution_node"] == completed["execution_node"] is not None
    assert completed["status"] == "COMPLETED"


@pytest.mark.contract("C6")
async def test_a_later_try_and_its_progress_show_while_it_runs(open_app: Open) -> None:
    told, go = asyncio.Event(), asyncio.Event()

    def register(app: Ferryman) -> None:
        app.on_command("Theme.Request")(lambda command: Message("Theme.Generation", {}, delay=0.01))

        @app.capability("Theme.Generation", backoff=0.01)
        async def generate(ctx: Context) -> None:
            if ctx.attempt == 1:
                raise ValueError("once")
            ctx.progress(42.5)
            told.set()
            await go.wait()

    app = await open_app(register)
    async with app.worker(poll=SECOND / 20):
        sent = await app.commands.send("Theme.Request")
        await asyncio.wait_for(told.wait(), PATIENCE_SECONDS)
        while (row := (await task_rows(app, sent.id))[0])["progress"] != 42.5:  # noqa: ASYNC110 - until it is written
            await asyncio.sleep(0.01)
        [shown] = (await app.commands.story(sent.id)).tasks
        go.set()
        await app.commands.wait(sent.id, timeout=PATIENCE_SECONDS)

    # It was born PENDING, because it was to start later.
    assert (row["status"], row["retry_count"], float(row["progress"])) == ("RUNNING", 1, 42.5)
    assert row["execution_node"] == shown.execution_node
    moves = await rows(
        app, "select to_state from ferryman.events where kind = 'async_task' and subject = $1 order by id", row["id"]
    )
    assert [each["to_state"] for each in moves] == ["PENDING", "RUNNING", "COMPLETED"]


@pytest.mark.contract("C6", "C7")
async def test_a_cancelled_command_fails_and_takes_all_with_it(open_app: Open) -> None:
    started, stopped = asyncio.Event(), asyncio.Event()

    def register(app: Ferryman) -> None:
        app.on_command("Theme.Request")(
            lambda command: [Message("Theme.Generation"), Message("Theme.Check", outside=True)]
        )

        @app.capability("Theme.Generation")
        async def generate() -> None:
            started.set()
            try:
                await asyncio.Event().wait()
            finally:
                stopped.set()

    app = await open_app(register)
    async with app.worker():
        sent = await app.commands.send("Theme.Request")
        await asyncio.wait_for(started.wait(), PATIENCE_SECONDS)
        assert await app.commands.cancel(sent.id, reason="changed my mind")
        await asyncio.wait_for(stopped.wait(), PATIENCE_SECONDS)
        assert not await app.commands.cancel(sent.id)

    command = await app.commands.get(sent.id)
    assert (command.status, command.error_code) == (CommandStatus.FAILED, "COMMAND_CANCELLED")
    assert command.error_message == "cancelled: changed my mind"
    assert [each["status"] for each in await task_rows(app, sent.id)] == ["CANCELLED", "CANCELLED"]
    assert await rows(app, "select from ferryman.tasks where finished_at is null") == []


@pytest.mark.contract("C6", "C7")
async def test_a_task_that_is_cancelled_alone_fails_its_command_when_the_others_have_ended(open_app: Open) -> None:
    def register(app: Ferryman) -> None:
        app.on_command("Theme.Request")(
            lambda command: [Message("Theme.A", outside=True), Message("Theme.B", outside=True)]
        )

    app = await open_app(register)
    async with app.worker():
        sent = await app.commands.send("Theme.Request")
        while not (tasks := await task_rows(app, sent.id)):  # noqa: ASYNC110 - until the worker has come to it
            await asyncio.sleep(0.01)
    answer = await app.commands.cancel_task(tasks[0]["id"], reason="not needed")
    assert answer.changed
    assert not (await app.commands.get(sent.id)).terminal
    await app.commands.complete(async_task_id=tasks[1]["id"], result={"x": 1})

    command = await app.commands.get(sent.id)
    assert (command.status, command.failed) == (CommandStatus.FAILED, 1)
    assert [each["status"] for each in await task_rows(app, sent.id)] == ["CANCELLED", "COMPLETED"]


@pytest.mark.contract("K16")
async def test_a_command_sent_in_a_callers_transaction_exists_if_and_only_if_it_commits(open_app: Open) -> None:
    app = await open_app(novel)

    async def sent_and_undone() -> None:
        async with app.database.transaction() as tx:
            await app.commands.send("Character.Request", {"kind": "hero"}, connection=tx._connection)
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        await sent_and_undone()
    async with app.database.transaction() as tx:
        kept = await app.commands.send("Character.Request", {"kind": "hero"}, connection=tx._connection)

    assert [row["id"] for row in await rows(app, "select id from ferryman.command_inbox")] == [kept.id]
    assert len(await rows(app, "select from ferryman.tasks")) == 1


@pytest.mark.contract("K12")
async def test_no_call_crosses_a_tenant(open_app: Open) -> None:
    ours, theirs = await open_app(novel), await open_app(novel, tenant="other")
    sent = await ours.commands.send("Character.Request", {"kind": "hero"}, idempotency_key="k")

    for ask in (theirs.commands.get, theirs.commands.story, theirs.commands.cancel):
        with pytest.raises(errors.CommandNotFound):
            await ask(sent.id)
    assert await theirs.commands.list() == []
    assert not (await theirs.commands.send("Character.Request", {"kind": "x"}, idempotency_key="k")).idempotent_hit
    answer = await theirs.commands.complete(correlation_id=sent.id, type="Character.Design.Generated")
    assert (answer.changed, answer.code) == (False, "ASYNC_TASK_NOT_FOUND")
