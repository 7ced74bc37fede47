"""K15: a database is migrated under load, with workers and producers of the version before and of this one on it.

They run tasks with children, turns of agents that call tools, commands with their capabilities, and what schedules fire.

The version before is the code as it was just before the newest migration, out of the history of this repository. A clone
without a history has none: there this code plays the older one, and a migration that is to come is put on top of its own.
"""

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections import defaultdict
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from datetime import datetime
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from ferryman import Ferryman
from ferryman.app.wiring import watched
from ferryman.kernel import invariants, migrate
from tests.crash import judge, test_turns
from tests.crash.yard import until
from tests.migration import stalls
from tests.migration.test_rolling import grown
from tests.proof.conftest import Tell

ROOT = Path(__file__).resolve().parents[2]
MIGRATIONS = ROOT / "src" / "ferryman" / "migrations"
TERMS = {
    "FERRYMAN_WORKER__POLL": "0.1s",
    "FERRYMAN_WORKER__LEASE": "60s",
    "FERRYMAN_WORKER__GRACE": "5s",
    "FERRYMAN_WORKER__CONCURRENCY": "8",
}
# What a worker writes down when it does something of each kind.
KINDS = frozenset({"start", "turn", "tool", "resumed", "mapping", "capability", "tick"})
WORKERS, PRODUCERS = ("old-0", "old-1", "new-0"), ("old-producer", "new-producer")
SCHEDULES = ("first-tick", "second-tick", "third-tick")


@dataclass(frozen=True)
class Elder:
    """The version before: where its code is, the migrations that it knows, and those that come."""

    code: Path
    before: Path
    after: Path
    name: str


def elder(place: Path) -> Elder:
    """Take the version before out of the history; without one, let this version play it."""
    newest = max(MIGRATIONS.glob("*.sql"))
    asked = ["git", "log", "--diff-filter=A", "--format=%H", "-1", "--", str(newest.relative_to(ROOT))]
    added = subprocess.run(asked, cwd=ROOT, capture_output=True, text=True, check=False).stdout.strip()
    packed = subprocess.run(["git", "archive", f"{added}^", "src/ferryman"], cwd=ROOT, capture_output=True, check=False)
    if added and packed.returncode == 0:
        code = place / "elder"
        code.mkdir()
        subprocess.run(["tar", "-x", "-C", code], input=packed.stdout, check=True)
        return Elder(code / "src", code / "src" / "ferryman" / "migrations", MIGRATIONS, f"the parent of {added[:7]}")
    (place / "now").mkdir()
    shutil.copytree(MIGRATIONS, place / "now" / "migrations")
    return Elder(ROOT / "src", place / "now" / "migrations", grown(place), "this version, for want of a history")


class Crew:
    """Processes of several versions."""

    def __init__(self, url: str, folder: Path) -> None:
        self._url = url
        self._folder = folder
        self._running: dict[str, subprocess.Popen[bytes]] = {}

    def start(self, name: str, role: str, code: Path) -> None:
        kept = {key: value for key, value in os.environ.items() if not key.startswith("FERRYMAN_")}
        with self._file(name).open("wb") as told, self._file(f"{name}.error").open("wb") as errors:
            self._running[name] = subprocess.Popen(
                [sys.executable, str(Path(__file__).with_name("version.py")), role],
                env={**kept, **TERMS, "PYTHONPATH": str(code), "FERRYMAN_DATABASE_URL": self._url},
                cwd=self._folder, stdout=told, stderr=errors,
            )  # fmt: skip

    def _file(self, name: str) -> Path:
        return self._folder / f"{name}.told"

    def lines(self, *names: str, what: str | None = None) -> list[dict[str, Any]]:
        found = []
        for name in names:
            text = self._file(name).read_text(encoding="utf-8")
            found += [json.loads(line) for line in text.splitlines() if line.endswith("}")]
        return sorted((line for line in found if what in (None, line["what"])), key=lambda line: float(line["at"]))

    async def seen(self, name: str, what: str, count: int = 1) -> None:
        await until(
            lambda: len(self.lines(name, what=what)) >= count,
            f"{count} x {what} of {name}",
            also=lambda: self.errors(name),
        )

    def did(self, *names: str, since: float, until: float = float("inf")) -> set[str]:
        """Return what kinds of things were done in a time."""
        return {line["what"] for line in self.lines(*names) if since <= line["at"] <= until} & KINDS

    async def all_kinds(self, name: str, since: float) -> None:
        await until(
            lambda: self.did(name, since=since) == KINDS,
            f"one of each kind by {name}",
            also=lambda: f"{self.did(name, since=since)} {self.errors(name)}",
        )

    def errors(self, name: str) -> str:
        return self._file(f"{name}.error").read_text(encoding="utf-8")

    def stop(self, *names: str) -> list[int]:
        leaving = [self._running.pop(name) for name in names]
        for process in leaving:
            process.send_signal(signal.SIGTERM)
        return [process.wait(60) for process in leaving]

    def kill(self) -> None:
        for process in self._running.values():
            process.kill()
            process.wait()


