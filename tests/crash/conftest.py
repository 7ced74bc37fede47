"""Ships of the test's own, ended with it."""

import itertools
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.crash.yard import Ship

Launch = Callable[..., Ship]


@pytest.fixture
def ship(tmp_path: Path) -> Iterator[Launch]:
    """Make ships; whatever is left of them is killed at the end."""
    made: list[Ship] = []
    names = (f"ship{number}" for number in itertools.count())

    def make(url: str, **plan: object) -> Ship:
        made.append(Ship(tmp_path, next(names), url, **plan))  # type: ignore[arg-type]
        return made[-1]

    yield make
    for each in made:
        each.kill()
