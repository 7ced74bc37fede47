"""Whatever is sent or returned: a clear code, and a defined end (C2, K13, K20)."""

from datetime import timedelta
from typing import Any

import pytest

from ferryman import Command, DoNotRetry, Ferryman, Message
from ferryman.commands.states import CommandStatus
from ferryman.kernel import errors
from tests.commands.conftest import Open, ended, rows, shift, task_rows, tick
from tests.patience import PATIENCE_SECONDS

# Long enough for a slow machine, and shorter than that of the watchdog which the worker has itself.
PATIENCE = timedelta(seconds=15)
SENDS: list[tuple[Any, dict[str, Any], str]] = [
    ("100%", {}, "command_type"),
    ("A..B", {}, "command_type"),
    ("", {}, "command_type"),
    (None, {}, "command_type"),
    ("A" * 181, {}, "command_type"),
    ("A:B", {}, "command_type"),
    ("A", {"session_id": ""}, "session_id"),
    ("A", {"session_id": 7}, "session_id"),
    ("A", {"idempotency_key": "\x00"}, "idempotency_key"),
    ("A", {"scope": "no scope"}, "scope"),
    ("A", {"deadline": 0}, "deadline"),
    ("A", {"deadline": "soon"}, "deadline"),
]

THEIRS = """
insert into ferryman.workers (boot_id, tenant, host, pid, version, queues, handlers, seen_until)
values (gen_random_uuid(), 'other', 'h', 1, '0', '{default}', '{capability:Nobody.Has}', ferryman.clock() + interval '1 h')
"""


@pytest.mark.contract("C1", "K13", "K20")
async def test_a_send_that_cannot_be_accepted_is_refused_and_stores_nothing(open_app: Open) -> None:
    app = await open_app()

    for type, options, field in SENDS:
        with pytest.raises(errors.CommandInvalidRequest) as refused:
            await app.commands.send(type, **options)
        assert refused.value.details["field"] == field
        assert refused.value.message.startswith(f"{field}: expected")
    for payload in ({"x": float("nan")}, {"x": "\x00"}, {"x": 2**64}, "x" * 2_000_000):
        with pytest.raises(errors.CommandInvalidRequest):
            await app.commands.send("A", payload)
    for ask in (app.commands.get, app.commands.story, app.commands.cancel):
        with pytest.raises(errors.CommandInvalidRequest, match="expected the UUID"):
            await ask("cmd-123")
    with pytest.raises(errors.CommandInvalidRequest, match="status: expected one of RECEIVED"):
        await app.commands.list(status="DONE")

    assert await rows(app, "select from ferryman.command_inbox") == []
    assert await rows(app, "select from ferryman.tasks") == []


def raising(command: Command) -> None:
    raise ValueError(f"no {command.type}")


def refusing(command: Command) -> None:
    raise DoNotRetry("never")


MAPPINGS: dict[str, tuple[Any, str, str]] = {
    "Nonsense.Number": (lambda command: 42, "COMMAND_INVALID_MAPPING", "returned, at place 1, 42; expected a Message"),
    "Nonsense.Type": (lambda command: Message("50%"), "COMMAND_INVALID_MAPPING", "cannot be sent: type: expected"),
    "Nonsense.Set": (lambda command: Message("A", {"x": {1, 2}}), "COMMAND_INVALID_MAPPING", "set"),
    "Raising.Always": (raising, "TASK_RETRY_EXHAUSTED", "no Raising.Always"),
    "Raising.Once": (refusing, "TASK_EXECUTION_FAILED", "never"),
}


@pytest.mark.contract("C2", "C7")
async def test_a_mapping_that_raises_or_returns_nonsense_fails_its_command_and_no_other(open_app: Open) -> None:
    def register(app: Ferryman) -> None:
        for type, (function, _, _) in MAPPINGS.items():
            app.on_command(type, max_retries=1, backoff=0.01)(function)
        app.on_command("Sound")(lambda command: None)

    app = await open_app(register)
    async with app.worker():
        sent = {type: await app.commands.send(type) for type in (*MAPPINGS, "Sound")}
        over = {type: await app.commands.wait(each.id, timeout=PATIENCE_SECONDS) for type, each in sent.items()}

    assert over.pop("Sound").status is CommandStatus.COMPLETED
    for type, (_, code, said) in MAPPINGS.items():
        command = over[type]
        assert (command.status, command.error_code) == (CommandStatus.FAILED, code), type
        assert said in (command.error_message or ""), type
        assert await task_rows(app, command.id) == []
    assert over["Raising.Always"].retry_count == 1