@contextmanager
def crewed(url: str, folder: Path) -> Iterator[Crew]:
    made = Crew(url, folder)
    with ExitStack() as stack:
        stack.callback(made.kill)
        yield made


def pauses(crew: Crew, since: float, until: float) -> float:
    """Return the longest time in which no task was begun."""
    times = [line["at"] for line in crew.lines(*WORKERS, what="start") if since - 1 <= line["at"] <= until + 1]
    return max((after - before for before, after in pairwise(times)), default=0.0)


@pytest.mark.contract("K15", "K24")
async def test_versions_work_side_by_side_while_the_database_is_migrated(
    empty_database_url: str, tmp_path: Path, tell: Tell
) -> None:
    url, old = empty_database_url, elder(tmp_path)
    await migrate.migrate(url, folder=old.before)
    with crewed(url, tmp_path) as crew:
        for n in range(2):
            crew.start(f"old-{n}", "worker", old.code)
        crew.start("old-producer", "producer", old.code)
        for name in ("old-0", "old-1"):
            await crew.seen(name, "start", 100)
            await crew.all_kinds(name, 0.0)

        began = time.monotonic()
        async with stalls.noise() as noise, stalls.waits(url) as waits:
            applied = await migrate.migrate(url, folder=old.after)
        ended = time.monotonic()
        crew.start("new-0", "worker", ROOT / "src")
        crew.start("new-producer", "producer", ROOT / "src")
        await crew.seen("new-producer", "ok", 50)
        both = time.monotonic()
        for name in ("new-0", "old-0"):
            await crew.seen(name, "start", len(crew.lines(name, what="start")) + 150)
            await crew.all_kinds(name, both)
        alone = len(crew.lines("old-0", what="start"))
        # What the version before has begun is ended by this one alone.
        assert crew.stop("old-producer", "old-0", "old-1") == [0, 0, 0]
        await crew.seen("new-0", "start", len(crew.lines("new-0", what="start")) + 50)
        assert crew.stop("new-producer") == [0]
        await at_rest(url)
        assert crew.stop("new-0") == [0]
        knows = [crew.lines(name, what="working")[0]["knows"] for name in ("old-0", "new-0")]
        during, before = pauses(crew, began, ended), pauses(crew, 0.0, began - 2)
        created = crew.lines(*PRODUCERS, what="ok")
        handed = passed_on(crew)

        tell(
            f"versions: {old.name}, {', '.join(applied)} applied in {ended - began:.2f} s under load; longest wait for a table"
            f" {waits.seconds * 1000:.0f} ms (aim ≤ {stalls.STALL_SECONDS * 1000:.0f}; the machine was late by"
            f" {noise.seconds * 1000:.0f}), longest pause between starts {during * 1000:.0f} ms ({before * 1000:.0f} before);"
            f" {len(created)} acknowledged, {alone} starts of an old worker, {handed} turns passed on between the versions"
        )
        assert len(applied) >= 1
        assert handed > 0
        assert "history" in old.name or knows[0] < knows[1]
        assert crew.did("old-0", "old-1", since=began - 1, until=ended + 1) == KINDS
        assert waits.seconds < stalls.STALL_SECONDS + noise.seconds
        assert during < stalls.STALL_SECONDS + before + noise.seconds
        told_well(crew)
        await tasks_and_ticks_are_whole(url, crew)
        await turns_and_commands_are_whole(url, crew)
    assert await broken(url) == []


