"""How many orders were run, told at the end of a run of these tests."""

from collections.abc import Generator

import pytest

from tests.property import interleave

ORDERS = "orders"


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Generator[None, None, None]:
    """Write down how many orders a test has run; a deadlock in one of them fails the test."""
    before = interleave.ran
    yield
    if interleave.ran > before:
        item.user_properties.append((ORDERS, interleave.ran - before))


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Say how many it were, in all processes."""
    told = [report for report in terminalreporter.stats.get("passed", ()) if report.when == "call"]
    counts = [value for report in told for name, value in report.user_properties if name == ORDERS]
    if counts:
        failed = len(terminalreporter.stats.get("failed", ())) + len(terminalreporter.stats.get("error", ()))
        terminalreporter.write_line(
            f"interleavings: {sum(counts):,} orders of {len(counts)} tests; {failed} tests failed"
        )
