"""K15: a database is migrated under load, with workers and producers of the version before and of this one on it.

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
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from ferryman.kernel import migrate
from tests.crash import cargo, judge
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


def pauses(starts: list[dict[str, Any]], since: float, until: float) -> float:
    """Return the longest time in which nothing was begun."""
    times = [line["at"] for line in starts if since - 1 <= line["at"] <= until + 1]
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
        await crew.seen("old-0", "start", 100)
        await crew.seen("old-1", "start", 100)

        began = time.monotonic()
        async with stalls.noise() as noise, stalls.waits(url) as waits:
            applied = await migrate.migrate(url, folder=old.after)
        ended = time.monotonic()
        crew.start("new-0", "worker", ROOT / "src")
        crew.start("new-producer", "producer", ROOT / "src")
        for name in ("new-0", "old-0"):
            await crew.seen(name, "start", len(crew.lines(name, what="start")) + 150)
        await crew.seen("new-producer", "ok", 50)
        alone = len(crew.lines("old-0", what="start"))
        assert crew.stop("old-producer", "old-1") == [0, 0]
        await crew.seen("new-0", "start", len(crew.lines("new-0", what="start")) + 50)
        assert crew.stop("new-producer") == [0]
        await judge.all_ended(url)
        assert crew.stop("old-0", "new-0") == [0, 0]

        names = ("old-0", "old-1", "new-0")
        starts = crew.lines(*names, what="start")
        during, before = pauses(starts, began, ended), pauses(starts, 0.0, began - 2)
        created = crew.lines("old-producer", "new-producer", what="ok")
        told = [crew.errors(name) for name in (*names, "old-producer", "new-producer")]
        refused = {line["code"] for line in crew.lines("old-producer", "new-producer", what="refused")}
        knows = [crew.lines(name, what="working")[0]["knows"] for name in ("old-0", "new-0")]

    rows = await judge.read(url, "select id::text, state, attempt from ferryman.tasks")
    tell(
        f"versions: {old.name}, {', '.join(applied)} applied in {ended - began:.2f} s under load; longest wait for a table"
        f" {waits.seconds * 1000:.0f} ms (aim ≤ {stalls.STALL_SECONDS * 1000:.0f}; the machine was late by"
        f" {noise.seconds * 1000:.0f}), longest pause between starts {during * 1000:.0f} ms ({before * 1000:.0f} before);"
        f" {len(created)} created, {alone} starts of an old worker"
    )
    assert len(applied) >= 1
    assert refused <= {"DATABASE_UNAVAILABLE"}
    assert {(row["state"], row["attempt"]) for row in rows} == {("succeeded", 1)}
    assert {line["task"] for line in created} <= {row["id"] for row in rows}
    assert len(starts) == len({line["task"] for line in starts})
    assert all("Traceback" not in each for each in told), told
    assert "history" in old.name or knows[0] < knows[1]
    assert waits.seconds < stalls.STALL_SECONDS + noise.seconds
    assert during < stalls.STALL_SECONDS + before + noise.seconds
    assert await cargo.broken(url) == []
