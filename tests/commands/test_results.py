"""Results from outside: by id, else by correlation and type; what matches nothing changes nothing (C5)."""

from collections.abc import Callable
from typing import Any
from uuid import UUID, uuid4

import pytest

from ferryman import Command, Ferryman, Message, Result
from ferryman.commands.states import CommandStatus
from ferryman.kernel import errors, telemetry
from tests.commands.conftest import Open, ended, rows, task_rows


def asking(*messages: Message, **more: Callable[..., Any]) -> Callable[[Ferryman], None]:
    def register(app: Ferryman) -> None:
        @app.on_command("Ask")
        async def ask(command: Command) -> list[Message]:
            return list(messages)

        for type, function in more.items():
            app.on_result(type.replace("__", "."))(function)

    return register


async def begun(app: Ferryman) -> tuple[UUID, list[Any]]:
    """Send the command, and let a worker run its mapping."""
    async with app.worker():
        sent = await app.commands.send("Ask", session_id="s")
        await ended(app, sent.command.task)
    return sent.id, await task_rows(app, sent.id)


def outside(*types: str) -> list[Message]:
    return [Message(type, outside=True) for type in types]


@pytest.mark.contract("C5")
async def test_a_result_with_an_id_ends_that_task_and_no_sibling(open_app: Open) -> None:
    """The source matches by prefix alone, newest first: the first of two like tasks would get the second's result."""
    app = await open_app(asking(*outside("Design.Generation", "Design.Generation")))
    command, (first, second) = await begun(app)

    answer = await app.commands.complete(async_task_id=str(first["id"]), type="Design.Generated", result={"n": 1})

    assert answer == (first["id"], True, None)
    now = await task_rows(app, command)
    assert [(each["status"], each["result_data"]) for each in now] == [("COMPLETED", '{"n": 1}'), ("RUNNING", None)]
    assert second["status"] == "RUNNING"


@pytest.mark.contract("C5")
async def test_a_result_without_an_id_ends_the_newest_of_its_type_and_not_one_of_a_longer_name(open_app: Open) -> None:
    """`Design` is a prefix of `Designer.Check` as text, `Design_x` of nothing but as a pattern of LIKE: neither is meant."""
    app = await open_app(
        asking(*outside("Design", "Design", "Designer.Check", "Design.Deep.Check", "DesignXx", "Design_x"))
    )
    command, tasks = await begun(app)
    complete = app.commands.complete

    answers = [await complete(correlation_id=command, type="Design.Completed", result={"n": n}) for n in range(4)]
    under = await complete(correlation_id=command, type="Design_x.Result", result={})

    ids = [each["id"] for each in tasks]
    assert [each.async_task_id for each in answers] == [ids[1], ids[0], ids[3], None]
    assert answers[3].code == "ASYNC_TASK_NOT_FOUND"
    assert under.async_task_id == ids[5]
    assert [each["status"] for each in await task_rows(app, command)] == [
        "COMPLETED", "COMPLETED", "RUNNING", "COMPLETED", "RUNNING", "COMPLETED",
    ]  # fmt: skip


@pytest.mark.contract("C5")
async def test_a_result_that_matches_nothing_changes_nothing_and_is_counted(open_app: Open) -> None:
    app = await open_app(asking(*outside("Design.Generation")))
    command, [task] = await begun(app)
    complete = app.commands.complete
    await complete(async_task_id=task["id"], result={"n": 1})
    before = [await task_rows(app, command), await rows(app, "select * from ferryman.events order by id")]
    counted = telemetry.exposition().decode().count("ferryman_unmatched_total{")

    late = await complete(async_task_id=task["id"], result={"n": 2})
    unknown = await complete(async_task_id=uuid4(), result={})
    stray = await complete(correlation_id=uuid4(), type="Design.Generated", result={})

    assert (late.changed, late.code) == (False, "ASYNC_TASK_ENDED")
    assert (unknown.changed, unknown.code) == (False, "ASYNC_TASK_NOT_FOUND")
    assert (stray.changed, stray.code) == (False, "ASYNC_TASK_NOT_FOUND")
    assert before == [await task_rows(app, command), await rows(app, "select * from ferryman.events order by id")]
    assert telemetry.exposition().decode().count("ferryman_unmatched_total{") >= max(counted, 2)


