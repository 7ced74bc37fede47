"""How many orders were run, told at the end of a run of these tests."""

from collections.abc import Iterator

import pytest

from tests.property import interleave

ORDERS = "orders"


@pytest.fixture(autouse=True)
def counted(request: pytest.FixtureRequest) -> Iterator[None]:
    """Write down how many orders a test has run; a deadlock in one of them fails the test."""
    before = interleave.ran
    yield
    if interleave.ran > before:
        request.node.user_properties.append((ORDERS, interleave.ran - before))


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Say how many it were, in all processes."""
    told = [report for report in terminalreporter.stats.get("passed", ()) if report.when == "call"]
    counts = [value for report in told for name, value in report.user_properties if name == ORDERS]
    if counts:
        failed = len(terminalreporter.stats.get("failed", ()))
        terminalreporter.write_line(
            f"interleavings: {sum(counts):,} orders of {len(counts)} tests, {failed} tests failed"
        )
