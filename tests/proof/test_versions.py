"""K15: a database is migrated under load, with workers and producers of the version before and of this one on it.

They run tasks with children, turns of agents that call tools, batches that agents fork, windows that are read into a table,
commands with their capabilities, and what schedules fire.

The version before is the code as it was just before the last few migrations, out of the history of this repository. A clone
without a history has none: there this code plays the older one, and a migration that is to come is put on top of its own;
under CI, where what cannot be tested is a failure, it fails instead.
"""

import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from datetime import datetime
from itertools import pairwise
from pathlib import Path
from typing import Any

import asyncpg
import pytest

from ferryman import Ferryman
from ferryman.app.wiring import watched
from ferryman.kernel import invariants, migrate
from ferryman.testing import Cluster
from tests.crash import judge, test_turns
from tests.crash.yard import until
from tests.migration import stalls
from tests.migration.test_rolling import grown
from tests.patience import PATIENCE_SECONDS
from tests.proof import version
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
KINDS = frozenset(
    {"start", "turn", "tool", "resumed", "mapping", "capability", "tick", "forked", "child", "joined", "page"}
)
# So many migrations are applied under load.
BACK = 5
CARGO = """
create table public.cargo (id bigint primary key, at timestamptz not null, value text not null, writes integer default 1);
create function public.count_write() returns trigger language plpgsql as
    $$ begin new.writes = old.writes + 1; return new; end $$;
create trigger cargo_written before update on public.cargo for each row execute function public.count_write();
"""
WORKERS, PRODUCERS = ("old-0", "old-1", "new-0"), ("old-producer", "new-producer")
SCHEDULES = ("first-tick", "second-tick", "third-tick")


@dataclass(frozen=True)
class Elder:
    """The version before: where its code is, the migrations that it knows, and those that come."""

    code: Path
    before: Path
    after: Path
    name: str
    comes: int


def elder(place: Path) -> Elder:
    """Take the version before out of the history; without one, let this version play it."""
    first = sorted(MIGRATIONS.glob("*.sql"))[-BACK]
    # What a merge has brought was added by the merge: its first parent did not have it.
    asked = [
        "git",
        "log",
        "-m",
        "--first-parent",
        "--diff-filter=A",
        "--format=%H",
        "-1",
        "--",
        str(first.relative_to(ROOT)),
    ]
    added = subprocess.run(asked, cwd=ROOT, capture_output=True, text=True, check=False).stdout.strip()
    packed = subprocess.run(["git", "archive", f"{added}^", "src/ferryman"], cwd=ROOT, capture_output=True, check=False)
    if added and packed.returncode == 0:
        code = place / "elder"
        code.mkdir()
        subprocess.run(["tar", "-x", "-C", code], input=packed.stdout, check=True)
        before = code / "src" / "ferryman" / "migrations"
        return Elder(code / "src", before, MIGRATIONS, f"the parent of {added[:7]}", BACK)
    if os.environ.get("CI"):
        pytest.fail(
            f"No version before {first.name} is in the history of {ROOT}, so that only this version would be tried beside"
            " itself. Take a clone with its whole history (git clone without --depth, or git fetch --unshallow)."
        )
    (place / "now").mkdir()
    shutil.copytree(MIGRATIONS, place / "now" / "migrations")
    return Elder(ROOT / "src", place / "now" / "migrations", grown(place), "this version, for want of a history", 1)


