"""Put known bugs in, one at a time: the tests that each names must fail (R5).

A planted bug is a unified diff in tests/planted/, with a sentence that says what is wrong and the few tests that must notice.
It is applied to a copy of the tree, never to the tree itself. A patch that does not apply any more, or that a named test
passes, is a failure: of the patch in the first case, of the test in the second. A test that is red anyway notices nothing: all
that are named run once in a copy without any bug, and a bug whose tests do not pass there counts as missed.

With `--chaos` it is chaos that is put to the test: some of the bugs, each in a short run of its own, by one seed. A bug is
found when a check that is about it speaks, and not by a run that is red for something else. What was found once must be found
again.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from queue import SimpleQueue
from typing import TypeVar
from xml.etree import ElementTree

from ferryman.app.embedded import Embedded

ROOT = Path(__file__).resolve().parent.parent
PATCHES = ROOT / "tests" / "planted"
COPIED = ("src", "tests", "tools", "chaos", "pyproject.toml")
# Bugs that chaos is tried with, and the checks of its checker that are about each; the tests that they name find them all.
CHAOS: Mapping[str, tuple[str, ...]] = {
    "room-is-not-given-back": ("who_lives_on_works_on",),
    "no-fence-in-a-turn": ("success_was_earned",),
    "settle-ignores-the-epoch": ("success_was_earned",),
    "owed-after-the-commit": ("commands_are_complete", "own_rows_and_tasks_go_together", "nothing_lives_on"),
    "reader-by-bigserial": ("the_log_is_read_whole",),
    "step-of-a-stale-holder": ("steps_are_remembered",),
}
# Those that a run of this length seldom meets: found or not, nothing fails.
SELDOM = frozenset({"settle-ignores-the-epoch", "step-of-a-stale-holder"})
STORM = ("--seed", "7", "--minutes", "1.2")
Value = TypeVar("Value")
_TEST = re.compile(r"^ {2}(tests/\S.*)$", re.MULTILINE)


@dataclass(frozen=True)
class Planted:
    """One bug."""

    name: str
    patch: Path
    wrong: str
    tests: tuple[str, ...]


@dataclass(frozen=True)
class Verdict:
    """What the tests said of a bug."""

    planted: Planted
    caught: bool
    why: str
    seconds: float


def read(patch: Path) -> Planted:
    """Read a bug: the first line says what is wrong, the indented ones name tests."""
    head = patch.read_text(encoding="utf-8").partition("\n--- ")[0]
    tests = tuple(_TEST.findall(head))
    if not tests:
        raise ValueError(f"{patch.name} names no test")
    return Planted(patch.stem, patch, head.splitlines()[0], tests)


def bugs(only: str = "") -> list[Planted]:
    """Give all of them, by name."""
    return [read(patch) for patch in sorted(PATCHES.glob("*.patch")) if only in patch.stem]


def copy(place: Path) -> None:
    """Copy what the tests need."""
    for name in COPIED:
        source = ROOT / name
        if source.is_dir():
            shutil.copytree(source, place / name, ignore=shutil.ignore_patterns("__pycache__", ".*"))
        elif source.exists():
            shutil.copy(source, place / name)


def plant(bug: Planted, place: Path, *, try_only: bool = False) -> str | None:
    """Put a bug into a copy, or only see whether it fits; return what git says if it does not."""
    # Told that the copy is no part of a repository around it: git would take paths to be relative to that.
    surroundings = {**os.environ, "GIT_CEILING_DIRECTORIES": str(place.parent)}
    applied = subprocess.run(
        ["git", "apply", "-p1", *(["--check"] if try_only else []), str(bug.patch)],
        cwd=place,
        env=surroundings,
        capture_output=True,
        text=True,
        check=False,
    )
    return None if applied.returncode == 0 else f"the patch does not fit any more: {applied.stderr.strip()}"


def hunt(bug: Planted, url: str, red: Mapping[str, str]) -> Verdict:
    """Put a bug into a copy of the tree and run its tests there, unless they are red without it."""
    began = time.monotonic()
    why = "; ".join(f"{test} {red[test]} without it" for test in bug.tests if test in red) or None
    if why is None:
        with tempfile.TemporaryDirectory(prefix="ferryman-planted-") as folder:
            place = Path(folder)
            copy(place)
            why = plant(bug, place) or missed(bug, place, url)
    return Verdict(bug, why is None, why or "", time.monotonic() - began)


def missed(bug: Planted, place: Path, url: str) -> str | None:
    """Return why the bug was not caught, if so."""
    ran = _run(bug.tests, place, url)
    if ran.code != 1:
        return f"pytest ended with {ran.code}:\n{ran.said}"
    # A test of several cases has noticed when one of them has.
    passed = [test for test in bug.tests if "failed" not in ran.of(test)]
    return f"these passed: {', '.join(passed)}" if passed else None


def reds(tests: Sequence[str], url: str) -> dict[str, str]:
    """Run tests in a copy of the tree as it is; return those of which not every case passes, and what they do instead."""
    with tempfile.TemporaryDirectory(prefix="ferryman-planted-") as folder:
        place = Path(folder)
        copy(place)
        ran = _run(tests, place, url)
    found = {}
    for test in tests:
        came_to = ran.of(test)
        if came_to != {"passed"}:
            found[test] = ", ".join(sorted(came_to)) or "was not run"
    if found or ran.code:
        print(f"pytest ended with {ran.code} without any bug:\n{ran.said}", flush=True)
    return found


@dataclass(frozen=True)
class Ran:
    """How a run of pytest ended: its code, the end of what it said, and what each case came to."""

    code: int
    said: str
    cases: Mapping[str, str]

    def of(self, test: str) -> set[str]:
        """Return what the cases of one test came to."""
        return {end for case, end in self.cases.items() if case == test or case.startswith(f"{test}[")}


def _run(tests: Sequence[str], place: Path, url: str) -> Ran:
    report = place / "report.xml"
    kept = {name: value for name, value in os.environ.items() if not name.startswith("FERRYMAN_")}
    path = os.pathsep.join([str(place / "src"), str(place)])
    run = subprocess.run(
        [
            sys.executable,
            "-m",
            "pytest",
            "-q",
            "-p",
            "no:cacheprovider",
            "--timeout=100",
            f"--junitxml={report}",
            *tests,
        ],
        cwd=place,
        env={**kept, "PYTHONPATH": path, "FERRYMAN_DATABASE_URL": url},
        capture_output=True,
        text=True,
        check=False,
    )
    cases = ElementTree.parse(report).getroot().iter("testcase") if report.exists() else ()
    return Ran(
        run.returncode,
        f"{run.stdout[-2000:]}{run.stderr[-2000:]}",
        {f"{case.get('classname', '').replace('.', '/')}.py::{case.get('name', '')}": _end(case) for case in cases},
    )


def _end(case: ElementTree.Element) -> str:
    ends = {"failure": "failed", "error": "broke", "skipped": "was skipped"}
    return next((end for tag, end in ends.items() if case.find(tag) is not None), "passed")


def verdicts(wanted: Sequence[Planted], hands: int) -> Iterator[Verdict]:
    """Hunt them, some at a time, each hand with a server of its own; before that run all that they name without any bug."""
    servers: SimpleQueue[str] = SimpleQueue()
    named = sorted({test for bug in wanted for test in bug.tests})

    def lent(work: Callable[[str], Value]) -> Value:
        url = servers.get()
        try:
            return work(url)
        finally:
            servers.put(url)

    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="ferryman-planted-")))
        folder.chmod(0o711)  # the server of root runs as somebody else
        for hand in range(hands):
            server = stack.enter_context(Embedded(folder / f"pg{hand}", durable=False, keep=False))
            servers.put(server.url)
        pool = stack.enter_context(ThreadPoolExecutor(hands))
        shares = [share for hand in range(hands) if (share := named[hand::hands])]
        red: dict[str, str] = {}
        for found in pool.map(lambda share: lent(lambda url: reds(share, url)), shares):
            red |= found
        print(f"{len(named) - len(red)} of {len(named)} tests that are named pass without any bug.", flush=True)
        yield from pool.map(lambda bug: lent(lambda url: hunt(bug, url, red)), wanted)


@dataclass(frozen=True)
class Weather:
    """How a run of chaos ended, what it says is wrong, and the end of what it said else."""

    code: int
    wrong: Sequence[str]
    said: str

    def found(self, checks: Sequence[str]) -> str | None:
        """Return the first thing that one of these checks says is wrong."""
        told = [line for line in self.wrong if line.partition(":")[0] in checks]
        return told[0] if told and self.code == 1 else None

    def __str__(self) -> str:
        """Say the first thing that is wrong, whatever it is."""
        return self.wrong[0] if self.wrong else self.said if self.code else "nothing is wrong"


def weather(bug: Planted | None) -> Weather:
    """Run a short chaos in a copy of the tree, with a bug or without one."""
    with tempfile.TemporaryDirectory(prefix="ferryman-planted-") as folder:
        place = Path(folder)
        place.chmod(0o711)  # the server of root runs as somebody else
        copy(place)
        if bug is not None and (unfit := plant(bug, place)) is not None:
            return Weather(2, (), unfit)
        kept = {name: value for name, value in os.environ.items() if not name.startswith("FERRYMAN_")}
        path = os.pathsep.join([str(place / "src"), str(place)])
        run = subprocess.run(
            [sys.executable, "-m", "chaos", *STORM],
            cwd=place,
            env={**kept, "PYTHONPATH": path, "TMPDIR": str(place)},
            capture_output=True,
            text=True,
            check=False,
        )
    wrong = [line.removeprefix("WRONG").strip() for line in run.stdout.splitlines() if line.startswith("WRONG")]
    return Weather(run.returncode, wrong, run.stderr[-1000:])


def find(wanted: Sequence[Planted]) -> int:
    """Let chaos look for bugs, one at a time; fail if one that it can find was not found, or if it cries without any."""
    calm = weather(None)
    print(f"without any bug: {f'ended with {calm.code}: ' if calm.code else ''}{calm}", flush=True)
    unseen = 0
    for bug in wanted:
        began = time.monotonic()
        came = weather(bug)
        found = came.found(CHAOS[bug.name])
        unseen += found is None and bug.name not in SELDOM
        told = "found" if found else "not found" if bug.name in SELDOM else "MISSED"
        why = found or f"none of {', '.join(CHAOS[bug.name])} spoke: {came}"
        print(f"{told}  {bug.name}: {bug.wrong} ({time.monotonic() - began:.0f} s)  {why}", flush=True)
    return 1 if calm.code or unseen or not wanted else 0


def main(arguments: Sequence[str] | None = None) -> int:
    """Hunt, and name what was not caught."""
    parser = argparse.ArgumentParser(description="Put known bugs in; the tests that each names must fail.")
    parser.add_argument("--only", default="", help="bugs whose name contains this")
    parser.add_argument("--list", action="store_true", help="show them and hunt nothing")
    parser.add_argument("--chaos", action="store_true", help="let short runs of chaos look for some of them")
    parser.add_argument("--hands", type=int, default=os.cpu_count() or 2, help="how many at a time")
    asked = parser.parse_args(arguments)
    wanted = [bug for bug in bugs(asked.only) if bug.name in CHAOS or not asked.chaos]
    if asked.list:
        for bug in wanted:
            print(f"{bug.name}: {bug.wrong} ({len(bug.tests)} tests)")
        return 0
    if asked.chaos:
        return find(wanted)
    began = time.monotonic()
    unseen = 0
    for verdict in verdicts(wanted, asked.hands):
        unseen += not verdict.caught
        told = "caught" if verdict.caught else "MISSED"
        print(
            f"{told}  {verdict.planted.name}: {verdict.planted.wrong} ({verdict.seconds:.0f} s)  {verdict.why}",
            flush=True,
        )
    print(f"{len(wanted) - unseen} of {len(wanted)} planted bugs are caught, in {time.monotonic() - began:.0f} s.")
    return 1 if unseen or not wanted else 0


if __name__ == "__main__":
    sys.exit(main())
