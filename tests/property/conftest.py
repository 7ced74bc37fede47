"""How many orders were run, told at the end of a run of these tests."""

from collections.abc import Generator

import pytest

from tests.property import interleave

ORDERS, CUT = "orders", "cut"


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Generator[None, None, None]:
    """Write down how many orders a test has run; a deadlock in one of them fails the test."""
    before, cut = interleave.ran, interleave.cut
    yield
    if interleave.ran > before:
        item.user_properties += [(ORDERS, interleave.ran - before), (CUT, interleave.cut - cut)]


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Say how many it were, in all processes."""
    told = [report for report in terminalreporter.stats.get("passed", ()) if report.when == "call"]
    counts = [value for report in told for name, value in report.user_properties if name == ORDERS]
    if counts:
        failed = len(terminalreporter.stats.get("failed", ())) + len(terminalreporter.stats.get("error", ()))
        more = sum(value for report in told for name, value in report.user_properties if name == CUT)
        terminalreporter.write_line(
            f"interleavings: {sum(counts):,} orders of {len(counts)} tests, and {more} pairs with more orders than were walked;"
            f" {failed} tests failed"
        )