class Crew:
    """Processes of several versions."""

    def __init__(self, url: str, folder: Path) -> None:
        self._url = url
        self._folder = folder
        self._running: dict[str, subprocess.Popen[bytes]] = {}

    def start(self, name: str, role: str, code: Path) -> None:
        place = PRODUCERS.index(name) if name in PRODUCERS else 0
        kept = {key: value for key, value in os.environ.items() if not key.startswith("FERRYMAN_")}
        with self._file(name).open("wb") as told, self._file(f"{name}.error").open("wb") as errors:
            self._running[name] = subprocess.Popen(
                [sys.executable, str(Path(__file__).with_name("version.py")), role, str(place)],
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

    def did(self, *names: str, since: float) -> set[str]:
        """Return what kinds of things were done since then."""
        return {line["what"] for line in self.lines(*names) if since <= line["at"]} & KINDS

    async def all_kinds(self, *names: str, since: float) -> None:
        await until(
            lambda: self.did(*names, since=since) == KINDS,
            f"one of each kind by {names}",
            also=lambda: f"{self.did(*names, since=since)} {[self.errors(name) for name in names]}",
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


def pause(crew: Crew, since: float, until: float) -> float:
    """Return the longest time in which no task was begun, of those that reach into a time."""
    times = [float(line["at"]) for line in crew.lines(*WORKERS, what="start")]
    return max(after - before for before, after in pairwise(times) if after >= since and before <= until)


@pytest.mark.contract("K15")
def test_under_ci_a_clone_without_its_history_proves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    clone, ci, own = (tmp_path / name for name in ("clone", "ci", "own"))
    shutil.copytree(MIGRATIONS, clone / "migrations")
    ci.mkdir()
    own.mkdir()
    monkeypatch.setattr(sys.modules[__name__], "ROOT", clone)
    monkeypatch.setattr(sys.modules[__name__], "MIGRATIONS", clone / "migrations")
    monkeypatch.setenv("GIT_CEILING_DIRECTORIES", str(tmp_path))  # nor has what may be around it one

    monkeypatch.setenv("CI", "1")
    with pytest.raises(pytest.fail.Exception, match="whole history"):
        elder(ci)

    monkeypatch.delenv("CI")
    assert elder(own).name == "this version, for want of a history"


@pytest.mark.timeout(600)
@pytest.mark.contract("K15", "K24")
async def test_versions_work_side_by_side_while_the_database_is_migrated(
    cluster: Cluster, tmp_path: Path, tell: Tell
) -> None:
    old = elder(tmp_path)

    async def measure() -> stalls.Stall:
        async with cluster.database(migrated=False) as url:
            await migrate.migrate(url, folder=old.before)
            with crewed(url, Path(tempfile.mkdtemp(dir=tmp_path))) as crew:
                return await side_by_side(url, crew, old, tell)

    assert (await stalls.steady(measure)).short


async def side_by_side(url: str, crew: Crew, old: Elder, tell: Tell) -> stalls.Stall:
    """Migrate under the load of one version, let the other join it and stay alone, and see that all is whole."""
    await started(url, crew, old)
    began = time.monotonic()
    async with stalls.noise() as noise, stalls.waits(url) as waits:
        applied = await migrate.migrate(url, folder=old.after)
    ended = time.monotonic()
    await crew.all_kinds("old-0", "old-1", since=began)
    await joined(crew)
    alone = len(crew.lines("old-0", what="start"))
    # What the version before has begun is ended by this one alone.
    assert crew.stop("old-producer", "old-0", "old-1") == [0, 0, 0]
    await crew.seen("new-0", "start", len(crew.lines("new-0", what="start")) + 50)
    assert crew.stop("new-producer") == [0]
    await at_rest(url)
    assert crew.stop("new-0") == [0]

    during, before = pause(crew, began, ended), pause(crew, began - 2, began - 1)
    handed = passed_on(crew)
    tell(
        f"versions: {old.name}, {', '.join(applied)} applied in {ended - began:.2f} s under load; longest wait for a table"
        f" {waits.seconds * 1000:.0f} ms (aim ≤ {stalls.STALL_SECONDS * 1000:.0f}; unseen for {waits.unseen * 1000:.0f}; the"
        f" machine was late by {noise.seconds * 1000:.0f}), longest pause between starts {during * 1000:.0f} ms"
        f" ({before * 1000:.0f} before); {len(crew.lines(*PRODUCERS, what='ok'))} acknowledged, {alone} starts of an old"
        f" worker, {handed} turns passed on between the versions"
    )
    assert len(applied) >= old.comes
    assert handed > 0
    knows = [crew.lines(name, what="working")[0]["knows"] for name in ("old-0", "new-0")]
    assert "history" in old.name or knows[0] + BACK <= knows[1]
    told_well(crew)
    await tasks_and_ticks_are_whole(url, crew)
    await turns_and_commands_are_whole(url, crew)
    await batches_and_windows_are_whole(url, crew)
    assert await broken(url) == []
    return stalls.Stall(max(waits.most, during), noise.seconds)


async def started(url: str, crew: Crew, old: Elder) -> None:
    """Let the version before be at work with everything."""
    session = await asyncpg.connect(url)
    await session.execute(CARGO)
    await session.close()
    for n in range(2):
        crew.start(f"old-{n}", "worker", old.code)
    crew.start("old-producer", "producer", old.code)
    for name in ("old-0", "old-1"):
        await crew.seen(name, "start", 100)
        await crew.all_kinds(name, since=0.0)


async def joined(crew: Crew) -> None:
    """Let this version join in, until both have done everything side by side."""
    crew.start("new-0", "worker", ROOT / "src")
    crew.start("new-producer", "producer", ROOT / "src")
    await crew.seen("new-producer", "ok", 50)
    both = time.monotonic()
    for name in ("new-0", "old-0"):
        await crew.seen(name, "start", len(crew.lines(name, what="start")) + 150)
        await crew.all_kinds(name, since=both)


async def at_rest(url: str) -> None:
    """Let no schedule fire any more, and wait until everything has ended."""
    async with Ferryman(url) as app:
        for name in SCHEDULES:
            await app.schedules.delete(name)
        for plan in await judge.read(url, "select id from ferryman.ingest_plan"):
            await app.ingest.wait(plan["id"], timeout=PATIENCE_SECONDS)
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
    delivered = await deliverables(url, "clerk")
    asked = {line["turn"]: line["key"] for line in acknowledged if line.get("profile") == "clerk"}
    assert delivered == {turn: ("success", [key, f"{key} weighs"]) for turn, key in asked.items()}
    ends = await judge.read(url, "select count(*) as n from ferryman.events where kind = 'agent.task' group by subject")
    [turns] = await judge.read(url, "select count(*) as n from ferryman.agent_inbox where message_type = 'turn'")
    assert [row["n"] for row in ends] == [1] * turns["n"]
    commands = await judge.read(
        url,
        "select command.id::text, command.status, array_agg(made.status) as made from ferryman.command_inbox as command"
        " left join ferryman.async_tasks as made on made.triggered_by_command_id = command.id group by command.id",
    )
    done = {row["id"]: (row["status"], row["made"]) for row in commands}
    assert done == {line["command"]: ("COMPLETED", ["COMPLETED"]) for line in acknowledged if "command" in line}


async def deliverables(url: str, profile: str) -> dict[str, tuple[str, Any]]:
    """Return how each turn of a profile ended, and with what."""
    rows = await judge.read(
        url,
        "select message.id::text, message.turn_status, card.content from ferryman.agent_inbox as message"
        " join ferryman.agents as agent on agent.agent_id = message.agent_id and agent.tenant = message.tenant"
        " left join ferryman.cards as card on card.id = message.deliverable_card_id"
        " where message.message_type = 'turn' and agent.profile = $1",
        profile,
    )
    return {row["id"]: (row["turn_status"], json.loads(row["content"])) for row in rows}


async def batches_and_windows_are_whole(url: str, crew: Crew) -> None:
    """Each batch has all its children's results, in order; each record of each window is in the table, written once."""
    acknowledged = crew.lines(*PRODUCERS, what="ok")
    asked = {line["turn"]: line["key"] for line in acknowledged if line.get("profile") == "cox"}
    rowed = {turn: ["success", *(f"{key}-{n} rowed" for n in range(version.CHILDREN))] for turn, key in asked.items()}
    assert await deliverables(url, "cox") == {turn: ("success", words) for turn, words in rowed.items()}
    batches = await judge.read(url, "select status, task_count from ferryman.pmo_batches")
    assert [tuple(row) for row in batches] == [("success", version.CHILDREN)] * len(asked)
    windows = [range(*line["records"]) for line in acknowledged if "plan" in line]
    cargo = await judge.read(url, "select id, value, writes from public.cargo order by id")
    assert [tuple(row) for row in cargo] == [(n, f"v{n}", 1) for n in sorted(n for each in windows for n in each)]
    assert windows


async def broken(url: str) -> list[invariants.Violation]:
    """Return the invariants of all domains that do not hold."""
    async with Ferryman(url) as app, app.database.session() as tx:
        return await invariants.check(tx, watched.invariants())
