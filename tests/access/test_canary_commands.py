"""Secrets planted in what the command line reads, and looked for in what each of its commands says (S6, R7)."""

from __future__ import annotations

import asyncio

import pytest

from ferryman import Ferryman
from ferryman.app.tokens import ALL
from ferryman.cli import boundary, exits
from ferryman.testing import trial
from tests.access import test_canaries as canaries
from tests.access import town
from tests.surfaces import ferry
from tools import commands

FOUND = {path: app for path, app in commands.walk() if app.default_command is not None}
# They go on until they are told to stop, or take their time.
GOES_ON = {("demo",), ("dev",), ("worker",), ("server",), ("bench",)}
# The one command that shows a secret that is there already; that is what it is for.
SHOWS = {("relay", "webhook", "secret")}
# What a word stands for, by the group of the command, and where the town has one of it.
WORDS = {
    "agent AGENT_ID": "agents.agent_id",
    "agent BOX": "boxes.id",
    "agent TURN": "agent_inbox.id",
    "batch BATCH": "pmo_batches.id",
    "command ID": "command_inbox.id",
    "explain ID": "tasks.id",
    "ingest ID": "ingest_task.id",
    "queue NAME": "queues.name",
    "relay ID": "webhooks.name",
    "schedule ID": "schedules.schedule_id",
    "task ID": "tasks.id",
}
GIVEN = {
    "JSON": "{}", "URL": "https://example.com/hook", "--app": "harbour:app", "--since": "2026-01-01T00:00:00Z",
    "--to": "2026-01-01T00:00:00Z",
}  # fmt: skip


async def settle(url: str) -> tuple[dict[str, str], dict[str, str]]:
    """Give the town something of every kind, let it be done, and return its ids and the secrets."""
    app = town.furnish(Ferryman(url, doorbell="none", relays={"webhook_key": canaries.WEBHOOK_KEY, "webhooks": "off"}))
    async with trial.opened(app, url) as given:
        await town.settle(app, "default", "word")
        hook = await app.webhooks.add("https://example.com/hook", name="hook")
        made = await app.tokens.create("root", scopes="admin", tenant=ALL)
        await app.tasks.create("greet", {"card": canaries.PAYLOAD})
        await given.run()
        ids = await town.ids_of(app, "default")
    secrets = {
        "password": canaries.PASSWORD, "password of NATS": canaries.NATS_PASSWORD, "payload": canaries.PAYLOAD,
        "webhook key": canaries.WEBHOOK_KEY, "webhook secret": hook.secret, "token": made.text.rpartition("_")[2],
    }  # fmt: skip
    return ids, secrets


def typed(path: tuple[str, ...], ids: dict[str, str]) -> list[str]:
    """The shortest that a command takes, about something that is there as far as there is one."""
    words = list(path)
    for each in FOUND[path].assemble_argument_collection():
        name = each.names[0]
        if each.required:
            word = ids.get(WORDS.get(f"{path[0]} {name}", ""), GIVEN.get(name, "nobody"))
            words += [name, word] if name.startswith("-") else [word]
    return words


@pytest.mark.contract("S6", "R7", "S3")
def test_no_command_says_a_secret(
    database_url: str, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    url = canaries.with_password(database_url)
    ids, secrets = asyncio.run(settle(url))
    monkeypatch.setenv("FERRYMAN_DATABASE_URL", url)
    monkeypatch.setenv("FERRYMAN_RELAYS__WEBHOOK_KEY", canaries.WEBHOOK_KEY)
    monkeypatch.setenv("FERRYMAN_NATS_URL", f"nats://u:{canaries.NATS_PASSWORD}@127.0.0.1:1")
    monkeypatch.setenv("FERRYMAN_DOORBELL", "none")
    monkeypatch.chdir(ferry.HERE)
    capfd.readouterr()
    done = 0
    for path in FOUND.keys() - GOES_ON - SHOWS:
        for more in ([], ["--json"]):
            code = boundary.run([*typed(path, ids), *more])
            said = capfd.readouterr()
            done += code == exits.OK
            # A task's own page shows what it was given.
            shown = said.out.replace(canaries.PAYLOAD, "") if path[0] == "task" else said.out
            canaries.hides(f"{' '.join(path)}: {shown}{said.err}", secrets)

    assert done > len(FOUND)  # most of them, both ways

    for wrong in (f"postgresql://u:{canaries.PASSWORD}@127.0.0.1:1/x", f"{url}_nowhere"):
        monkeypatch.setenv("FERRYMAN_DATABASE_URL", wrong)
        for command in (["doctor"], ["config"], ["task", "list"], ["migrate"], ["token", "list", "--json"]):
            boundary.run(command)
            said = capfd.readouterr()
            assert said.out or said.err
            canaries.hides(f"{' '.join(command)}: {said.out}{said.err}", secrets)