async def at_rest(url: str) -> None:
    """Let no schedule fire any more, and wait until everything has ended."""
    async with Ferryman(url) as app:
        for name in SCHEDULES:
            await app.schedules.delete(name)
    await test_turns.all_ended(url)
    await judge.all_ended(url)


def passed_on(crew: Crew) -> int:
    """Count the turns that one version began and the other took up again."""
    turned, resumed = (
        {what: {line["key"] for line in crew.lines(*names, what=what)} for what in ("turn", "resumed")}
        for names in (("old-0", "old-1"), ("new-0",))
    )
    return len((turned["turn"] & resumed["resumed"]) | (turned["resumed"] & resumed["turn"]))


def told_well(crew: Crew) -> None:
    """Nobody was refused but for want of the database, and nobody broke."""
    refused = {line["code"] for line in crew.lines(*PRODUCERS, what="refused")}
    assert refused <= {"DATABASE_UNAVAILABLE"}
    errors = [crew.errors(name) for name in (*WORKERS, *PRODUCERS)]
    assert all("Traceback" not in each for each in errors), errors


async def tasks_and_ticks_are_whole(url: str, crew: Crew) -> None:
    """Each task is there and was begun once; schedules fired each second, once."""
    rows = await judge.read(url, "select id::text, name, state, attempt, schedule, fire_time from ferryman.tasks")
    assert {(row["state"], row["attempt"]) for row in rows} == {("succeeded", 1)}
    acknowledged = {line["task"] for line in crew.lines(*PRODUCERS, what="ok") if "task" in line}
    assert acknowledged <= {row["id"] for row in rows}
    for name, what in (("job", "start"), ("tick", "tick")):
        begun = sorted(line["task"] for line in crew.lines(*WORKERS, what=what))
        assert begun == sorted(row["id"] for row in rows if row["name"] == name), name
    fired: dict[Any, list[datetime]] = defaultdict(list)
    for row in rows:
        if row["schedule"] is not None:
            fired[row["schedule"]].append(row["fire_time"])
    assert len(fired) == len(SCHEDULES)
    for times in fired.values():
        gaps = {(after - before).total_seconds() for before, after in pairwise(sorted(times))}
        assert gaps == {1.0}, sorted(times)


async def turns_and_commands_are_whole(url: str, crew: Crew) -> None:
    """Each turn that was acknowledged delivered once what it was asked for; each command ran its capability once."""
    acknowledged = crew.lines(*PRODUCERS, what="ok")
    turns = await judge.read(
        url,
        "select message.id::text, message.turn_status, card.content from ferryman.agent_inbox as message"
        " left join ferryman.cards as card on card.id = message.deliverable_card_id where message.message_type = 'turn'",
    )
    delivered = {row["id"]: (row["turn_status"], json.loads(row["content"])) for row in turns}
    asked = {line["turn"]: line["key"] for line in acknowledged if "turn" in line}
    assert delivered == {turn: ("success", [key, f"{key} weighs"]) for turn, key in asked.items()}
    ends = await judge.read(url, "select count(*) as n from ferryman.events where kind = 'agent.task' group by subject")
    assert [row["n"] for row in ends] == [1] * len(asked)
    commands = await judge.read(
        url,
        "select command.id::text, command.status, array_agg(made.status) as made from ferryman.command_inbox as command"
        " left join ferryman.async_tasks as made on made.triggered_by_command_id = command.id group by command.id",
    )
    done = {row["id"]: (row["status"], row["made"]) for row in commands}
    assert done == {line["command"]: ("COMPLETED", ["COMPLETED"]) for line in acknowledged if "command" in line}


async def broken(url: str) -> list[invariants.Violation]:
    """Return the invariants of all domains that do not hold."""
    async with Ferryman(url) as app, app.database.session() as tx:
        return await invariants.check(tx, watched.invariants())
