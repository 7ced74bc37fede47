"""How many orders were run, told at the end of a run of these tests; a whole run in all orders must have had enough of them."""

import os
from collections.abc import Generator, Sequence
from pathlib import Path

import pytest

from tests.property import interleave

ORDERS, CUT = "orders", "cut"
LEAST_ORDERS = 15_000  # docs/contracts/reliability.md
HERE = Path(__file__).parent
# What leaves tests out.
NARROWING = ("keyword", "markexpr", "deselect", "ignore", "ignore_glob", "lf", "stepwise")


@pytest.fixture
def database_url(database_url: str) -> str:
    """Let the pool keep the plan of a statement from the first on, as workers' lines do: each test has cold connections."""
    return f"{database_url}{'&' if '?' in database_url else '?'}plan_cache_mode=force_generic_plan"


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Generator[None, None, None]:
    """Write down how many orders a test has run; a deadlock in one of them fails the test."""
    before, cut = interleave.ran, interleave.cut
    yield
    if interleave.ran > before:
        item.user_properties += [(ORDERS, interleave.ran - before), (CUT, interleave.cut - cut)]


def pytest_sessionfinish(session: pytest.Session) -> None:
    """Fail a whole run in all orders that had too few of them."""
    if not hasattr(session.config, "workerinput") and _short(session.config) and not session.exitstatus:
        session.exitstatus = pytest.ExitCode.TESTS_FAILED


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    """Say how many it were, in all processes."""
    told = _passed(terminalreporter)
    counts = _told(told, ORDERS)
    if counts:
        failed = len(terminalreporter.stats.get("failed", ())) + len(terminalreporter.stats.get("error", ()))
        more = sum(_told(told, CUT))
        terminalreporter.write_line(
            f"interleavings: {sum(counts):,} orders of {len(counts)} tests, and {more} pairs or threes with more orders"
            f" than were walked; {failed} tests failed"
        )
        if _short(config):
            terminalreporter.write_line(
                f"interleavings: fewer than the {LEAST_ORDERS:,} that all of them are", red=True
            )


def _passed(reporter: pytest.TerminalReporter) -> list[pytest.TestReport]:
    return [report for report in reporter.stats.get("passed", ()) if report.when == "call"]


def _told(reports: Sequence[pytest.TestReport], what: str) -> list[int]:
    return [
        value for report in reports for name, value in report.user_properties if name == what and isinstance(value, int)
    ]


def _short(config: pytest.Config) -> bool:
    """Tell whether everything here was run in all orders, and those were too few."""
    reporter = config.pluginmanager.get_plugin("terminalreporter")
    if reporter is None or not os.environ.get("ALL_ORDERS"):
        return False
    told = _passed(reporter)
    narrowed = any(config.getoption(name, None) for name in NARROWING) or any("::" in each for each in config.args)
    seen = {Path(report.nodeid.partition("::")[0]).name for report in told}
    if narrowed or not seen >= {each.name for each in HERE.glob("test_*.py")}:
        return False
    return sum(_told(told, ORDERS)) < LEAST_ORDERS
