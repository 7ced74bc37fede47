"""Runs a test many times beside busy loops, to find out whether it depends on the speed of the machine.

`make flaky TEST=tests/crash/test_turns.py N=200 LOAD=8` starts 8 busy loops and runs each selected test 200 times, in several
processes of pytest-xdist with a PostgreSQL server each. It reports passes, failures and durations, and writes the output of
each failure to a file of its own. The exit code is 1 if a run failed, or if no test was selected.

The module is also the pytest plugin that repeats the tests (`-p tools.flaky --repeat N`).
"""

from __future__ import annotations

import argparse
import contextlib
import copy
import os
import re
import shlex
import signal
import statistics
import subprocess
import sys
import time
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NoReturn

import pytest
from xdist.scheduler import LoadScheduling, WorkStealingScheduling

ROOT = Path(__file__).resolve().parent.parent
SHOWN = 20
REPORTS = ROOT / ".cache" / "flaky"
# A loop also ends when the process that started it is gone, even if that process was killed.
BUSY = "import os\nstarter = os.getppid()\nwhile os.getppid() == starter:\n    for _ in range(1_000_000): pass"


@contextlib.contextmanager
def load(loops: int) -> Iterator[None]:
    """Keep so many busy loops running."""
    running = [subprocess.Popen([sys.executable, "-S", "-c", BUSY]) for _ in range(loops)]
    try:
        yield
    finally:
        for loop in running:
            loop.kill()
        for loop in running:
            loop.wait()


def main(arguments: list[str] | None = None) -> int:
    """Run the selected tests."""
    parser = argparse.ArgumentParser(prog="python -m tools.flaky", description=__doc__)
    parser.add_argument("tests", help="what to run, as pytest takes it: a test, a file, a folder, or 'FILE -k WORD'")
    parser.add_argument("-n", "--times", type=int, default=100, help="runs of each test (100)")
    parser.add_argument("--load", type=int, default=8, help="busy loops (8)")
    parser.add_argument("--jobs", type=int, default=2 * (os.cpu_count() or 2), help="tests at once (two for each core)")
    asked = parser.parse_args(arguments)
    folder = REPORTS / time.strftime("%Y%m%d-%H%M%S")
    folder.mkdir(parents=True)
    # Not split at brackets or spaces of an id: a test's name is one word, unless options follow it.
    tests = [asked.tests] if "::" in asked.tests else shlex.split(asked.tests)
    options = ["-q", "-r", "N", "--no-header", "--tb=long", "-p", "tools.flaky", "-n", str(asked.jobs)]
    repeat = ["--repeat", str(asked.times), "--repeat-reports", str(folder)]
    for number in (signal.SIGINT, signal.SIGTERM):  # a shell that starts us in the background has us ignore the first
        signal.signal(number, _leave)
    with (
        load(asked.load),
        subprocess.Popen([sys.executable, "-m", "pytest", *options, *repeat, *tests], cwd=ROOT) as runs,
    ):
        try:
            return runs.wait()
        finally:
            runs.terminate()


def _leave(number: int, _frame: object) -> NoReturn:
    raise SystemExit(128 + number)


def pytest_addoption(parser: pytest.Parser) -> None:
    """Declare the options of the plugin."""
    parser.addoption("--repeat", type=int, default=1, help="run each test so many times")
    parser.addoption("--repeat-reports", type=Path, default=None, help="folder for the output of each failure")


def pytest_configure(config: pytest.Config) -> None:
    """Collect results in the process that has all of them."""
    if config.getoption("--repeat-reports") is not None and not hasattr(config, "workerinput"):
        config.pluginmanager.register(_Results(config.getoption("--repeat-reports")))


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Select each test again and again. A copy has fixtures of its own, which the same test run twice in a row would not."""
    selected, items[:] = items[:], []
    for _ in range(config.getoption("--repeat")):
        for test in selected:
            again = copy.copy(test)
            if isinstance(again, pytest.Function):
                again._initrequest()  # noqa: SLF001 - pytest itself does this for a test that runs again
            items.append(again)


@pytest.hookimpl(optionalhook=True, tryfirst=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> LoadScheduling:
    """Give the next run to any free process, also of tests that the suite keeps together."""
    return WorkStealingScheduling(config, log)


class _Results:
    """Durations of all runs by test, and the output of those that failed."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._seconds: dict[str, dict[int, float]] = defaultdict(lambda: defaultdict(float))
        self._failed: dict[str, dict[int, Path]] = defaultdict(dict)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        test, run = report.nodeid, int(report.item_index)  # xdist gives each run a number
        self._seconds[test][run] += report.duration
        if report.failed:
            name = re.sub(r"[^\w.-]+", "_", test.rpartition("/")[2])[-150:]
            output = self._failed[test][run] = self._folder / f"{name}.{run}.txt"
            sections = "".join(f"\n---- {title}\n{text}" for title, text in report.sections)
            with output.open("a", encoding="utf-8") as file:
                file.write(f"{test}: {report.when} failed\n\n{report.longreprtext}\n{sections}\n")

    @pytest.hookimpl(tryfirst=True)
    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        """Show no tracebacks: they are in the files."""
        session.config.option.tbstyle = "no"

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        """List the tests that failed, and all of them where they are few."""
        terminalreporter.section("runs")
        for test, runs in self._seconds.items():
            failed, seconds = self._failed[test], runs.values()
            if failed or len(self._seconds) <= SHOWN:
                times = f"median {statistics.median(seconds):.1f} s, longest {max(seconds):.1f} s"
                terminalreporter.line(f"{len(runs) - len(failed)} passed, {len(failed)} failed, {times}: {test}")
            for run, output in failed.items():
                terminalreporter.line(f"    failed after {runs[run]:.1f} s: {output.relative_to(ROOT)}")


if __name__ == "__main__":
    sys.exit(main())
