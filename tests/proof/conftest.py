"""Proofs that take longer than a test may, or want more of the machine: `make proof` runs them, `make test` does not.

What they measured is told at the end, one line each.
"""

import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.crash.conftest import bell, ship

__all__ = ["bell", "ship"]

FIGURE = "figure"
Tell = Callable[[str], None]


@pytest.fixture
def ground() -> Iterator[Path]:
    """A folder that others can get into: the servers and poolers of root run as somebody else.

    It is not below that of pytest, which every run of pytest closes to others when it begins, also while this one goes on.
    """
    with tempfile.TemporaryDirectory(prefix="ferryman-proof-") as name:
        folder = Path(name)
        folder.chmod(0o711)
        yield folder


@pytest.fixture
def tell(request: pytest.FixtureRequest) -> Tell:
    """Say what was measured."""
    return lambda words: request.node.user_properties.append((FIGURE, words))


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Show what was measured."""
    for report in [*terminalreporter.stats.get("passed", ()), *terminalreporter.stats.get("failed", ())]:
        for name, words in report.user_properties:
            if name == FIGURE and report.when == "call":
                terminalreporter.write_line(f"  {words}")