@pytest.mark.contract("C2")
async def test_a_mapping_that_blocks_is_ended_by_its_timeout(open_app: Open) -> None:
    import asyncio

    def register(app: Ferryman) -> None:
        @app.on_command("Slow", timeout=0.05, max_retries=0)
        async def slow(command: Command) -> None:
            await asyncio.Event().wait()

    app = await open_app(register)
    async with app.worker():
        command = await app.commands.wait((await app.commands.send("Slow")).id, timeout=PATIENCE_SECONDS)

    assert (command.status, command.error_code) == (CommandStatus.FAILED, "TASK_RETRY_EXHAUSTED")
    assert "TASK_TIMEOUT" in (command.error_message or "")


@pytest.mark.contract("C2", "C7", "W14")
async def test_what_no_living_worker_knows_fails_with_a_clear_code(open_app: Open) -> None:
    """An unknown command type, and a capability that nobody registered; in the source both are silence."""

    def register(app: Ferryman) -> None:
        app.on_command("Known")(lambda command: [Message("Nobody.Has"), Message("Theirs", outside=True)])

    app = await open_app(register)
    async with app.worker():
        unknown = await app.commands.send("Unknown_Type")
        known = await app.commands.send("Known")
        await ended(app, known.command.task)
        # A worker with the code may be about to come up.
        assert (await tick(app, "W14-unknown", unknown_after=PATIENCE)).acted() == 0
        await shift(app, PATIENCE.total_seconds())
        # It lives, and has lived for long enough: the clock is moved for its beat as well.
        await rows(app, "update ferryman.workers set seen_until = seen_until + $1", PATIENCE)
        await rows(app, THEIRS)  # a remote worker of another tenant, which knows the capability, is no help

        report = await tick(app, "W14-unknown", unknown_after=PATIENCE)

    assert report.acted("W14-unknown") == 2
    command = await app.commands.get(unknown.id)
    assert (command.status, command.error_code) == (CommandStatus.FAILED, "COMMAND_UNKNOWN_TYPE")
    assert command.error_message == "no living worker has @app.on_command('Unknown_Type') in the queue default"
    gone, theirs = await task_rows(app, known.id)
    assert gone["status"] == "FAILED"
    assert '"code": "CAPABILITY_UNKNOWN"' in gone["error_data"]
    await app.commands.complete(async_task_id=theirs["id"])
    over = await app.commands.get(known.id)
    assert (over.status, over.error_code) == (CommandStatus.FAILED, "CAPABILITY_UNKNOWN")


@pytest.mark.contract("C2", "W14")
async def test_with_no_worker_alive_a_command_waits_for_one(open_app: Open) -> None:
    app = await open_app()
    sent = await app.commands.send("Known")
    await shift(app, 3600)

    await tick(app)

    assert (await app.commands.get(sent.id)).status is CommandStatus.RECEIVED


@pytest.mark.contract("C4")
async def test_a_capability_whose_input_or_answer_does_not_fit_fails_without_a_retry(open_app: Open) -> None:
    def register(app: Ferryman) -> None:
        app.on_command("Ask")(lambda command: [Message("Input", {"n": "x"}), Message("Answer"), Message("Told")])

        @app.capability("Input")
        async def number(n: int) -> int:
            return n

        @app.capability("Answer")
        async def answer() -> Any:
            return {1, 2}

        @app.capability("Told")
        async def told() -> Any:
            return {"type": "50%", "data": {"result": 1}}

    app = await open_app(register)
    async with app.worker():
        command = await app.commands.wait((await app.commands.send("Ask")).id, timeout=PATIENCE_SECONDS)

    tasks = await task_rows(app, command.id)
    assert [(each["status"], each["retry_count"]) for each in tasks] == [("FAILED", 0)] * 3
    codes = ["TASK_INVALID_PAYLOAD", "TASK_INVALID_RESULT", "TASK_EXECUTION_FAILED"]
    assert all(code in each["error_data"] for code, each in zip(codes, tasks, strict=True))