@pytest.mark.contract("C5", "C7")
async def test_a_result_from_outside_starts_what_follows_it_and_the_command_waits_for_that(open_app: Open) -> None:
    async def revise(result: Result) -> Message:
        return Message("Revision", {"of": result.result["n"]}, outside=True)

    app = await open_app(asking(*outside("Design.Generation"), Design__Generated=revise))
    command, [task] = await begun(app)

    await app.commands.complete(async_task_id=task["id"], type="Design.Generated", result={"n": 1})

    between = await app.commands.get(command)
    async with app.worker():
        [follow] = await rows(app, "select follow_up from ferryman.async_tasks where id = $1", task["id"])
        await ended(app, follow["follow_up"])
    _, revision = await task_rows(app, command)
    assert (between.status, between.open) == (CommandStatus.PROCESSING, 1)
    assert (revision["task_type"], revision["input_data"]) == ("Revision", '{"of": 1, "session_id": "s"}')
    await app.commands.complete(async_task_id=revision["id"])
    done = await app.commands.get(command)
    assert (done.status, done.tasks) == (CommandStatus.COMPLETED, 2)
    assert (await task_rows(app, command))[1]["result_data"] == "{}"


@pytest.mark.contract("C6", "C7")
async def test_an_error_from_outside_is_the_end_of_its_task(open_app: Open) -> None:
    """In the source a failure is never written: its task runs for ever."""
    app = await open_app(asking(*outside("Design.Generation")))
    command, [task] = await begun(app)

    await app.commands.complete(async_task_id=task["id"], error={"code": "NO_MODEL", "message": "away", "try": 3})

    [now] = await task_rows(app, command)
    over = await app.commands.get(command)
    assert now["status"] == "FAILED"
    assert '"try": 3' in now["error_data"]
    assert (over.status, over.error_code, over.error_message) == (
        CommandStatus.FAILED, "NO_MODEL", "Design.Generation: away",
    )  # fmt: skip


@pytest.mark.contract("C5")
async def test_a_task_without_a_command_ends_by_its_id_alone(open_app: Open) -> None:
    app = await open_app(asking())

    alone = await app.commands.start(Message("Design.Generation", {"x": 1}, outside=True))

    assert await app.commands.progress(alone, 50)
    stray = await app.commands.complete(correlation_id=alone, type="Design.Generated")
    assert not stray.changed
    assert (await app.commands.complete(async_task_id=alone, result={"y": 2})).changed
    task = await app.commands.task(alone)
    assert (task.status, task.result_data, task.triggered_by_command_id) == ("COMPLETED", '{"y": 2}', None)
    assert not await app.commands.progress(alone, 60)


@pytest.mark.contract("C5")
async def test_a_capability_may_be_started_without_a_command(open_app: Open) -> None:
    def register(app: Ferryman) -> None:
        @app.capability("Design.Generation")
        async def design(x: int) -> int:
            return 2 * x

    app = await open_app(register)
    alone = await app.commands.start(Message("Design.GenerationRequested", {"x": 21}))
    async with app.worker():
        await ended(app, (await app.commands.task(alone)).task)

    assert (await app.commands.task(alone)).result_data == "42"


@pytest.mark.contract("C5", "K4")
async def test_a_result_from_outside_stops_the_capability_that_runs_for_it(open_app: Open) -> None:
    app = await open_app(asking(Message("Design.Generation")))
    command, [task] = await begun(app)

    await app.commands.complete(async_task_id=task["id"], result={"from": "outside"})

    [row] = await rows(app, "select state, last_error_reason from ferryman.tasks where id = $1", task["task"])
    assert row["state"] == "cancelled"
    assert (await app.commands.get(command)).status is CommandStatus.COMPLETED


@pytest.mark.contract("K20", "K13")
@pytest.mark.parametrize(
    ("call", "field"),
    [
        ({"correlation_id": "cmd-123", "type": "A.Generated"}, "correlation_id"),
        ({"async_task_id": "7"}, "async_task_id"),
        ({}, "async_task_id"),
        ({"correlation_id": str(uuid4())}, "async_task_id"),
        ({"correlation_id": str(uuid4()), "type": "50%"}, "type"),
        ({"async_task_id": str(uuid4()), "result": 1, "error": 2}, "error"),
    ],
)
async def test_a_result_that_cannot_be_understood_is_refused_with_its_field(
    open_app: Open, call: dict[str, Any], field: str
) -> None:
    app = await open_app()

    with pytest.raises(errors.CommandInvalidRequest) as refused:
        await app.commands.complete(**call)

    assert refused.value.details["field"] == field
