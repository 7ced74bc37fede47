"""Mappings, capabilities and what follows them may do anything: their own command fails, and no other (R6, K25)."""

import asyncio
from typing import Any

import pytest

from ferryman import Command, Ferryman, Message, Result
from ferryman.commands.states import CommandStatus
from tests.commands.conftest import Open
from tests.patience import PATIENCE_SECONDS
from tests.tasks.anything import ANYTHING


def register(app: Ferryman) -> None:
    @app.on_command("Map.Request", max_retries=0)
    async def mapped(command: Command) -> Any:
        return ANYTHING[command.payload["what"]][0]()

    @app.on_command("Do.Request")
    async def does(command: Command) -> Message:
        return Message("Do.Trick", command.payload, max_retries=0)

    @app.capability("Do.Trick")
    async def trick(what: str) -> Any:
        return ANYTHING[what][0]()

    @app.on_command("Follow.Request")
    async def followed(command: Command) -> Message:
        return Message("Follow.Trick", command.payload)

    @app.capability("Follow.Trick")
    async def passed(what: str) -> str:
        return what

    @app.on_result("Follow.Trick.Completed", max_retries=0)
    async def follows(result: Result) -> Any:
        return ANYTHING[str(result.result)][0]()

    @app.on_command("Sound.Request")
    async def sound(command: Command) -> None:
        return None


@pytest.mark.contract("R6", "K25", "C2")
@pytest.mark.parametrize("kind", ["Map.Request", "Do.Request", "Follow.Request"])
async def test_a_command_that_meets_anything_fails_alone(open_app: Open, kind: str) -> None:
    app = await open_app(register)
    async with app.worker(concurrency=6), asyncio.timeout(PATIENCE_SECONDS):
        sent = {what: await app.commands.send(kind, {"what": what}) for what in ANYTHING}
        over = {what: await app.commands.wait(each.id) for what, each in sent.items()}
        sound = await app.commands.wait((await app.commands.send("Sound.Request")).id)

    assert sound.status is CommandStatus.COMPLETED
    assert {what: each.status for what, each in over.items() if each.status is not CommandStatus.FAILED} == {}
    assert all(each.error_code for each in over.values())
